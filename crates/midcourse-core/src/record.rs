//! Records: the events of a run, as stored.
//!
//! A record is an envelope (run, seq, time) around one [`TrajectoryPayload`]. The crate
//! `clark-agent` stores runs too; the payloads that both have are the same in JSON, so that each
//! reads the other's files. Most payloads are events that a host (the program that runs the agent)
//! reported. The engine itself makes `feedback_delivered`, `guidance_delivered` and `outcome`; a
//! replay drops these records and computes them again.

mod identity;
mod message;
mod outcome;
mod payload;

pub use identity::{CallId, RunId, RunIdentity};
pub(crate) use message::all_counts;
pub use message::{
    AgentMessage, AssistantBlock, AssistantContent, ImageContent, ReasoningDetailsContent,
    StopReason, TextContent, ToolCallBlock, ToolResult, ToolResultBlock, ToolResultContent, Usage,
    UserBlock, UserContent,
};
pub use outcome::RunOutcome;
pub use payload::{GapReason, TrajectoryPayload};

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Schema version of the records that this release writes.
///
/// A release raises the version if readers must be able to tell its records from older ones. A
/// stored record without a version is read as version 0.
pub const TRAJECTORY_SCHEMA_VERSION: u32 = 1;

/// One event of a run, with its time and its position in the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryRecord {
    /// Schema version of the release that wrote the record; 0 if the record has no version.
    #[serde(default)]
    pub schema_version: u32,
    /// Position in the run: 0, 1, 2, … without gaps or repeats.
    pub seq: u64,
    /// Id of the run; `None` until `in_run` sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Id of the run that started this run as a subagent; `None` if a user started this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// 0 for a run that a user started, 1 for its subagents, 2 for their subagents, and so on.
    #[serde(default)]
    pub depth: usize,
    /// The time of the event, in milliseconds since 1970.
    pub recorded_at_unix_ms: Timestamp,
    /// What happened, with its details.
    pub payload: TrajectoryPayload,
}

impl TrajectoryRecord {
    /// A record of the current schema version that belongs to no run yet.
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

    /// Sets the run that the record belongs to.
    #[must_use]
    pub fn in_run(mut self, identity: &RunIdentity) -> Self {
        self.run_id = Some(identity.run_id.clone());
        self.parent_run_id = identity.parent_run_id.clone();
        self.depth = identity.depth;
        self
    }

    /// The time of the event: a shorter name for the field `recorded_at_unix_ms`.
    pub const fn at(&self) -> Timestamp {
        self.recorded_at_unix_ms
    }
}
