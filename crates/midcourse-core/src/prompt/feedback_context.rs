//! The context that a feedback provider gets: the run so far.
//!
//! A run can switch between prompts. A context belongs to one prompt. It counts only the calls that
//! the run made with that prompt and the feedback for it, even if the run uses another prompt now.

use std::sync::Arc;

use super::{Filesystem, Prompt, PromptResources};
use crate::analysis::{ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::message::{Assessment, Feedback};
use crate::session::{ProviderId, Session, Slice, SliceItem};
use crate::text::ProviderName;
use crate::time::{Deadline, Timestamp};
use crate::why::Why;

/// What a feedback provider sees when it decides whether the agent needs feedback. No method gets
/// slower as the run gets longer.
///
/// A context belongs to one prompt. In its methods, "on this prompt" means: tool calls that the run
/// made while it used this prompt, and feedback that was made for this prompt.
#[derive(Clone, Copy)]
pub struct FeedbackContext<'a> {
    session: &'a Session,
    prompt: &'a Prompt,
    now: Timestamp,
    deadline: Option<Deadline>,
    has_result: bool,
}

impl<'a> FeedbackContext<'a> {
    /// A context for the feedback providers of `prompt`. The caller passes the current time as
    /// `now`, because this crate reads no clock.
    pub const fn new(session: &'a Session, prompt: &'a Prompt, now: Timestamp) -> Self {
        Self { session, prompt, now, deadline: None, has_result: true }
    }

    /// Sets a deadline to use instead of the session's.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Says that there is no tool result to which feedback could be attached. Then only feedback
    /// about the run as a whole is collected.
    #[must_use]
    pub const fn without_result(mut self) -> Self {
        self.has_result = false;
        self
    }

    /// Whether feedback is attached to a tool result.
    pub const fn has_result(&self) -> bool {
        self.has_result
    }

    /// The state of the run: its analysis, deliveries, prompt and deadline.
    pub const fn session(&self) -> &'a Session {
        self.session
    }

    /// The prompt whose tool calls and feedback this context counts.
    pub const fn prompt(&self) -> &'a Prompt {
        self.prompt
    }

    /// The current time, as the caller passed it to `new`.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// The calls, turns, errors and patterns of the run so far.
    pub const fn trajectory(&self) -> &'a TrajectoryAnalysis {
        self.session.trajectory()
    }

    /// The deadline that `with_deadline` set, or else the deadline of the session; `None` if there
    /// is neither.
    pub const fn deadline(&self) -> Option<Deadline> {
        match self.deadline {
            Some(deadline) => Some(deadline),
            None => self.session.deadline(),
        }
    }

    /// Sequence number of the record that set the deadline; empty if `with_deadline` set it, or if
    /// there is no deadline.
    pub(crate) fn deadline_evidence(&self) -> Vec<u64> {
        let is_own = self.deadline.is_some();
        if is_own { Vec::new() } else { self.session.deadline_evidence() }
    }

    /// Values that the prompt makes available to its providers.
    pub fn resources(&self) -> &'a PromptResources {
        self.prompt.resources()
    }

    /// The filesystem that was added to the prompt; `None` if there is none.
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

    /// The latest feedback of one provider on this prompt; `None` if there was none, or if it is so
    /// old that the session has dropped it.
    pub fn last_feedback_of(&self, provider: &str) -> Option<&'a Feedback> {
        let name = ProviderName::of(provider);
        let mut latest_first = self.slice::<Feedback>().all().rev();
        latest_first.find(|feedback| feedback.provider_name() == name.as_str())
    }

    /// When the agent last got feedback of a provider on this prompt; `None` if it never did. The
    /// session keeps this time longer than the feedback itself.
    pub fn last_feedback_time_of(&self, provider: &str) -> Option<Timestamp> {
        self.last_delivery(ProviderId::of(provider)).map(|(at, _)| at)
    }

    /// When the agent last got feedback of a provider on this prompt, and how many tool calls it
    /// had made on the prompt by then.
    pub(crate) fn last_delivery(&self, provider: ProviderId) -> Option<(Timestamp, u64)> {
        self.session.last_feedback(provider, self.prompt.name())
    }

    /// Number of tool calls that the run has made on this prompt.
    pub fn tool_call_count(&self) -> u64 {
        self.slice::<ToolInvoked>().total()
    }

    /// Number of tool calls on this prompt since the latest feedback of any provider, or all tool
    /// calls on it if there was no feedback.
    pub fn tool_calls_since_last_feedback(&self) -> u64 {
        let last = self.session.last_feedback_call(self.prompt.name());
        self.tool_call_count().saturating_sub(last)
    }

    /// Number of tool calls on this prompt since the latest feedback of one provider, or all tool
    /// calls on it if this provider gave no feedback.
    pub fn tool_calls_since_last_feedback_of(&self, provider: &str) -> u64 {
        let last = self.last_delivery(ProviderId::of(provider)).map_or(0, |(_, call)| call);
        self.tool_call_count().saturating_sub(last)
    }

    /// The latest `n` tool calls on this prompt, oldest first; fewer if the session keeps fewer.
    pub fn recent_tool_calls(&self, n: usize) -> Vec<&'a ToolInvoked> {
        let mut calls: Vec<_> = self.slice::<ToolInvoked>().all().rev().take(n).collect();
        calls.reverse();
        calls
    }

    /// The argument for `Feedback::about` in the next message about this pattern: the cause (what
    /// the message is about), the number of messages about this cause including this one, and the
    /// evidence.
    pub fn why(&self, pattern: &TrajectoryPattern) -> Why {
        self.session.why(pattern)
    }

    /// Whether a message about this cause may be delivered now. It has to wait if the run has made
    /// too few tool calls so far, or too few since the latest message about this or another
    /// problem.
    pub fn may_deliver(&self, cause: &Cause) -> bool {
        self.session.may_deliver(cause, self.prompt.delivery().ledger)
    }
}

/// Methods for observers. The observer API calls feedback an assessment.
impl<'a> FeedbackContext<'a> {
    /// The latest feedback of any provider or observer on this prompt; `None` if there was none.
    pub fn last_assessment(&self) -> Option<&'a Assessment> {
        self.slice::<Assessment>().latest()
    }

    /// Number of tool calls on this prompt since the latest feedback of any provider or observer.
    pub fn tool_calls_since_last_assessment(&self) -> u64 {
        self.tool_calls_since_last_feedback()
    }
}
