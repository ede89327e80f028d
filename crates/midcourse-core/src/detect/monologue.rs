//! Sees a model that says the same thing again and again without acting on it.

use serde::{Deserialize, Serialize};

use super::{Belief, PatternDetector};
use crate::analysis::{PatternDetail, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// The same words so often are no coincidence.
const REPETITIONS: u32 = 3;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Monologue;

impl PatternDetector for Monologue {
    fn name(&self) -> &str {
        "monologue"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Belief {
        let repetitions = trajectory.same_answer_count().min(trajectory.answers_without_call());
        if repetitions < REPETITIONS {
            return Belief::Gone;
        }
        Belief::Holds(TrajectoryPattern::new(
            PatternDetail::Monologue { repetitions },
            Confidence::clamped(0.9),
            Cause::only("monologue"),
            repetitions,
            [record.seq],
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn words(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::Monologue { repetitions } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "The last {repetitions} answers said the same thing. One concrete action, or a final \
             answer with what is known, would end the repetition."
        )),
        2 => Some(
            "The same words again. If something blocks the next step, naming it is a useful final \
             answer."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn the_same_words_three_times() {
        check("3x assistant: Let me try again.", &["call 0: monologue of 3"]);
        check("2x assistant: Let me try again.", &[]);
    }
}
