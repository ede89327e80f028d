//! Records: the facts of a run, as stored.
//!
//! A record is an envelope (run, seq, time) around one [`TrajectoryPayload`]. The JSON of the kinds
//! that `clark-agent` also writes has the same shape as there, so either side reads the other's
//! files. Nothing in a record is an opinion except the kinds that say so (`*_delivered`,
//! `outcome`), and a replay drops those and makes them anew.

mod identity;
mod message;
mod outcome;
mod payload;

pub use identity::{CallId, RunId, RunIdentity};
pub use message::{
    AgentMessage, AssistantBlock, AssistantContent, ImageContent, ReasoningDetailsContent,
    StopReason, TextContent, ToolCallBlock, ToolResult, ToolResultBlock, ToolResultContent, Usage,
    UserBlock, UserContent,
};
pub use outcome::RunOutcome;
pub use payload::{GapReason, TrajectoryPayload};

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The schema version stamped on every new record.
///
/// It is raised when a reader has to tell old from new. Version 0 means "written before versions
/// existed".
pub const TRAJECTORY_SCHEMA_VERSION: u32 = 1;

/// One fact of a run: which run, in which place, when, and what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryRecord {
    /// The schema this record was written with; a record that does not say reads as 0.
    #[serde(default)]
    pub schema_version: u32,
    /// The place in the run: 0, 1, 2, … without holes or repeats.
    pub seq: u64,
    /// The run, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// 0 for a run that a person started, one more for each run above it.
    #[serde(default)]
    pub depth: usize,
    /// When the fact was recorded.
    pub recorded_at_unix_ms: Timestamp,
    /// The fact.
    pub payload: TrajectoryPayload,
}

impl TrajectoryRecord {
    /// A record of the current schema that belongs to no run yet.
    pub fn new(seq: u64, at: Timestamp, payload: TrajectoryPayload) -> Self {
        Self {
            schema_version: TRAJECTORY_SCHEMA_VERSION,
            seq,
            run_id: None,
            parent_run_id: None,
            depth: 0,
            recorded_at_unix_ms: at,
            payload,
        }
    }

    /// The same record, as one of this run.
    #[must_use]
    pub fn in_run(mut self, identity: &RunIdentity) -> Self {
        self.run_id = Some(identity.run_id.clone());
        self.parent_run_id = identity.parent_run_id.clone();
        self.depth = identity.depth;
        self
    }

    /// When the fact was recorded.
    pub const fn at(&self) -> Timestamp {
        self.recorded_at_unix_ms
    }
}
