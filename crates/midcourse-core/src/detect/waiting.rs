//! Sees that the agent waits for something else. It is not trouble and nothing is said about it;
//! it keeps the other detectors from taking a wait for a loop.
//!
//! A wait is a call that sleeps or polls by its nature, or the same question asked again as one who
//! waits does it: a minute or more later, each time later, or after a sleep.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::record::TrajectoryRecord;
use crate::time::Timestamp;

/// One pause is a pause; two are a wait.
const POLLS: u32 = 2;

/// How many calls back the last time of asking is looked for: polls alternate with sleeps.
const REACH: usize = 4;

/// The detector.
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
        let asked_before = trajectory
            .earlier_distinct_calls()
            .take(REACH)
            .find(|old| old.call_digest() == call.call_digest());
        if !call.polls() {
            // The question between two sleeps is part of the wait.
            if asked_before.is_some() && self.polls > 0 {
                return Detection::Unchanged;
            }
            self.reset();
            return Detection::Absent;
        }
        self.polls = self.polls.saturating_add(1);
        let since = *self.since.get_or_insert_with(|| {
            self.first_seq = call.ended_seq();
            asked_before.map_or(call.started_at(), ToolInvoked::ended_at)
        });
        if self.polls < POLLS {
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
    fn spaced_polls_are_no_loop() {
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
    fn sleeping_between_two_looks_is_no_loop() {
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
