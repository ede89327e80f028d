//! The delivery policy of a prompt: which messages the agent gets, and how many.

use crate::ledger::LedgerPolicy;

/// Limits on the messages that the agent gets in one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// Which feedback the agent gets if several providers have feedback after one tool call.
    pub feedback: FeedbackPolicy,
    /// How much guidance is delivered at one decision point.
    pub guidance: GuidanceSelection,
    /// How many tool calls have to pass between two messages about the same problem.
    pub ledger: LedgerPolicy,
    /// The maximum number of messages in one run; `None` for no limit.
    pub max_deliveries: Option<u64>,
    /// Once the messages of a run have this many characters together, no further message is
    /// delivered. `None` for no limit.
    pub max_chars: Option<u64>,
}

/// Which feedback the agent gets if several providers have feedback after one tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FeedbackPolicy {
    /// The agent gets feedback from one provider only: the first that has any, in the order in
    /// which they were added. The other providers are asked again after the next tool call.
    #[default]
    FirstMatch,
    /// The agent gets the feedback of all providers, but at most one message about each problem.
    AllMatching,
}

/// How much guidance is delivered at one decision point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuidanceSelection {
    /// The maximum number of messages at one decision point.
    pub max_per_decision: usize,
}

impl Default for GuidanceSelection {
    /// Three messages at one decision point.
    fn default() -> Self {
        Self { max_per_decision: 3 }
    }
}
