//! Sees that the network or a service is down, which no change to the work will mend. It may say so
//! in an error, or in the body of an answer that counts as a success.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// Failures of this class, with no success of the same question in between, that are an outage.
const FAILURES: u32 = 3;

/// The same, where the agent already waits between its tries.
const PATIENT_FAILURES: u32 = 5;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outage {
    failures: u32,
    /// Calls of the sort that were answered since the first failure.
    answers: u32,
    tool: Digest,
    turn: u64,
    /// The question that failed last, and its call.
    call_digest: Digest,
    call: u64,
    evidence: [u64; FAILURES as usize],
}

impl PatternDetector for Outage {
    fn name(&self) -> &str {
        "outage"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            self.reset();
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        if !call.says_outage() {
            // What works beside it does not say that the service is back; others that answer do.
            let is_kin = call.is_remote()
                || (!call.is_shell() && self.tool == Digest::of(call.tool().as_bytes()));
            self.answers += u32::from(!call.is_error() && is_kin && self.failures > 0);
            let is_over = self.answers > self.failures || self.is_over(trajectory, call);
            if call.is_error() || !is_over {
                return Detection::Unchanged;
            }
            self.reset();
            return Detection::Absent;
        }
        // What fails together fails once.
        if self.failures > 0 && self.turn == call.turn() {
            return Detection::Unchanged;
        }
        self.turn = call.turn();
        self.tool = Digest::of(call.tool().as_bytes());
        self.call_digest = call.call_digest();
        self.call = call.call_index();
        self.failures = self.failures.saturating_add(1);
        self.evidence.rotate_left(1);
        if let Some(last) = self.evidence.last_mut() {
            *last = call.ended_seq();
        }
        // Whoever takes longer and longer pauses has understood.
        let enough = if call.polls() { PATIENT_FAILURES } else { FAILURES };
        if self.failures < enough {
            return Detection::Absent;
        }
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Outage { failures: self.failures },
            Confidence::clamped(0.85),
            Cause::only("outage"),
            self.failures,
            self.evidence,
        ))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Outage {
    /// Whether the failed question has succeeded, or has not been asked for long.
    fn is_over(&self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> bool {
        let window = u64::from(trajectory.config().error_window.get());
        call.call_digest() == self.call_digest
            || call.call_index().saturating_sub(self.call) > window
    }
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::Outage { failures } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "{failures} calls met a service or a network that does not answer. Changes to the work \
             will not mend that; waiting longer between tries, or working on what needs no network, \
             will serve better."
        )),
        2 => Some(
            "The service is still not answering. Work that does not depend on it can go on, with a \
             note of what to repeat once it is back."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn an_outage_is_named_an_outage() {
        check(
            "
            fetch a !! connect ECONNREFUSED: connection refused
            fetch b !! HTTP status 503: service unavailable
            fetch c !! upstream server: connection reset
            ",
            &["call 3: outage of 3"],
        );
    }

    #[test]
    fn work_beside_it_does_not_end_it() {
        let round = |n: u32| {
            format!(
                "bash curl api !! HTTP status 503: service unavailable\n\
                 edit {{\"path\":\"a\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n"
            )
        };
        check(&(0..4).map(round).collect::<String>(), &["call 5: outage of 3"]);
    }

    #[test]
    fn a_page_here_and_there_that_does_not_answer_is_none() {
        let fetch = |n: u32| {
            let end = if n.is_multiple_of(8) {
                "!! connect ECONNREFUSED"
            } else {
                "-> the text of the page"
            };
            format!("fetch https://host-{n}.example/ {end} {n}\n")
        };
        check(&(1..30).map(fetch).collect::<String>(), &[]);
    }

    #[test]
    fn a_word_of_the_person_begins_anew() {
        check(
            "
            2x fetch a !! HTTP status 503: service unavailable
            user: I have restarted it
            fetch b !! HTTP status 503: service unavailable
            ",
            &[],
        );
    }

    #[test]
    fn a_success_ends_it() {
        check(
            "
            2x fetch a !! HTTP status 503: service unavailable
            fetch a -> here is the page that was asked for
            2x fetch a !! HTTP status 503: service unavailable
            ",
            &[],
        );
    }
}
