//! Detects that the agent waits for something, such as a build. Waiting is not trouble and has no
//! message. Other detectors look at this pattern, so that they do not report a normal wait as a
//! stall or as needless repetition.
//!
//! A wait consists of calls that sleep or poll by their nature, or of the same call repeated like a
//! poll: a minute or more later, after growing pauses, or after a sleep.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;
use crate::time::Timestamp;

/// After this many polls the agent is waiting; a single poll is just a pause.
const MIN_POLLS: u32 = 2;

/// How many earlier calls are searched for the previous poll, which is the latest of them that
/// equals the current call. There may be sleeps and other calls between two polls.
const MAX_CALLS_BETWEEN_POLLS: usize = 4;
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    polls: u32,
    since: Option<Timestamp>,
    first_seq: u64,
}

impl PatternDetector for Waiting {
    fn name(&self) -> &str {
        "waiting"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        let previous_poll = trajectory
            .earlier_distinct_calls()
            .take(MAX_CALLS_BETWEEN_POLLS)
            .find(|old| old.call_digest() == call.call_digest());
        if !call.polls() {
            // During a wait, a call that equals one of the few calls before it is part of the wait,
            // even if it comes too soon to be a poll.
            if previous_poll.is_some() && self.polls > 0 {
                return Detection::Unchanged;
            }
            self.reset();
            return Detection::Absent;
        }
        self.polls = self.polls.saturating_add(1);
        let since = *self.since.get_or_insert_with(|| {
            self.first_seq = call.ended_seq();
            previous_poll.map_or(call.started_at(), ToolInvoked::ended_at)
        });
        if self.polls < MIN_POLLS {
            return Detection::Absent;
        }
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Waiting {
                polls: self.polls,
                duration: trajectory.latest_at().since(since),
            },
            Confidence::clamped(0.9),
            Cause::only("waiting"),
            self.polls,
            [self.first_seq, call.ended_seq()],
        ))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn polls_with_long_pauses_are_a_wait_and_not_a_loop() {
        check(
            "
            bash gh run view -> in progress, nothing new to see
            +2m bash gh run view -> in progress, nothing new to see
            +2m bash gh run view -> in progress, nothing new to see
            +2m bash gh run view -> in progress, nothing new to see
            ",
            &["call 3: waiting for 2 polls"],
        );
    }

    #[test]
    fn sleeping_between_two_polls_is_a_wait_and_not_a_loop() {
        check(
            "
            bash curl -s localhost/ready -> 503 and a longer text
            bash sleep 10 ->
            bash curl -s localhost/ready -> 503 and a longer text
            bash sleep 20 ->
            bash curl -s localhost/ready -> 503 and a longer text
            bash sleep 40 ->
            bash curl -s localhost/ready -> 503 and a longer text
            ",
            &["call 3: waiting for 2 polls"],
        );
    }
}
