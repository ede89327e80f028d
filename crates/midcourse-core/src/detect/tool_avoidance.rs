//! Detects a model that announces actions and does not take them.
//!
//! Only short messages that announce an action count. Longer messages have content of their own, as
//! when an agent talks to another agent or responds in several parts.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, PatternType, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;

/// If this many responses in a row announce an action, and no tool call or user message comes in
/// between, the pattern is present.
const MIN_ANNOUNCEMENTS: u32 = 3;
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolAvoidance;

impl PatternDetector for ToolAvoidance {
    fn name(&self) -> &str {
        "tool_avoidance"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection {
        let responses = trajectory.announcement_count();
        if responses < MIN_ANNOUNCEMENTS || trajectory.has_pattern(&PatternType::Monologue) {
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

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn three_announcements_without_a_call_are_tool_avoidance() {
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
    fn messages_with_content_are_not_tool_avoidance() {
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
    fn a_conversation_with_the_user_is_not_tool_avoidance() {
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
