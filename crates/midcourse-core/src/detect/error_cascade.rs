//! Sees one failure after the other, each different: the agent has lost its footing.
//!
//! The same error again and again is left to `repeated_error`. Failures of one round count once,
//! and in the shipped configuration a failing exit with new output is output, not a failure.

use serde::{Deserialize, Serialize};

use super::{Belief, PatternDetector};
use crate::analysis::{PatternDetail, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;
use crate::text::ErrorClass;

/// Two errors that take turns are a circle; many different ones are a cascade.
const DIFFERENT: usize = 3;

/// The latest failures that are looked at: enough to tell many errors from one.
const LATEST: usize = 16;

/// The detector; the streak itself is a counter of the analysis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ErrorCascade;

impl PatternDetector for ErrorCascade {
    fn name(&self) -> &str {
        "error_cascade"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Belief {
        if trajectory.person_just_spoke() {
            return Belief::Gone;
        }
        if trajectory.call_just_ended().is_none() {
            return Belief::Unchanged;
        }
        let threshold = trajectory.config().cascade_threshold.get();
        if trajectory.consecutive_failures() < u64::from(threshold) {
            return Belief::Gone;
        }
        let latest = || trajectory.calls_since_spoken_to().take(LATEST);
        let streak = || latest().take_while(|call| call.is_error());
        let (mut rounds, mut turn) = (0, None);
        let (mut signatures, mut tools) = (Vec::new(), Vec::new());
        for call in streak() {
            if turn.replace(call.turn()) != Some(call.turn()) {
                rounds += 1;
            }
            let Some(error) = call.status().error() else { continue };
            if error.class == ErrorClass::Outage {
                return Belief::Gone;
            }
            signatures.push(error.digest);
            tools.push(call.tool());
        }
        tools.sort_unstable();
        tools.dedup();
        signatures.sort_unstable();
        let different = || signatures.chunk_by(|a, b| a == b);
        let most = different().map(<[_]>::len).max().unwrap_or(0);
        if rounds < threshold || different().count() < DIFFERENT || most * 2 > signatures.len() {
            return Belief::Gone;
        }
        Belief::Holds(TrajectoryPattern::new(
            PatternDetail::ErrorCascade {
                failures: trajectory.consecutive_failures(),
                tools: u32::try_from(tools.len()).unwrap_or(u32::MAX),
            },
            Confidence::clamped(0.75),
            Cause::only("error_cascade"),
            rounds,
            streak().map(|call| call.ended_seq()),
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn words(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ErrorCascade { failures, tools } = detail else { return None };
    match rung.0 {
        1 if *tools > 1 => Some(format!(
            "{failures} calls in a row failed, in {tools} different tools. Something they share \
             may be wrong: the working directory, the environment, or an assumption about both."
        )),
        1 => Some(format!(
            "{failures} calls in a row failed, each in another way. One small call that is sure to \
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
