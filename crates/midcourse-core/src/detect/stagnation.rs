//! Sees ever new questions to one tool that all get the same answer.
//!
//! Thirty-eight searches that find nothing are the classic. A bare "ok" from a tool that writes is
//! no stagnation, and neither is a shell command that prints nothing.

use serde::{Deserialize, Serialize};

use super::{Belief, PatternDetector};
use crate::analysis::{PatternDetail, PatternType, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stagnation;

impl PatternDetector for Stagnation {
    fn name(&self) -> &str {
        "stagnation"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Belief {
        if trajectory.person_just_spoke() {
            return Belief::Gone;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Belief::Unchanged };
        if call.is_error() || call.is_bare() || call.writes() {
            return Belief::Unchanged;
        }
        let (mut questions, mut evidence) = (Vec::new(), Vec::new());
        let mine = trajectory.calls_since_spoken_to().filter(|old| old.tool() == call.tool());
        for old in mine {
            if !old.same_answer(call) {
                break;
            }
            questions.push(old.question());
            evidence.push(old.ended_seq());
        }
        questions.sort_unstable();
        questions.dedup();
        let threshold = trajectory.config().stagnation_threshold.get() as usize;
        if questions.len() < threshold || trajectory.has_pattern(&PatternType::DoomLoop) {
            return Belief::Gone;
        }
        let count = u32::try_from(questions.len()).unwrap_or(u32::MAX);
        Belief::Holds(TrajectoryPattern::new(
            PatternDetail::Stagnation { tool: call.safe_tool(), questions: count },
            Confidence::clamped(0.8),
            Cause::new("stagnation", Digest::of(call.tool().as_bytes()).with(call.answer())),
            count,
            evidence,
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn words(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::Stagnation { questions, tool } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "{questions} different calls of {tool} got the same answer. The answer may simply be \
             true: what is looked for may be absent, elsewhere, or called something else."
        )),
        2 => Some(
            "Varying the question still brings the same answer. Another tool, or a look at what is \
             there instead of a search for what should be, would add something new."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn many_searches_that_find_nothing() {
        check(
            "
            grep alpha   -> No matches found
            grep bravos  -> No matches found
            grep kilo    -> No matches found
            grep x-ray   -> No matches found
            grep juliet  -> No matches found
            grep foxtrot -> No matches found
            ",
            &["call 6: stagnation of 6"],
        );
    }

    #[test]
    fn a_bare_ok_from_a_writing_tool_is_none() {
        check(
            r#"
            write {"path":"a","content":"1"} -> File was written with success
            write {"path":"b","content":"2"} -> File was written with success
            write {"path":"c","content":"3"} -> File was written with success
            write {"path":"d","content":"4"} -> File was written with success
            write {"path":"e","content":"5"} -> File was written with success
            write {"path":"f","content":"6"} -> File was written with success
            write {"path":"g","content":"7"} -> File was written with success
            "#,
            &[],
        );
    }
}
