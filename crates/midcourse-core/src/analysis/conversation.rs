//! What the analysis knows about the conversation: what the latest user message asks for, and the
//! model's responses that call no tool.

use std::time::Duration;

use super::TrajectoryAnalysis;
use crate::text::Request;

/// If the user said that something takes a long time, the time limit for a stall is multiplied by
/// this factor.
const PATIENT_FACTOR: u32 = 4;

impl TrajectoryAnalysis {
    /// Whether the latest user message asks the agent to run something repeatedly. The loop
    /// detector then reports a loop only after more repetitions.
    pub const fn user_asked_to_repeat(&self) -> bool {
        self.turns.request.has(Request::REPEAT)
    }

    /// Whether the latest user message asks to find failures, such as dead links. A failed call is
    /// then a useful result, and detectors report failures only if there are very many.
    pub const fn user_asked_for_failures(&self) -> bool {
        self.turns.request.has(Request::FAILURES)
    }

    /// Whether the latest user message asks to check each object of a list.
    pub(crate) const fn user_asked_for_list(&self) -> bool {
        self.turns.request.has(Request::LIST)
    }

    /// Whether the latest user message asks to do the same with each object of a list.
    pub(crate) const fn user_asked_for_each(&self) -> bool {
        self.turns.request.has(Request::EACH)
    }

    /// Whether the latest user message asks to change nothing but what it names.
    pub(crate) const fn user_asked_for_nothing_else(&self) -> bool {
        self.turns.request.has(Request::ONLY)
    }

    /// The time without progress that makes a stall. If the user said that something takes a long
    /// time, it is longer than configured.
    pub(crate) fn stall_after(&self) -> Duration {
        let is_patient = self.turns.request.has(Request::PATIENCE);
        self.config.stall_after.saturating_mul(if is_patient { PATIENT_FACTOR } else { 1 })
    }

    /// Whether the latest user message asks for a change that keeps the behaviour, such as a
    /// refactoring.
    pub(crate) const fn user_asked_to_preserve(&self) -> bool {
        self.turns.request.has(Request::PRESERVE)
    }

    /// Number of model responses that have text but no tool call. The count starts again when a
    /// call ends and when the user sends a message.
    pub const fn responses_without_call(&self) -> u32 {
        self.responses.without_call
    }

    /// Number of model responses with text, over the whole run.
    pub const fn response_count(&self) -> u64 {
        self.totals.responses
    }

    /// How many responses have nearly the same text as the latest response. The latest response
    /// itself counts too, so that 1 means no repetition. The count starts again when a call ends
    /// and when the user sends a message.
    pub const fn repeated_response_count(&self) -> u32 {
        self.responses.same_text
    }

    /// Number of consecutive responses that only announce what the agent is going to do and call
    /// no tool.
    pub const fn announcement_count(&self) -> u32 {
        self.responses.announcements
    }

    /// Number of consecutive responses since the latest call that only announce an action, even if
    /// the user sent messages in between.
    pub(crate) const fn announcements_since_call(&self) -> u32 {
        self.responses.announcements_since_call
    }

    /// Number of consecutive responses without a tool call that only announce an action, say that
    /// the agent waits, ask, thank, or say that the work is done. The count starts again when a
    /// call ends and when the user sends a message.
    pub(crate) const fn idle_response_count(&self) -> u32 {
        self.responses.idle
    }

    /// Whether the latest record is a response that contains one piece of text over and over.
    pub const fn response_repeats_itself(&self) -> bool {
        self.responses.repeats_itself
    }

    /// The beginning of the latest response; `None` if the model has not responded with text. The
    /// text is untrusted: never put it in a message.
    pub fn last_response(&self) -> Option<&str> {
        self.responses.last()
    }
}
