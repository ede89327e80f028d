//! Detects that the network or a service is down, which the agent cannot fix by changing its work.
//! A call reports the outage in its error, or in the text of its result if it counts as successful.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, min_different_calls, min_failures};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// If calls report an outage in this many turns, and no success in between shows that the service
/// is back, the pattern is present.
const MIN_FAILURES: u32 = 3;

/// If different calls report an outage, the pattern needs this many failures more: the agent tries
/// whether another way works.
const EXTRA_FAILURES_OF_DIFFERENT_CALLS: u32 = 1;

/// Used in place of `MIN_FAILURES` for an agent that pauses between its attempts.
const MIN_FAILURES_WHEN_POLLING: u32 = 5;

/// Used in place of `MIN_FAILURES` if the user asked for repeated checks. The user may want to know
/// how long a service is down during a failover or restart.
const MIN_FAILURES_WHEN_ASKED_TO_REPEAT: u32 = 12;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outage {
    failures: u32,
    /// Number of successes since the first failure. A success counts only if the call uses a
    /// remote service, or if it uses the tool that failed last and that tool is not a shell.
    successes: u32,
    /// Tool, turn, digest and index of the call that failed last.
    tool: Digest,
    turn: u64,
    call_digest: Digest,
    call_index: u64,
    /// Whether different calls have failed.
    is_mixed: bool,
    /// Digest of the latest error, and whether something was changed since then.
    error: Digest,
    is_changed: bool,
    evidence: [u64; MIN_FAILURES as usize],
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
        if !call.reports_outage() {
            self.is_changed |= call.landed() || call.may_have_changed_something();
            // Successful local work does not show that the service is back. Successful calls to
            // remote services do, once there are more of them than failures.
            let is_similar = call.is_remote()
                || (!call.is_shell() && self.tool == Digest::of(call.tool().as_bytes()));
            self.successes += u32::from(!call.is_error() && is_similar && self.failures > 0);
            let is_over = self.successes > self.failures || self.is_over(trajectory, call);
            if call.is_error() || !is_over {
                return Detection::Unchanged;
            }
            self.reset();
            return Detection::Absent;
        }
        // The model makes the calls of one turn together, so their failures count once.
        if self.failures > 0 && self.turn == call.turn() {
            return Detection::Unchanged;
        }
        let is_other_call = self.call_digest != call.call_digest();
        let error = call.status().error().map_or(call.result_digest(), |error| error.digest);
        // After a change the call fails for another reason, so that the change has had an effect.
        if self.is_changed && !is_other_call && self.error != error {
            self.reset();
        }
        self.error = error;
        self.is_changed = false;
        self.is_mixed |= is_other_call && self.failures > 0;
        self.turn = call.turn();
        self.tool = Digest::of(call.tool().as_bytes());
        self.call_digest = call.call_digest();
        self.call_index = call.call_index();
        self.failures = self.failures.saturating_add(1);
        self.evidence.rotate_left(1);
        if let Some(last) = self.evidence.last_mut() {
            *last = call.ended_seq();
        }
        // An agent that pauses between attempts has already noticed the outage.
        let threshold = if trajectory.user_asked_to_repeat() {
            MIN_FAILURES_WHEN_ASKED_TO_REPEAT
        } else if call.polls() {
            MIN_FAILURES_WHEN_POLLING
        } else {
            MIN_FAILURES + if self.is_mixed { EXTRA_FAILURES_OF_DIFFERENT_CALLS } else { 0 }
        };
        let min_failures = if is_other_call {
            min_different_calls(trajectory, threshold)
        } else {
            min_failures(trajectory, threshold)
        };
        if self.failures < min_failures {
            return Detection::Absent;
        }
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Outage { failures: self.failures },
            Confidence::clamped(0.8),
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
    /// Whether `call`, which reports no outage, shows that the outage is over: it repeats the call
    /// that failed last, or it comes more than `error_window` calls after that one.
    fn is_over(&self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> bool {
        let window = u64::from(trajectory.config().error_window.get());
        call.call_digest() == self.call_digest
            || call.call_index().saturating_sub(self.call_index) > window
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn three_outage_errors_of_one_call_are_an_outage() {
        let fetch = "fetch a !! connect ECONNREFUSED: connection refused\n";
        check(&fetch.repeat(3), &["call 3: outage of 3"]);
    }

    #[test]
    fn outage_errors_of_different_calls_need_one_more() {
        let three = "
            fetch a !! connect ECONNREFUSED: connection refused
            fetch b !! HTTP status 503: service unavailable
            fetch c !! upstream server: connection reset
            ";
        check(three, &[]);
        let four = format!("{three}fetch d !! HTTP status 503: service unavailable\n");
        check(&four, &["call 4: outage of 4"]);
    }

    #[test]
    fn local_work_in_between_does_not_end_an_outage() {
        let round = |n: u32| {
            format!(
                "bash curl api !! HTTP status 503: service unavailable\n\
                 edit {{\"path\":\"a\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n"
            )
        };
        check(&(0..4).map(round).collect::<String>(), &["call 5: outage of 3"]);
    }

    #[test]
    fn occasional_pages_that_do_not_respond_are_not_an_outage() {
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
    fn a_user_message_resets_the_count() {
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
    fn another_error_after_a_change_is_progress() {
        let errors = ["Name or service not known", "No route to host", "Connection refused"];
        let round = |error: &str| {
            format!(
                "bash ssh app nc -vz db 5432 !! nc: connect to db: {error}\n\
                 bash ./open {error} -> ok\n"
            )
        };
        check(&errors.map(round).concat(), &[]);
        check(&round("Connection refused").repeat(3), &["call 5: outage of 3"]);
    }

    #[test]
    fn a_success_of_the_failed_call_ends_an_outage() {
        check(
            "
            2x fetch a !! HTTP status 503: service unavailable
            fetch a -> here is the page that was asked for
            2x fetch a !! HTTP status 503: service unavailable
            ",
            &[],
        );
    }

    #[test]
    fn an_outage_that_the_user_wants_measured_is_not_trouble() {
        let down = "4x +5s bash psql -h db -c 'select 1' !! psql: error: Connection refused\n";
        check(
            &format!("user: kill the primary and poll the endpoint every 5 seconds\n{down}"),
            &[],
        );
        check(&format!("user: count the orders\n{down}"), &["call 3: outage of 3"]);
    }
}
