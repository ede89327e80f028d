//! Detects a model that repeats itself: the same text in response after response without a tool
//! call, or over and over within one message.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// If this many responses in a row have the same text and no tool call, the pattern is present.
const MIN_REPEATED_RESPONSES: u32 = 3;
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Monologue;

impl PatternDetector for Monologue {
    fn name(&self) -> &str {
        "monologue"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection {
        let same = trajectory.repeated_response_count().min(trajectory.responses_without_call());
        let within_message = trajectory.response_repeats_itself();
        if same < MIN_REPEATED_RESPONSES && !within_message {
            return Detection::Absent;
        }
        // 0 means that the repetition is within one message.
        let repetitions = if within_message { 0 } else { same };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Monologue { repetitions },
            Confidence::clamped(0.85),
            Cause::only("monologue"),
            repetitions.max(1),
            [record.seq],
        ))
    }

    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn the_same_response_three_times_is_a_monologue() {
        check("3x assistant: Let me try again.", &["call 0: monologue of 3"]);
        check("2x assistant: Let me try again.", &[]);
    }

    #[test]
    fn nearly_the_same_responses_are_a_monologue() {
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
    fn one_message_that_repeats_itself_is_a_monologue() {
        let message = "I will fix the test. ".repeat(12);
        check(&format!("assistant: {message}"), &["call 0: monologue of 0"]);
    }

    #[test]
    fn a_scheduled_message_that_is_answered_as_told_is_not_a_monologue() {
        let beat = "+30m user: HEARTBEAT: reply HEARTBEAT_OK if nothing is due.\n\
                    assistant: HEARTBEAT_OK\n";
        check(&beat.repeat(6), &[]);
        let prompt = "+2s user: Call submit when the work is done.\nassistant: It is done.\n";
        check(&prompt.repeat(3), &["call 0: monologue of 3"]);
    }
}
