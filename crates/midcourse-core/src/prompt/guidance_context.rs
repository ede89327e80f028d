//! The context that classifiers and guidance providers get: the run so far, and the decision point
//! that the agent is at.

use super::{Prompt, RenderedPrompt};
use crate::analysis::{PendingToolCall, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::message::DecisionPoint;
use crate::session::Session;
use crate::time::Timestamp;
use crate::why::Why;

/// What classifiers and guidance providers see at a decision point.
#[derive(Clone, Copy)]
pub struct GuidanceContext<'a> {
    session: &'a Session,
    prompt: &'a Prompt,
    rendered_prompt: Option<&'a RenderedPrompt>,
    last_response: Option<&'a str>,
    point: DecisionPoint,
    now: Timestamp,
}

impl<'a> GuidanceContext<'a> {
    /// A context for the guidance providers of `prompt`. The caller passes the current time as
    /// `now`, because this crate reads no clock.
    pub const fn new(
        session: &'a Session,
        prompt: &'a Prompt,
        point: DecisionPoint,
        now: Timestamp,
    ) -> Self {
        Self { session, prompt, rendered_prompt: None, last_response: None, point, now }
    }

    /// Adds the rendered prompt, for classifiers and providers that look at its text.
    #[must_use]
    pub const fn with_rendered_prompt(mut self, rendered: &'a RenderedPrompt) -> Self {
        self.rendered_prompt = Some(rendered);
        self
    }

    /// Adds the whole text of the latest model response. Without it, `last_response` returns only
    /// the beginning of the response, because the session keeps no more.
    #[must_use]
    pub const fn with_last_response(mut self, response: &'a str) -> Self {
        self.last_response = Some(response);
        self
    }

    /// The state of the run: its analysis, deliveries, prompt and deadline.
    pub const fn session(&self) -> &'a Session {
        self.session
    }

    /// The prompt whose guidance providers are evaluated.
    pub const fn prompt(&self) -> &'a Prompt {
        self.prompt
    }

    /// The rendered prompt; `None` if the caller did not add it with `with_rendered_prompt`.
    pub const fn rendered_prompt(&self) -> Option<&'a RenderedPrompt> {
        self.rendered_prompt
    }

    /// The calls, turns, errors and patterns of the run so far.
    pub const fn trajectory(&self) -> &'a TrajectoryAnalysis {
        self.session.trajectory()
    }

    /// Tool calls that have not returned a result yet.
    pub fn pending_tool_calls(&self) -> impl ExactSizeIterator<Item = PendingToolCall<'a>> {
        self.session.trajectory().pending_tool_calls()
    }

    /// The text that the caller added with `with_last_response`, or else the beginning of the
    /// latest model response; `None` if there is no response yet.
    pub fn last_response(&self) -> Option<&'a str> {
        self.last_response.or_else(|| self.session.trajectory().last_response())
    }

    /// Where the agent is in its turn.
    pub const fn decision_point(&self) -> DecisionPoint {
        self.point
    }

    /// The current time, as the caller passed it to `new`.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Number of turns in the run so far, the current one included. A turn is a model response and
    /// its tool results.
    pub const fn turn_count(&self) -> u64 {
        self.session.trajectory().turn_count()
    }

    /// Number of tool calls that have ended in the run so far, whichever prompt was in use.
    pub const fn tool_call_count(&self) -> u64 {
        self.session.trajectory().tool_call_count()
    }

    /// The argument for `GuidanceInjection::about` in the next message about this pattern: the
    /// cause (what the message is about), the number of messages about this cause including this
    /// one, and the evidence.
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
