//! Outcomes: what followed something that was said.
//!
//! A word about trouble was heard if the trouble is gone within a few calls, or has not shown
//! again by then. Words about a state of the world, such as a deadline, have no outcome.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::analysis::TrajectoryAnalysis;
use crate::cause::Cause;
use crate::digest::Digest;
use crate::ledger::is_about_speech;
use crate::message::{Outcome, OutcomeVerdict};

/// Calls within which trouble has to be gone.
const OUTCOME_CALLS: u64 = 5;

/// Words whose outcome is open at the same time; beyond it the oldest stays without one.
const OPEN_MAX: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcomes(VecDeque<Open>);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Open {
    cause: Digest,
    seq: u64,
    steps: u64,
    is_speech: bool,
}

impl Outcomes {
    pub(super) fn open(&mut self, cause: &Cause, seq: u64, steps: u64) {
        if self.0.len() == OPEN_MAX {
            self.0.pop_front();
        }
        let is_speech = is_about_speech(cause);
        self.0.push_back(Open { cause: cause.id(), seq, steps, is_speech });
    }

    /// The outcomes that the latest record decides.
    pub(super) fn settle(&mut self, trajectory: &TrajectoryAnalysis) -> Vec<Outcome> {
        let mut settled = Vec::new();
        if self.0.is_empty() {
            return settled;
        }
        let has_ended = trajectory.outcome().is_some();
        self.0.retain(|open| {
            let steps = if open.is_speech {
                trajectory.response_count()
            } else {
                trajectory.tool_call_count()
            };
            let after_calls = steps.saturating_sub(open.steps);
            let held = trajectory.patterns().iter().find(|held| held.cause().id() == open.cause);
            let shown_again = held.is_some_and(|held| held.evidence().last() > Some(&open.seq));
            let verdict = if after_calls > 0 && held.is_none() {
                OutcomeVerdict::Cleared
            } else if after_calls >= OUTCOME_CALLS {
                if shown_again { OutcomeVerdict::Ignored } else { OutcomeVerdict::Cleared }
            } else if has_ended {
                OutcomeVerdict::RunEnded
            } else {
                return true;
            };
            settled.push(Outcome { delivery_seq: open.seq, verdict, after_calls });
            false
        });
        settled
    }
}
