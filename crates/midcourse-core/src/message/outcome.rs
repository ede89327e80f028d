//! Outcomes: what followed a delivery.

use serde::{Deserialize, Serialize};

/// What followed something that was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeVerdict {
    /// The trouble was gone within a few calls.
    Cleared,
    /// The trouble was still there.
    Ignored,
    /// The run ended before one could tell.
    RunEnded,
}

/// What followed one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The record of what was said.
    pub delivery_seq: u64,
    /// What followed.
    pub verdict: OutcomeVerdict,
    /// Calls it took to tell; answers, for trouble that shows in those.
    pub after_calls: u64,
}
