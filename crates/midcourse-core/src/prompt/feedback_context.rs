//! What a feedback provider sees: the run so far, scoped to the prompt it is on.

use std::sync::Arc;

use super::{Filesystem, Prompt, Resources};
use crate::analysis::{ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Why};
use crate::ledger::LedgerPolicy;
use crate::message::Feedback;
use crate::session::{ProviderId, Session};
use crate::text::ProviderName;
use crate::time::{Deadline, Timestamp};

/// What a feedback provider sees. Every answer costs the same however long the run is.
#[derive(Clone, Copy)]
pub struct FeedbackContext<'a> {
    session: &'a Session,
    prompt: &'a Prompt,
    now: Timestamp,
}

impl<'a> FeedbackContext<'a> {
    /// The view of a session at a moment.
    pub const fn new(session: &'a Session, prompt: &'a Prompt, now: Timestamp) -> Self {
        Self { session, prompt, now }
    }

    /// The run's state.
    pub const fn session(&self) -> &'a Session {
        self.session
    }

    /// The prompt the run works on.
    pub const fn prompt(&self) -> &'a Prompt {
        self.prompt
    }

    /// The moment of asking.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// The analysis of the run.
    pub const fn trajectory(&self) -> &'a TrajectoryAnalysis {
        self.session.trajectory()
    }

    /// When the run has to be done, if it has to.
    pub const fn deadline(&self) -> Option<Deadline> {
        self.session.deadline()
    }

    /// What the prompt lends to providers.
    pub fn resources(&self) -> &'a Resources {
        self.prompt.resources()
    }

    /// The files of the run, if the prompt lends them.
    pub fn filesystem(&self) -> Option<&'a Arc<dyn Filesystem>> {
        self.resources().get::<Arc<dyn Filesystem>>()
    }

    /// The latest feedback of any provider.
    pub fn last_feedback(&self) -> Option<&'a Feedback> {
        self.session.slice::<Feedback>().latest()
    }

    /// The latest feedback of one provider, while it is kept.
    pub fn last_feedback_of(&self, provider: &str) -> Option<&'a Feedback> {
        let name = ProviderName::of(provider);
        let mut latest = self.session.slice::<Feedback>().all().rev();
        latest.find(|told| told.provider_name() == name.as_str())
    }

    /// When a provider last spoke.
    pub fn last_spoke(&self, provider: &str) -> Option<Timestamp> {
        self.session.last_feedback(ProviderId::of(provider)).map(|(at, _)| at)
    }

    /// Calls on this prompt.
    pub fn tool_call_count(&self) -> u64 {
        self.session.slice::<ToolInvoked>().total()
    }

    /// Calls since anybody last spoke.
    pub fn tool_calls_since_last_feedback(&self) -> u64 {
        self.tool_call_count().saturating_sub(self.session.last_feedback_call())
    }

    /// Calls since one provider last spoke.
    pub fn tool_calls_since_last_feedback_of(&self, provider: &str) -> u64 {
        let last = self.session.last_feedback(ProviderId::of(provider)).map_or(0, |(_, call)| call);
        self.tool_call_count().saturating_sub(last)
    }

    /// The last `n` calls on this prompt that are kept, oldest first.
    pub fn recent_tool_calls(&self, n: usize) -> Vec<&'a ToolInvoked> {
        let mut calls: Vec<_> = self.session.slice::<ToolInvoked>().all().rev().take(n).collect();
        calls.reverse();
        calls
    }

    /// Why one would speak of a pattern now: its cause, the next rung, and what shows it.
    pub fn why(&self, pattern: &TrajectoryPattern) -> Why {
        self.session.why(pattern)
    }

    /// Whether a cause may be spoken of now.
    pub fn may_deliver(&self, cause: &Cause) -> bool {
        self.session.may_deliver(cause, self.ledger_policy())
    }

    fn ledger_policy(&self) -> LedgerPolicy {
        self.prompt.delivery().ledger
    }
}

/// The same view through the observer names.
impl<'a> FeedbackContext<'a> {
    /// The latest assessment of any observer.
    pub fn last_assessment(&self) -> Option<&'a Feedback> {
        self.last_feedback()
    }

    /// Calls since anybody last spoke.
    pub fn tool_calls_since_last_assessment(&self) -> u64 {
        self.tool_calls_since_last_feedback()
    }
}
