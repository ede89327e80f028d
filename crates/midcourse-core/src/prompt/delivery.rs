//! How many messages a prompt allows.

use crate::ledger::LedgerPolicy;

/// Limits on the messages of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// Which feedback is delivered if several providers have some.
    pub feedback: FeedbackPolicy,
    /// How much guidance is delivered at one decision point.
    pub guidance: GuidanceSelection,
    /// How many calls have to pass between two messages about the same cause.
    pub ledger: LedgerPolicy,
    /// The maximum number of messages in one run; `None` for no limit.
    pub max_deliveries: Option<u64>,
    /// The maximum number of characters in all messages of one run; once they are reached, no more
    /// messages are delivered. `None` for no limit.
    pub max_chars: Option<u64>,
}

/// Which feedback is delivered if several providers have some.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FeedbackPolicy {
    /// Only the feedback of the first provider that has some, in the order of the template. The
    /// other providers are asked again after the next call.
    #[default]
    FirstMatch,
    /// The feedback of all providers that have some.
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
