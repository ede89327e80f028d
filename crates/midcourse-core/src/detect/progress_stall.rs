//! Sees calls, or time, in which nothing new happens and nobody else has a better name for it.
//!
//! What moves a run is told by the analysis: a change landed, a new answer or target, an error that
//! moved, a word of the person. While a loop, an error or an outage is already seen, this is silent,
//! because that is the better diagnosis. A wait in which nothing moves for long is a stall.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// A stall by time takes at least this many calls: one long call is not standing still.
const CALLS_IN_A_TIMED_STALL: u64 = 3;

/// Calls that wait, with nothing moving, that are a stall whatever the clock says: hosts do not
/// always tell the time.
const PATIENCE: u64 = 30;

/// Sleeps in a row without a look at what they wait for.
const SLEEPS: usize = 6;

/// The detector; what moved last is kept by the analysis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProgressStall;

impl PatternDetector for ProgressStall {
    fn name(&self) -> &str {
        "progress_stall"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        let config = trajectory.config();
        let (calls, time) = (trajectory.calls_since_progress(), trajectory.time_since_progress());
        let by_time = calls >= CALLS_IN_A_TIMED_STALL && time >= config.stall_after;
        let is_waiting = trajectory.has_pattern(&PatternType::Waiting);
        let enough = u64::from(config.stall_threshold.get());
        let by_calls = calls >= if is_waiting { enough.max(PATIENCE) } else { enough }
            || sleeps_in_a_row(trajectory) >= SLEEPS;
        if !(by_time || by_calls) || has_better_name(trajectory) {
            return Detection::Absent;
        }
        let stalled = usize::try_from(calls).unwrap_or(usize::MAX);
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ProgressStall { duration: time, actions: calls, idle: false },
            Confidence::clamped(if by_time { 0.8 } else { 0.65 }),
            Cause::new("progress_stall", Digest::of(&trajectory.progress_seq().to_le_bytes())),
            u32::try_from(calls).unwrap_or(u32::MAX),
            trajectory.recent_tool_calls(stalled).map(ToolInvoked::ended_seq),
        ))
    }

    fn reset(&mut self) {}
}

fn sleeps_in_a_row(trajectory: &TrajectoryAnalysis) -> usize {
    let sleeps = |call: &&ToolInvoked| call.waits() && call.is_bare() && call.is_shell();
    trajectory.calls_since_user_message().take_while(sleeps).count()
}

fn has_better_name(trajectory: &TrajectoryAnalysis) -> bool {
    trajectory.patterns().iter().any(|pattern| {
        !matches!(
            pattern.pattern_type(),
            PatternType::ProgressStall
                | PatternType::Waiting
                | PatternType::Drift
                | PatternType::ContextDegradation
                | PatternType::Custom(_)
        )
    })
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ProgressStall { duration, actions, .. } = detail else { return None };
    let minutes = duration.as_secs() / 60;
    match rung.0 {
        1 if minutes >= 10 => Some(format!(
            "Nothing has moved for {minutes} minutes and {actions} calls: no change landed and no \
             answer was new. If this waits for something, other work could go on meanwhile."
        )),
        1 => Some(format!(
            "The last {actions} calls brought nothing new: no change landed and no answer differed \
             from before. What is already known may be enough for the next real step."
        )),
        2 => Some(
            "Still nothing new. It may help to name the one thing that is missing to go on, and to \
             get exactly that, or to go on without it."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn calls_that_bring_nothing_new() {
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
    fn commands_that_only_say_done_are_work() {
        let commands: String = (0..12).map(|n| format!("bash mkdir -p out/{n} ->\n")).collect();
        check(&commands, &[]);
        let counts: String = (0..12).map(|n| format!("bash wc -l f{n} -> 42\n")).collect();
        check(&counts, &[]);
    }

    #[test]
    fn sleep_after_sleep_without_a_look() {
        check(
            "6x ~2m bash sleep 120 ->",
            &["call 2: waiting for 2 polls", "call 6: progress_stall of 5 calls"],
        );
    }

    #[test]
    fn a_wait_in_which_nothing_moves_for_long() {
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
}
