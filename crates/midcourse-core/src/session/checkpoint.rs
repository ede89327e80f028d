//! Checkpoints: a session saved as bytes.
//!
//! If the host calls midcourse as a hook, a new process handles every event: it restores the
//! checkpoint, applies one record and saves a new checkpoint. A checkpoint is only a cache: the
//! session can always be computed from the records ("folding" them). A checkpoint of another
//! version is refused with an error, and the caller folds the records again.

use serde::{Deserialize, Serialize};

use super::Session;
use super::state::State;
use crate::analysis::TrajectoryAnalysis;
use crate::detect::{BuiltIn, SavedDetector};

/// Version of the checkpoint format, stored as the first byte of a checkpoint. Every change of the
/// format raises the version.
pub const CHECKPOINT_VERSION: u8 = 10;

/// A session saved as bytes, which `Session::restore` reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Checkpoint(Vec<u8>);

impl Checkpoint {
    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Checkpoint {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// Why a session cannot be saved or restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The checkpoint has the format of another release.
    #[error(
        "the checkpoint has version {found}, but this release reads version {CHECKPOINT_VERSION}; fold the records again"
    )]
    Version {
        /// Version of the checkpoint's format.
        found: u8,
    },
    /// The bytes of the checkpoint cannot be read.
    #[error("the checkpoint is damaged ({0}); fold the records again")]
    Damaged(String),
}

#[derive(Serialize)]
struct SaveWire<'a> {
    state: &'a State,
    analysis: &'a TrajectoryAnalysis,
    built_in: &'a BuiltIn,
    custom: Vec<SavedDetector>,
}

#[derive(Deserialize)]
struct LoadWire {
    state: State,
    analysis: TrajectoryAnalysis,
    built_in: BuiltIn,
    custom: Vec<SavedDetector>,
}

impl Session {
    /// Saves the session, so that another process can continue the run from here.
    pub fn checkpoint(&self) -> Result<Checkpoint, CheckpointError> {
        let (analysis, built_in, custom) = self.builder.save();
        let wire = SaveWire { state: &self.state, analysis, built_in, custom };
        postcard::to_extend(&wire, vec![CHECKPOINT_VERSION])
            .map(Checkpoint)
            .map_err(|error| CheckpointError::Damaged(error.to_string()))
    }

    /// Replaces the state of this session with the state in a checkpoint. The session keeps its own
    /// configuration and its own list of detectors.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        match checkpoint.0.split_first() {
            Some((&CHECKPOINT_VERSION, rest)) => {
                let wire: LoadWire = postcard::from_bytes(rest)
                    .map_err(|error| CheckpointError::Damaged(error.to_string()))?;
                self.builder.restore(wire.analysis, wire.built_in, &wire.custom);
                self.state = wire.state;
                Ok(())
            }
            Some((&found, _)) => Err(CheckpointError::Version { found }),
            None => Err(CheckpointError::Damaged("it is empty".to_owned())),
        }
    }
}

/// Reads and writes the identity of a run with all its fields. `RunIdentity` itself leaves out
/// empty fields, which works in JSON. A checkpoint has no field names, so none may be left out.
pub(super) mod identity {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::record::{RunId, RunIdentity};
    use crate::time::Timestamp;

    type Wire = (RunId, Option<RunId>, usize, Option<String>, Option<Timestamp>);

    pub(in crate::session) fn serialize<S: Serializer>(
        identity: &Option<RunIdentity>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let wire = identity.as_ref().map(|run| {
            let RunIdentity { run_id, parent_run_id, depth, conversation_id, deadline_unix_ms } =
                run;
            (run_id, parent_run_id, depth, conversation_id, deadline_unix_ms)
        });
        wire.serialize(serializer)
    }

    pub(in crate::session) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<RunIdentity>, D::Error> {
        let wire: Option<Wire> = Deserialize::deserialize(deserializer)?;
        Ok(wire.map(|(run_id, parent_run_id, depth, conversation_id, deadline_unix_ms)| {
            RunIdentity { run_id, parent_run_id, depth, conversation_id, deadline_unix_ms }
        }))
    }
}
