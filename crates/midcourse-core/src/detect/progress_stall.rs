//! Detects a stall: many calls, or a long time, without progress.
//!
//! The analysis defines progress: a change took effect, a result, target or error is new, or the
//! user sent a message. While a more specific pattern is present, such as a loop, a repeated error
//! or an outage, this detector reports nothing, because that pattern describes the problem better.
//! The pattern `waiting` does not prevent a report: a long wait without progress is a stall.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// A long time without progress is a stall only if the agent made this many calls in it: a single
/// call that takes long is not a stall.
const MIN_CALLS_IN_TIMED_STALL: u64 = 3;

/// While the agent waits for something, more calls without progress are normal: it stalls only
/// after this many, or after the configured number if that is higher. The limit on the time alone
/// is not enough to find a stalled wait, because not every host reports times.
const MIN_CALLS_WHEN_WAITING: u64 = 30;

/// Used in place of `MIN_CALLS_WHEN_WAITING` if the user asked to repeat something: a hundred rounds
/// may be what the user wants.
const MIN_CALLS_WHEN_ASKED_TO_REPEAT: u64 = 120;

/// Used in place of `MIN_CALLS_IN_TIMED_STALL` if something is still running, and the agent looks at
/// it less often than the time that makes a stall: it expects a long wait, which costs little.
const MIN_CALLS_OF_A_PATIENT_WAIT: u64 = 16;

/// If the agent sleeps this often in a row and never checks what it waits for, it stalls.
const MIN_CONSECUTIVE_SLEEPS: usize = 6;

/// Has no state: the analysis knows when the run last made progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProgressStall;

impl PatternDetector for ProgressStall {
    fn name(&self) -> &str {
        "progress_stall"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        let config = trajectory.config();
        let (calls, time) = (trajectory.calls_since_progress(), trajectory.time_since_progress());
        // If the user asked for repeated checks, equal results are expected, and time alone does
        // not show a stall.
        let is_asked = trajectory.user_asked_to_repeat();
        let is_long = time >= trajectory.stall_after();
        let min_timed = if is_patient(trajectory) {
            MIN_CALLS_OF_A_PATIENT_WAIT
        } else {
            MIN_CALLS_IN_TIMED_STALL
        };
        let by_time = calls >= min_timed && is_long && !is_asked;
        let is_waiting = trajectory.has_pattern(&PatternType::Waiting);
        let threshold = u64::from(config.stall_threshold.get());
        let min_calls = if is_asked {
            threshold.max(MIN_CALLS_WHEN_ASKED_TO_REPEAT)
        } else if is_waiting {
            threshold.max(MIN_CALLS_WHEN_WAITING)
        } else {
            threshold
        };
        let by_calls =
            calls >= min_calls || consecutive_sleeps(trajectory) >= MIN_CONSECUTIVE_SLEEPS;
        if !(by_time || by_calls) || has_specific_pattern(trajectory) {
            return Detection::Absent;
        }
        let stalled = usize::try_from(calls).unwrap_or(usize::MAX);
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ProgressStall { duration: time, actions: calls },
            Confidence::clamped(0.95),
            Cause::new("progress_stall", Digest::of(&trajectory.progress_seq().to_le_bytes())),
            u32::try_from(calls).unwrap_or(u32::MAX),
            trajectory.recent_tool_calls(stalled).map(ToolInvoked::ended_seq),
        ))
    }

    fn reset(&mut self) {}
}

/// Whether the latest call says that something is still running, and came long after the one before.
fn is_patient(trajectory: &TrajectoryAnalysis) -> bool {
    let mut calls = trajectory.calls_since_user_message();
    let (Some(latest), Some(before)) = (calls.next(), calls.next()) else { return false };
    latest.is_pending() && latest.started_at().since(before.ended_at()) >= trajectory.stall_after()
}

fn consecutive_sleeps(trajectory: &TrajectoryAnalysis) -> usize {
    let sleeps = |call: &&ToolInvoked| call.waits() && call.is_bare() && call.is_shell();
    trajectory.calls_since_user_message().take_while(sleeps).count()
}

/// Whether a pattern is present that describes the trouble more exactly than a stall does.
fn has_specific_pattern(trajectory: &TrajectoryAnalysis) -> bool {
    trajectory.patterns().iter().any(|pattern| {
        !matches!(
            pattern.pattern_type(),
            PatternType::ProgressStall
                | PatternType::Churn
                | PatternType::Waiting
                | PatternType::Drift
                | PatternType::ContextDegradation
                | PatternType::Sweep
                | PatternType::Custom(_)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn ten_calls_without_a_new_result_are_a_stall() {
        check(
            "
            read a.rs -> the text of the first file, quite long
            read b.rs -> the text of the second file, quite long
            read c.rs -> the text of the third file, quite long
            read d.rs -> the text of the fourth file, quite long
            read b.rs -> the text of the second file, quite long
            read a.rs -> the text of the first file, quite long
            read d.rs -> the text of the fourth file, quite long
            read c.rs -> the text of the third file, quite long
            read a.rs -> the text of the first file, quite long
            read d.rs -> the text of the fourth file, quite long
            read b.rs -> the text of the second file, quite long
            read c.rs -> the text of the third file, quite long
            read d.rs -> the text of the fourth file, quite long
            read b.rs -> the text of the second file, quite long
            ",
            &["call 13: context_degradation of 9 in 13", "call 14: progress_stall of 10 calls"],
        );
    }

    #[test]
    fn different_commands_with_a_short_result_are_progress() {
        let commands: String = (0..12).map(|n| format!("bash mkdir -p out/{n} ->\n")).collect();
        check(&commands, &[]);
        let counts: String = (0..12).map(|n| format!("bash wc -l f{n} -> 42\n")).collect();
        check(&counts, &[]);
    }

    #[test]
    fn six_sleeps_in_a_row_are_a_stall() {
        check(
            "6x ~2m bash sleep 120 ->",
            &["call 2: waiting for 2 polls", "call 6: progress_stall of 5 calls"],
        );
    }

    #[test]
    fn a_long_wait_without_progress_is_a_stall() {
        check(
            "
            bash deploy -> started the deployment of everything
            +15m bash status -> pending, nothing to report for now
            +15m bash status -> pending, nothing to report for now
            +15m bash status -> pending, nothing to report for now
            +15m bash status -> pending, nothing to report for now
            ",
            &["call 4: waiting for 2 polls", "call 5: progress_stall of 3 calls"],
        );
    }

    #[test]
    fn looking_rarely_at_what_is_still_running_is_not_a_stall() {
        let looks = "12x +40m bash ./restore status -> ongoing\n";
        check(looks, &["call 3: waiting for 2 polls"]);
    }

    #[test]
    fn watching_at_an_interval_that_the_user_asked_for_is_not_a_stall() {
        let looks = "12x +10m price {\"train\":\"ICE 690\"} -> 64.90 EUR\n";
        check(
            &format!("user: watch the price every 10 minutes for two hours\n{looks}"),
            &["call 3: waiting for 2 polls"],
        );
        check(
            &format!("user: book the train when it is cheaper\n{looks}"),
            &["call 3: waiting for 2 polls", "call 4: doom_loop of 1, 4 times"],
        );
    }

    #[test]
    fn waiting_for_what_takes_long_as_the_user_says_is_not_a_stall() {
        let looks = "7x +10m bash ./status.sh -> state: restoring the archive\n";
        check(
            &format!("user: restore it and tell me, it takes two hours\n{looks}"),
            &["call 3: waiting for 2 polls"],
        );
    }
}
