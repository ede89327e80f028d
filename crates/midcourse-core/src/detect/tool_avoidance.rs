//! Sees a model that announces and does not act.
//!
//! Only short messages that say what will be done count: several agents that talk to each other, or
//! an answer in several parts, carry something.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, PatternType, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// Announcements in a row without a call, and without a word from a person.
const ANSWERS: u32 = 3;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolAvoidance;

impl PatternDetector for ToolAvoidance {
    fn name(&self) -> &str {
        "tool_avoidance"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection {
        let responses = trajectory.announcement_count();
        if responses < ANSWERS || trajectory.has_pattern(&PatternType::Monologue) {
            return Detection::Absent;
        }
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ToolAvoidance { responses },
            Confidence::clamped(0.7),
            Cause::only("tool_avoidance"),
            responses,
            [record.seq],
        ))
    }

    fn reset(&mut self) {}
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ToolAvoidance { responses } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "{responses} answers in a row said what comes next, and none of them did it. One tool \
             call takes the step; if the work is done, a final answer ends it."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn announcing_without_acting() {
        check(
            "
            bash ls -> a.txt and b.txt and c.txt
            assistant: Now I will read the file.
            assistant: Next, I am going to read the file.
            assistant: Let me read the file.
            assistant: I shall now begin to read the file.
            ",
            &["call 1: tool_avoidance of 3"],
        );
    }

    #[test]
    fn messages_that_carry_something_are_none() {
        check(
            "
            assistant: The first museum costs 20 dollars for adults and 10 for children.
            assistant: The second one is free on Sundays, according to its page.
            assistant: Together that makes 60 dollars for the family.
            assistant: That agrees with the figure given in the task.
            assistant: TERMINATE
            ",
            &[],
        );
    }

    #[test]
    fn talking_with_a_person_is_none() {
        check(
            "
            bash ls -> a.txt and b.txt and c.txt
            assistant: Which file?
            user: the first
            assistant: And which line?
            user: the third
            assistant: What for?
            user: curiosity
            assistant: Good.
            user: thanks
            assistant: You are welcome.
            ",
            &[],
        );
    }
}
