//! Sees a model that says the same thing again and again: in message after message without acting on
//! it, or over and over within one message.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
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

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection {
        let same = trajectory.repeated_response_count().min(trajectory.responses_without_call());
        let chants = trajectory.response_repeats_itself();
        if same < REPETITIONS && !chants {
            return Detection::Absent;
        }
        let repetitions = if chants { 0 } else { same };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Monologue { repetitions },
            Confidence::clamped(0.9),
            Cause::only("monologue"),
            repetitions.max(1),
            [record.seq],
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::Monologue { repetitions } = detail else { return None };
    match (rung.0, repetitions) {
        (1, 0) => Some(
            "The last message repeats itself over and over. Ending it there, and taking one small \
             concrete step, gets the work going again."
                .to_owned(),
        ),
        (1, _) => Some(format!(
            "The last {repetitions} answers said the same thing. One concrete action, or a final \
             answer with what is known, would end the repetition."
        )),
        (2, _) => Some(
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

    #[test]
    fn nearly_the_same_words() {
        check(
            "
            assistant: I apologize for the confusion. I will now write the file to disk (1).
            assistant: I apologize for the confusion. I will now write the file to disk (2).
            assistant: I apologize for the confusion. I will now write the file to disk (3).
            ",
            &["call 0: monologue of 3"],
        );
    }

    #[test]
    fn over_and_over_in_one_message() {
        let chant = "I will fix the test. ".repeat(12);
        check(&format!("assistant: {chant}"), &["call 0: monologue of 0"]);
    }
}
