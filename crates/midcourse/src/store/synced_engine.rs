//! An engine, and how far into a stored run it has come.
//!
//! The store brings the engine to a run's latest record before it asks it about the next one
//! ([`checkpoint`](super::checkpoint)). An engine that is there already is not moved.

use midcourse_core::{Checkpoint, CheckpointError, Engine, RunId};

use super::chain::Link;

/// An engine that the store keeps in step with a run.
pub struct SyncedEngine {
    engine: Engine,
    /// The engine before it has seen anything, to start another run from.
    empty: Checkpoint,
    position: Option<(RunId, Link)>,
}

impl SyncedEngine {
    /// Takes an engine that has seen nothing yet.
    pub fn new(engine: Engine) -> Result<Self, CheckpointError> {
        Ok(Self { empty: engine.checkpoint()?, engine, position: None })
    }

    /// The engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Takes the engine out.
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    pub(super) const fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Whether the engine has taken in this run up to exactly this link.
    pub(super) fn is_at(&self, run: &RunId, link: &Link) -> bool {
        self.position.as_ref().is_some_and(|(at, head)| at == run && head == link)
    }

    /// Notes that the engine has taken in the run up to this link.
    pub(super) fn set_position(&mut self, run: &RunId, link: Link) {
        self.position = Some((run.clone(), link));
    }

    /// Notes that the engine's state no longer matches what is stored.
    pub(super) fn clear_position(&mut self) {
        self.position = None;
    }

    /// Loads a checkpoint; returns `false` and starts from nothing if there is none that fits.
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
