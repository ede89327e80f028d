//! An engine that remembers which records of a stored run it has seen.
//!
//! Before the store shows a new event to an engine, the engine must have seen all earlier records
//! of the run. If it has not, [`checkpoint`](super::checkpoint) shows it the missing ones.

use midcourse_core::{Checkpoint, CheckpointError, Engine, RunId};

use super::chain::Link;

/// An engine that remembers which run it has read, and up to which stored record.
pub struct SyncedEngine {
    engine: Engine,
    /// The saved state of the engine before its first record. The engine is reset to this state
    /// before it reads another run.
    empty: Checkpoint,
    position: Option<(RunId, Link)>,
}

impl SyncedEngine {
    /// Wraps an engine that has seen no records yet. Fails if the engine's state cannot be saved.
    pub fn new(engine: Engine) -> Result<Self, CheckpointError> {
        Ok(Self { empty: engine.checkpoint()?, engine, position: None })
    }

    /// The engine, to inspect its state.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Takes the engine out, to use it without a store.
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    pub(super) const fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Whether the engine has seen exactly the records of this run up to the one whose hash is
    /// `link`.
    pub(super) fn is_at(&self, run: &RunId, link: &Link) -> bool {
        self.position.as_ref().is_some_and(|(at, head)| at == run && head == link)
    }

    /// Notes that the engine has seen the records of the run up to the one whose hash is `link`.
    pub(super) fn set_position(&mut self, run: &RunId, link: Link) {
        self.position = Some((run.clone(), link));
    }

    /// Notes that the engine's state does not match what is stored. The state is then loaded again
    /// before the next event.
    pub(super) fn clear_position(&mut self) {
        self.position = None;
    }

    /// Loads a checkpoint (a saved state) into the engine. If there is none, or the engine does not
    /// accept it, resets the engine and returns `false`.
    pub(super) fn load(&mut self, checkpoint: Option<Checkpoint>) -> bool {
        self.position = None;
        if let Some(checkpoint) = checkpoint
            && self.engine.restore(&checkpoint).is_ok()
        {
            return true;
        }
        // An engine can always restore the checkpoint it wrote itself.
        let _ = self.engine.restore(&self.empty);
        false
    }
}
