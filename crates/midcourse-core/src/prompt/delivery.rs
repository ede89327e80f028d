//! How many messages a prompt allows.

use crate::ledger::LedgerPolicy;

/// Limits on the messages of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// Which feedback is delivered if several providers have some.
    pub feedback: FeedbackPolicy,
    /// How much guidance is delivered at one decision point.
    pub guidance: GuidanceSelection,
    /// How long a cause waits between two messages.
    pub ledger: LedgerPolicy,
    /// Most messages in one run.
    pub max_deliveries: Option<u64>,
    /// Most characters in one run: after the message that reaches it, there are no more.
    pub max_chars: Option<u64>,
}

/// Which feedback is delivered if several providers have some.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FeedbackPolicy {
    /// That of the first provider, in the order of the template. The others stay due.
    #[default]
    FirstMatch,
    /// All of it.
    AllMatching,
}

/// How much guidance is delivered at one decision point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuidanceSelection {
    /// Most messages at one decision point.
    pub max_per_decision: usize,
}

impl Default for GuidanceSelection {
    /// Three messages.
    fn default() -> Self {
        Self { max_per_decision: 3 }
    }
}
