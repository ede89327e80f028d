//! Detects many failures with different errors, in a row or nearly so: a few successes in between
//! do not end a cascade if nearly everything else fails.
//!
//! If the same error occurs over and over, that is a `repeated_error`, which another detector
//! reports. Failures in one turn count once. If `failing_exit_is_output` is configured, a shell
//! command that fails with a new error, such as a failed test, does not count, because an agent
//! that works on failing tests gets such errors all the time.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, TurnCounter, min_different_calls};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;
use crate::text::FailureKind;

/// The number of latest calls that are examined. If they include failures in at least
/// `MIN_FAILED_TURNS` turns, the pattern is present even if calls in between succeeded.
const EXAMINED_CALLS: usize = 14;
const MIN_FAILED_TURNS: u32 = 7;
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ErrorCascade;

impl PatternDetector for ErrorCascade {
    fn name(&self) -> &str {
        "error_cascade"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            return Detection::Absent;
        }
        let Some(call) = trajectory.call_just_ended() else { return Detection::Unchanged };
        let has_specific_pattern = trajectory.has_pattern(&PatternType::RepeatedError)
            || trajectory.has_pattern(&PatternType::DoomLoop)
            || trajectory.has_pattern(&PatternType::Outage);
        if !call.is_error() || has_specific_pattern || repeats_previous(trajectory) {
            return Detection::Absent;
        }
        let threshold = trajectory.config().cascade_threshold.get();
        let exit_is_output = trajectory.config().failing_exit_is_output;
        let consecutive = trajectory.calls_since_user_message().take_while(|call| call.is_error());
        let consecutive = Failures::among(exit_is_output, consecutive);
        let recent = trajectory.calls_since_user_message().take(EXAMINED_CALLS);
        let recent = Failures::among(exit_is_output, recent);
        let failures = if consecutive.turns >= min_different_calls(trajectory, threshold) {
            consecutive
        } else if recent.turns >= min_different_calls(trajectory, MIN_FAILED_TURNS) {
            recent
        } else {
            return Detection::Absent;
        };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ErrorCascade {
                failures: u64::from(failures.turns),
                tools: u32::try_from(failures.tools.len()).unwrap_or(u32::MAX),
            },
            Confidence::clamped(0.9),
            Cause::only("error_cascade"),
            failures.turns,
            failures.evidence,
        ))
    }

    fn reset(&mut self) {}
}

/// Whether the latest call is the previous one again. If it fails a third time, the message about
/// that says more than one about many failures would, and one message delays the other.
fn repeats_previous(trajectory: &TrajectoryAnalysis) -> bool {
    let mut calls = trajectory.calls_since_user_message();
    let (latest, previous) = (calls.next(), calls.next());
    latest.zip(previous).is_some_and(|(latest, previous)| {
        latest.exact_digest() == previous.exact_digest() && previous.is_error()
    })
}

/// The failures among some calls: in how many turns, of which tools, and the sequence numbers of
/// the records in which the failed calls ended.
struct Failures<'a> {
    /// Number of turns with at least one failure.
    turns: u32,
    tools: Vec<&'a str>,
    evidence: Vec<u64>,
}

impl<'a> Failures<'a> {
    fn among(exit_is_output: bool, calls: impl Iterator<Item = &'a ToolInvoked>) -> Self {
        let mut failures = Self { turns: 0, tools: Vec::new(), evidence: Vec::new() };
        let mut turns = TurnCounter::default();
        for call in calls.filter(|call| is_failure(exit_is_output, call)) {
            turns.add(call);
            failures.turns = turns.count();
            if !failures.tools.contains(&call.tool()) {
                failures.tools.push(call.tool());
            }
            failures.evidence.push(call.ended_seq());
        }
        failures
    }
}

/// Whether a call counts as a failure. An outage does not count, because it has its own detector.
/// If `exit_is_output` is true, a new error of a shell command does not count either, unless its
/// class shows that it is more than a failed check.
fn is_failure(exit_is_output: bool, call: &ToolInvoked) -> bool {
    let is_output = || exit_is_output && call.is_shell() && call.is_new_error();
    match call.failure_kind() {
        None | Some(FailureKind::Outage) => false,
        Some(FailureKind::Check | FailureKind::Other) => !is_output(),
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn five_different_errors_in_a_row_are_a_cascade() {
        check(
            "
            read a.rs     !! error: stale handle
            search foo    !! error: index is gone
            read b.rs     !! error: cannot decode
            fetch c       !! error: bad scheme
            search bar    !! error: no workspace
            ",
            &["call 5: error_cascade of 5"],
        );
    }

    #[test]
    fn a_call_that_was_just_repeated_waits_for_the_message_about_that() {
        let failures = "
            read a.rs     !! error: stale handle
            search foo    !! error: index is gone
            read b.rs     !! error: cannot decode
            fetch c       !! error: bad scheme
            ";
        check(&format!("{failures}\nfetch c !! error: bad scheme"), &[]);
        check(&format!("{failures}\nfetch d !! error: no route"), &["call 5: error_cascade of 5"]);
    }

    #[test]
    fn tests_that_fail_in_new_ways_are_not_a_cascade() {
        check(
            "
            bash t1 !! error: 9 red
            bash t2 !! error: 8 red
            bash t3 !! error: 7 red
            bash t4 !! error: 6 red
            bash t5 !! error: 5 red
            bash t6 !! error: 4 red
            ",
            &[],
        );
    }

    #[test]
    fn error_cases_that_the_user_wants_to_see_are_not_a_cascade() {
        let cases = "
            bash ./copy a           !! error: TARGET is missing
            bash ./copy --nope      !! error: unknown flag: --nope
            bash ./copy none.db x   !! error: open none.db: no such file or directory
            bash ./copy /etc/x y    !! error: permission denied
            bash ./copy --n=a x y   !! error: invalid argument \"a\" for \"--n\"
            bash ./copy a b c       !! error: unexpected argument c
            bash ./copy '' x        !! error: syntax error in SOURCE
            ";
        check(&format!("user: go through the error cases of the tool\n{cases}"), &[]);
        check(&format!("user: copy the database\n{cases}"), &["call 5: error_cascade of 5"]);
    }

    #[test]
    fn many_failures_with_successes_in_between_are_a_cascade() {
        check(
            "
            bash npm ci !! npm ERR! permission denied in node_modules
            bash ls -> package.json and more
            read cfg.json -> port 8080, host x
            bash systemctl restart svc !! Failed: Unit svc.service not found.
            deploy {\"env\": 1} !! invalid argument: env requires a name
            read deploy.md -> how to deploy the thing
            bash docker run svc !! docker: permission denied
            bash id -> uid=1000(agent) and groups
            write {\"path\":\"/etc/svc\",\"content\":\"x\"} !! EACCES: read-only
            bash frobnicate !! sh: frobnicate: not found
            bash printenv -> PATH=/usr/bin and more
            bash python3 run.py !! FileNotFoundError: no such file: x.yml
            ",
            &["call 12: error_cascade of 7"],
        );
    }
}
