//! Detects a model that only talks: response after response says that the agent waits, asks a
//! question that nobody replies to, thanks, or says again that the work is done, and none calls a
//! tool.
//!
//! Other detectors report consecutive announcements (`tool_avoidance`) and equal texts
//! (`monologue`). Responses that say anything else do not count.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, PatternType, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// If this many responses in a row only talk, and no tool call or user message comes in between,
/// the pattern is present. A few are normal: an agent may end with a summary, a question and a
/// greeting.
const MIN_IDLE_RESPONSES: u32 = 5;

/// If this many responses in a row call no tool, whatever they say, the pattern is present: the agent
/// thinks and does not act.
const MIN_RESPONSES_WITHOUT_CALL: u32 = 8;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct IdleTalk;

impl PatternDetector for IdleTalk {
    fn name(&self) -> &str {
        "idle_talk"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection {
        let (idle, all) = (trajectory.idle_response_count(), trajectory.responses_without_call());
        let is_talk = all >= MIN_RESPONSES_WITHOUT_CALL && trajectory.tool_call_count() > 0;
        let responses = if is_talk { all } else { idle };
        let has_specific_pattern = trajectory.has_pattern(&PatternType::Monologue)
            || trajectory.has_pattern(&PatternType::ToolAvoidance);
        if responses < MIN_IDLE_RESPONSES || has_specific_pattern {
            return Detection::Absent;
        }
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::IdleTalk { responses },
            Confidence::clamped(0.85),
            Cause::only("idle_talk"),
            responses,
            [record.seq],
        ))
    }

    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn waiting_in_words_is_idle_talk() {
        check(
            "
            bash nohup fsck /dev/sda > fsck.log & -> [1] 4711
            assistant: fsck is running in the background. I'm waiting for it to finish.
            assistant: Waiting for fsck to complete.
            assistant: The check takes a while. Please hold on.
            assistant: fsck should be done soon; still waiting.
            assistant: The file system check is in progress; waiting.
            ",
            &["call 1: idle_talk of 5"],
        );
    }

    #[test]
    fn eight_responses_without_a_call_are_idle_talk() {
        let thoughts: String = ["lock order", "fairness", "queues", "memory", "tests", "naming"]
            .iter()
            .chain(&["clients", "costs"])
            .map(|about| format!("assistant: One more aspect of the design is {about}.\n"))
            .collect();
        let run = format!("read a.rs -> the text of the file\n{thoughts}");
        check(&run, &["call 1: idle_talk of 8"]);
    }

    #[test]
    fn messages_of_the_harness_are_no_conversation() {
        check(
            "
            user: correct the texts, then call finish()
            set_text a -> saved
            assistant: All texts are corrected. The task is complete.
            user: Continue. If you are done, call finish().
            assistant: As mentioned, the task is complete.
            user: Continue. If you are done, call finish().
            assistant: Everything is done. There are no further steps.
            user: Continue. If you are done, call finish().
            assistant: The work is finished. Let me know if you need anything else.
            user: Continue. If you are done, call finish().
            assistant: The task has been completed.
            ",
            &["call 1: idle_talk of 5"],
        );
    }

    #[test]
    fn a_conversation_with_a_person_is_not_idle_talk() {
        check(
            "
            user: I want to change my flight
            assistant: Of course. Could you please confirm your booking number?
            user: JG7FMM
            assistant: Thank you. Which day do you prefer?
            user: the 22nd
            assistant: Thank you. Shall I use your credit card?
            user: no, the gift card
            assistant: The gift card is not enough. Would you like to add another card?
            user: then leave it
            assistant: Thank you, have a nice day!
            user: bye
            assistant: Goodbye!
            ",
            &[],
        );
    }

    #[test]
    fn responses_with_content_are_not_idle_talk() {
        check(
            "
            assistant: The first museum costs 20 dollars for adults and 10 for children.
            assistant: The second one is free on Sundays, according to its page.
            assistant: Together that makes 60 dollars for the family.
            assistant: The bus costs 4 dollars per person and runs every 20 minutes.
            assistant: That agrees with the figure given in the task.
            assistant: So the answer is 60 dollars.
            ",
            &[],
        );
    }
}
