//! Sees one failure after the other, each different: the agent has lost its footing.
//!
//! The same error again and again is left to `repeated_error`. Failures of one round count once. A
//! check that fails in a new way is output, not a failure: that is how one works. A success in
//! between does not help much when nearly everything else fails.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, Rounds};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;
use crate::text::ErrorClass;

/// The latest calls that are looked at where failures do not come in a row, and how many of them
/// have failed then.
const LATEST: usize = 14;
const MOSTLY: u32 = 10;

/// The detector.
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
        let has_a_better_name = trajectory.has_pattern(&PatternType::RepeatedError)
            || trajectory.has_pattern(&PatternType::DoomLoop)
            || trajectory.has_pattern(&PatternType::Outage);
        if !call.is_error() || has_a_better_name {
            return Detection::Absent;
        }
        let threshold = trajectory.config().cascade_threshold.get();
        let red_is_output = trajectory.config().failing_exit_is_output;
        let in_a_row = trajectory.calls_since_user_message().take_while(|call| call.is_error());
        let row = Failures::among(red_is_output, in_a_row);
        let lately =
            Failures::among(red_is_output, trajectory.calls_since_user_message().take(LATEST));
        let failures = if row.rounds >= threshold {
            row
        } else if lately.rounds >= MOSTLY {
            lately
        } else {
            return Detection::Absent;
        };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ErrorCascade {
                failures: u64::from(failures.rounds),
                tools: u32::try_from(failures.tools.len()).unwrap_or(u32::MAX),
            },
            Confidence::clamped(0.75),
            Cause::only("error_cascade"),
            failures.rounds,
            failures.evidence,
        ))
    }

    fn reset(&mut self) {}
}

/// Failures, those of one round once.
struct Failures<'a> {
    rounds: u32,
    tools: Vec<&'a str>,
    evidence: Vec<u64>,
}

impl<'a> Failures<'a> {
    fn among(red_is_output: bool, calls: impl Iterator<Item = &'a ToolInvoked>) -> Self {
        let mut failures = Self { rounds: 0, tools: Vec::new(), evidence: Vec::new() };
        let mut rounds = Rounds::default();
        for call in calls.filter(|call| is_failure(red_is_output, call)) {
            rounds.add(call);
            failures.rounds = rounds.count();
            if !failures.tools.contains(&call.tool()) {
                failures.tools.push(call.tool());
            }
            failures.evidence.push(call.ended_seq());
        }
        failures
    }
}

/// A failure, and not the output of a check that went red in a new way.
fn is_failure(red_is_output: bool, call: &ToolInvoked) -> bool {
    let is_red = || red_is_output && call.is_shell() && call.is_new_error();
    match call.error_class() {
        None | Some(ErrorClass::Outage) => false,
        Some(ErrorClass::Check | ErrorClass::Other) => !is_red(),
        Some(_) => true,
    }
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ErrorCascade { failures, tools } = detail else { return None };
    match rung.0 {
        1 if *tools > 1 => Some(format!(
            "{failures} calls failed lately, in {tools} different tools. Something they share may \
             be wrong: the working directory, the environment, or an assumption about both."
        )),
        1 => Some(format!(
            "{failures} calls failed lately, each in another way. One small call that is sure to \
             work shows what still holds and is firm ground to go on from."
        )),
        2 => Some(
            "The failures go on. Going back to the last state that worked, and taking one step at \
             a time from there, tells which step breaks it."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn different_errors_in_different_tools() {
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
    fn red_tests_with_new_output_are_output() {
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
}
