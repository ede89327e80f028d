//! How many messages a prompt allows, and what collecting them returns.

use crate::fault::Fault;
use crate::ledger::LedgerPolicy;
use crate::message::{Feedback, GuidanceDelivered, format_guidance};

/// How much is said, and who goes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// Who speaks when several have feedback.
    pub feedback: FeedbackPolicy,
    /// How much guidance one decision gets.
    pub guidance: GuidanceSelection,
    /// How long a cause waits before it is spoken of again.
    pub ledger: LedgerPolicy,
    /// The most that is said in one run, in pieces.
    pub max_deliveries: Option<u64>,
    /// The most that is said in one run, in characters.
    pub max_chars: Option<u64>,
}

/// Who speaks when several have something to say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FeedbackPolicy {
    /// The first, in the order of declaration; the next one due speaks after the next call.
    #[default]
    FirstMatch,
    /// All of them.
    AllMatching,
}

/// How many pieces of guidance one decision gets at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuidanceSelection {
    /// The number of pieces.
    pub max_per_decision: usize,
}

impl Default for GuidanceSelection {
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
