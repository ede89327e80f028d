//! Outcomes: whether a problem went away after the agent got a message about it.

use serde::{Deserialize, Serialize};

/// Whether a problem went away after the agent got a message about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeVerdict {
    /// The detector stopped reporting the problem within five tool calls after the message, or
    /// found no new evidence of it in these five calls.
    Cleared,
    /// Five tool calls after the message, the detector still reported the problem, with new
    /// evidence.
    Ignored,
    /// The run ended before it was clear whether the problem was gone.
    RunEnded,
}

/// Whether one message that was delivered to the agent helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Position in the run (seq) of the record of the delivered message.
    pub delivery_seq: u64,
    /// Whether the problem that the message was about went away.
    pub verdict: OutcomeVerdict,
    /// Number of tool calls from the message to the verdict. If the problem shows in the text of
    /// model responses, such as a monologue, this counts model responses instead.
    pub after_calls: u64,
}
