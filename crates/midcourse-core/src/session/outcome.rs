//! Outcomes: whether the problem that a message was about went away.
//!
//! The verdict is `Cleared` if the detector stops reporting the problem within five tool calls
//! after the message, or if it still reports it after five calls, but without evidence that is
//! newer than the message. With newer evidence, the verdict after five calls is `Ignored`. If the
//! run ends earlier, the verdict is `RunEnded`. Messages about a limit of the run, such as a
//! deadline, get no outcome, because no detector reports limits.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::analysis::TrajectoryAnalysis;
use crate::cause::Cause;
use crate::digest::Digest;
use crate::ledger::is_about_responses;
use crate::message::{Outcome, OutcomeVerdict};

/// The outcome of a message is decided at the latest after this many tool calls, or after this many
/// model responses if the problem shows in the text of responses.
pub const CALLS_TO_DECIDE: u64 = 5;

/// The maximum number of messages whose outcome is not decided yet; beyond that, the oldest message
/// gets no outcome.
const MAX_OPEN_OUTCOMES: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcomes(VecDeque<Open>);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Open {
    cause: Digest,
    /// Position in the run (seq) of the record of the delivered message.
    seq: u64,
    /// Number of tool calls (or model responses) in the run when the message was delivered.
    count: u64,
    is_about_responses: bool,
}

impl Outcomes {
    pub(super) fn open(&mut self, cause: &Cause, seq: u64, count: u64) {
        if self.0.len() == MAX_OPEN_OUTCOMES {
            self.0.pop_front();
        }
        let is_about_responses = is_about_responses(cause);
        self.0.push_back(Open { cause: cause.id(), seq, count, is_about_responses });
    }

    /// Removes and returns the outcomes that the latest record decides.
    pub(super) fn decide(&mut self, trajectory: &TrajectoryAnalysis) -> Vec<Outcome> {
        let mut decided = Vec::new();
        if self.0.is_empty() {
            return decided;
        }
        let has_ended = trajectory.outcome().is_some();
        self.0.retain(|open| {
            let count = if open.is_about_responses {
                trajectory.response_count()
            } else {
                trajectory.tool_call_count()
            };
            let after_calls = count.saturating_sub(open.count);
            let mut patterns = trajectory.patterns().iter();
            let pattern = patterns.find(|pattern| pattern.cause().id() == open.cause);
            let has_new_evidence =
                pattern.is_some_and(|pattern| pattern.evidence().last() > Some(&open.seq));
            let verdict = if after_calls > 0 && pattern.is_none() {
                OutcomeVerdict::Cleared
            } else if after_calls >= CALLS_TO_DECIDE {
                if has_new_evidence { OutcomeVerdict::Ignored } else { OutcomeVerdict::Cleared }
            } else if has_ended {
                OutcomeVerdict::RunEnded
            } else {
                return true;
            };
            decided.push(Outcome { delivery_seq: open.seq, verdict, after_calls });
            false
        });
        decided
    }
}
