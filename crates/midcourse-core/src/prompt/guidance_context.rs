//! What classifiers and guidance providers see.

use super::{Prompt, RenderedPrompt};
use crate::analysis::{PendingToolCall, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Why};
use crate::message::DecisionPoint;
use crate::session::Session;
use crate::time::Timestamp;

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
    /// The context of a prompt in a session at a decision point.
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

    /// Adds the whole text of the latest model response. Otherwise only its beginning, which the
    /// session keeps, is available.
    #[must_use]
    pub const fn with_last_response(mut self, response: &'a str) -> Self {
        self.last_response = Some(response);
        self
    }

    /// The state of the run: its analysis, deliveries, prompt and deadline.
    pub const fn session(&self) -> &'a Session {
        self.session
    }

    /// The prompt that the run is on.
    pub const fn prompt(&self) -> &'a Prompt {
        self.prompt
    }

    /// The prompt as it was rendered, if the caller added it.
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

    /// The text of the latest model response; its beginning only, unless the caller added the
    /// whole.
    pub fn last_response(&self) -> Option<&'a str> {
        self.last_response.or_else(|| self.session.trajectory().last_response())
    }

    /// Where the agent is in its turn.
    pub const fn decision_point(&self) -> DecisionPoint {
        self.point
    }

    /// The time that counts as now, as the caller gave it.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Number of turns so far.
    pub const fn turn_count(&self) -> u64 {
        self.session.trajectory().turn_count()
    }

    /// Number of tool calls so far.
    pub const fn tool_call_count(&self) -> u64 {
        self.session.trajectory().tool_call_count()
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
