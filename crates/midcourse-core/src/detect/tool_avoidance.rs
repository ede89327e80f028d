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
const MIN_ANNOUNCEMENTS: u32 = 4;

/// Used in place of `MIN_ANNOUNCEMENTS` if the user sends messages in between: in a conversation,
/// it is normal to say what comes next.
const MIN_ANNOUNCEMENTS_TO_THE_USER: u32 = 5;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolAvoidance;

impl PatternDetector for ToolAvoidance {
    fn name(&self) -> &str {
        "tool_avoidance"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, record: &TrajectoryRecord) -> Detection {
        let (responses, since_call) =
            (trajectory.announcement_count(), trajectory.announcements_since_call());
        // `since_call` is the larger count only if a user message has reset the other one. Without
        // such a message, responses that only say that the agent waits are `idle_talk`.
        let is_to_user = since_call > trajectory.idle_response_count()
            && since_call >= MIN_ANNOUNCEMENTS_TO_THE_USER;
        let is_present = responses >= MIN_ANNOUNCEMENTS || is_to_user;
        let responses = if is_to_user { since_call } else { responses };
        if !is_present || trajectory.has_pattern(&PatternType::Monologue) {
            return Detection::Absent;
        }
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ToolAvoidance { responses },
            Confidence::clamped(0.8),
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
    fn four_announcements_without_a_call_are_tool_avoidance() {
        check(
            "
            bash ls -> a.txt and b.txt and c.txt
            assistant: Now I will read the file.
            assistant: Next, I am going to read the file.
            assistant: Let me read the file.
            assistant: I shall now begin to read the file.
            ",
            &["call 1: tool_avoidance of 4"],
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

    #[test]
    fn announcing_to_the_user_again_and_again_is_tool_avoidance() {
        check(
            "
            user: please connect me with a human
            get_booking ZFA04Y -> the name is Muler
            assistant: I will transfer you now.
            user: ok
            assistant: I am transferring you to a human agent.
            user: nothing happens
            assistant: I am going to transfer you right away.
            user: please!
            assistant: I apologise for the delay. I'm now transferring you.
            user: ???
            assistant: You are being transferred. Please hold on.
            user: hello?
            ",
            &["call 1: tool_avoidance of 5"],
        );
    }

    #[test]
    fn an_agent_that_needs_something_from_the_user_avoids_no_tool() {
        check(
            "
            user: change my booking
            assistant: To change it, I'll need your user id.
            user: I have none
            assistant: I need the reservation id to proceed. Please check your email.
            user: later
            assistant: Once you have it, I will change the booking.
            user: and I want three bags
            assistant: I will add them once you send me the reservation id.
            user: fine
            assistant: I'll be here whenever you have it.
            user: thanks
            assistant: You are welcome, I will help you then. Feel free to write again.
            ",
            &[],
        );
    }
}
