//! What a feedback provider sees: the run so far. Counts and history are those of the context's
//! prompt, whichever prompt the session is on.

use std::sync::Arc;

use super::{Filesystem, Prompt, PromptResources};
use crate::analysis::{ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Why};
use crate::message::{Assessment, Feedback};
use crate::session::{ProviderId, Session, Slice, SliceItem};
use crate::text::ProviderName;
use crate::time::{Deadline, Timestamp};

/// What a feedback provider sees. All methods take the same time in a long run as in a short one.
#[derive(Clone, Copy)]
pub struct FeedbackContext<'a> {
    session: &'a Session,
    prompt: &'a Prompt,
    now: Timestamp,
    deadline: Option<Deadline>,
}

impl<'a> FeedbackContext<'a> {
    /// The context of a prompt in a session at a point in time.
    pub const fn new(session: &'a Session, prompt: &'a Prompt, now: Timestamp) -> Self {
        Self { session, prompt, now, deadline: None }
    }

    /// Sets a deadline to use instead of the session's.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The state of the run: its analysis, deliveries, prompt and deadline.
    pub const fn session(&self) -> &'a Session {
        self.session
    }

    /// The prompt to which all counts and history of this context are limited.
    pub const fn prompt(&self) -> &'a Prompt {
        self.prompt
    }

    /// The time that counts as now, as the caller gave it.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// The calls, turns, errors and patterns of the run so far.
    pub const fn trajectory(&self) -> &'a TrajectoryAnalysis {
        self.session.trajectory()
    }

    /// The deadline of this context, or else that of the session.
    pub const fn deadline(&self) -> Option<Deadline> {
        match self.deadline {
            Some(deadline) => Some(deadline),
            None => self.session.deadline(),
        }
    }

    /// Sequence number of the record that set the deadline; empty if the caller of this context set
    /// it.
    pub(crate) fn deadline_evidence(&self) -> Vec<u64> {
        let is_own = self.deadline.is_some();
        if is_own { Vec::new() } else { self.session.deadline_evidence() }
    }

    /// Values that the prompt makes available to its providers.
    pub fn resources(&self) -> &'a PromptResources {
        self.prompt.resources()
    }

    /// The filesystem, if it is among the prompt's resources.
    pub fn filesystem(&self) -> Option<&'a dyn Filesystem> {
        let filesystem = self.resources().get_optional::<Arc<dyn Filesystem>>();
        filesystem.map(|filesystem| &**filesystem)
    }

    fn slice<T: SliceItem>(&self) -> Slice<'a, T> {
        self.session.slice_of_prompt(self.prompt.name())
    }

    /// The latest feedback of any provider on this prompt; `None` if there was none.
    pub fn last_feedback(&self) -> Option<&'a Feedback> {
        self.slice::<Feedback>().latest()
    }

    /// The latest feedback of one provider, if it is among those that the session keeps.
    pub fn last_feedback_of(&self, provider: &str) -> Option<&'a Feedback> {
        let name = ProviderName::of(provider);
        let mut latest_first = self.slice::<Feedback>().all().rev();
        latest_first.find(|feedback| feedback.provider_name() == name.as_str())
    }

    /// When the agent last got feedback of a provider, however long ago; `None` if it never did.
    pub fn last_feedback_time_of(&self, provider: &str) -> Option<Timestamp> {
        self.last_delivery(ProviderId::of(provider)).map(|(at, _)| at)
    }

    /// When the agent last got feedback of a provider, and after how many calls.
    pub(crate) fn last_delivery(&self, provider: ProviderId) -> Option<(Timestamp, u64)> {
        self.session.last_feedback(provider, self.prompt.name())
    }

    /// Number of tool calls that the run has made on this prompt.
    pub fn tool_call_count(&self) -> u64 {
        self.slice::<ToolInvoked>().total()
    }

    /// Number of tool calls since the latest feedback of any provider.
    pub fn tool_calls_since_last_feedback(&self) -> u64 {
        let last = self.session.last_feedback_call(self.prompt.name());
        self.tool_call_count().saturating_sub(last)
    }

    /// Number of tool calls since the latest feedback of one provider.
    pub fn tool_calls_since_last_feedback_of(&self, provider: &str) -> u64 {
        let last = self.last_delivery(ProviderId::of(provider)).map_or(0, |(_, call)| call);
        self.tool_call_count().saturating_sub(last)
    }

    /// The latest `n` tool calls, oldest first; fewer if the session keeps fewer.
    pub fn recent_tool_calls(&self, n: usize) -> Vec<&'a ToolInvoked> {
        let mut calls: Vec<_> = self.slice::<ToolInvoked>().all().rev().take(n).collect();
        calls.reverse();
        calls
    }

    /// The reason to attach to a message about a pattern: its cause, the number of the message, and
    /// evidence.
    pub fn why(&self, pattern: &TrajectoryPattern) -> Why {
        self.session.why(pattern)
    }

    /// Whether a message about a cause may be delivered now, or has to wait because of earlier
    /// ones.
    pub fn may_deliver(&self, cause: &Cause) -> bool {
        self.session.may_deliver(cause, self.prompt.delivery().ledger)
    }
}

/// Methods about feedback under the names that observers use.
impl<'a> FeedbackContext<'a> {
    /// The latest assessment of any observer on this prompt; `None` if there was none.
    pub fn last_assessment(&self) -> Option<&'a Assessment> {
        self.slice::<Assessment>().latest()
    }

    /// Number of tool calls since the latest assessment of any observer.
    pub fn tool_calls_since_last_assessment(&self) -> u64 {
        self.tool_calls_since_last_feedback()
    }
}
