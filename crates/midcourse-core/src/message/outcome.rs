//! Outcomes: what followed a delivery.

use serde::{Deserialize, Serialize};

/// What followed a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeVerdict {
    /// The pattern that the message was about was gone within a few calls.
    Cleared,
    /// The pattern was still there after a few calls.
    Ignored,
    /// The run ended before it was clear whether the pattern was gone.
    RunEnded,
}

/// The outcome of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Sequence number of the delivery's record.
    pub delivery_seq: u64,
    /// Whether the pattern was gone after the delivery.
    pub verdict: OutcomeVerdict,
    /// Number of tool calls from the delivery to the verdict, or of model responses if the pattern
    /// shows in responses.
    pub after_calls: u64,
}
