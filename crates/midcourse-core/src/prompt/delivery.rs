//! How many messages a prompt allows, and what collecting them returns.

use crate::fault::Fault;
use crate::ledger::LedgerPolicy;
use crate::message::{Feedback, GuidanceDelivered, format_guidance};

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

/// The answer to a question to the providers.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked<T> {
    /// What is to be said, in order.
    pub said: Vec<T>,
    /// Providers that failed and were skipped.
    pub faults: Vec<Fault>,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self { said: Vec::new(), faults: Vec::new() }
    }
}

impl Asked<Feedback> {
    /// The words for the host, if there are any.
    pub fn text(&self) -> Option<String> {
        let texts: Vec<String> = self.said.iter().map(Feedback::render).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}

impl Asked<GuidanceDelivered> {
    /// The words for the host, if there are any.
    pub fn text(&self) -> Option<String> {
        let text = format_guidance(self.said.iter().map(|piece| &piece.injection));
        (!text.is_empty()).then_some(text)
    }
}
