//! Recognizes that the agent starts over: it makes the calls of an earlier part of the run again, in
//! the same order.
//!
//! Of each call, two bytes are remembered, so that a part is recognized that is older than the calls
//! that the analysis keeps. Two different calls may share these bytes, but not several in a row.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::analysis::{ToolInvoked, TrajectoryAnalysis};

/// How many of the latest calls are remembered.
const MAX_REMEMBERED_CALLS: usize = 128;

/// A call counts as made again only if it was first made at least this many calls ago. Shorter
/// rounds are loops, which another detector reports.
const MIN_DISTANCE: usize = 16;

/// From one repeated call to the next, at most this many calls of the earlier part may be left out.
const MAX_LEFT_OUT: usize = 3;

/// If this many calls in a row are no repetition, the agent has not started over.
const MAX_OTHER_CALLS: u32 = 2;

/// If the different calls that were made again in the same order have this many points, the agent
/// has started over. A call has one point. A change has more: the agent may want to look at something
/// again, but to make the same change again is no work.
const MIN_POINTS: u32 = 7;
const POINTS_OF_A_CHANGE: u32 = 2;

type Fingerprint = [u8; 2];

/// The remembered calls, and the repeated calls up to the latest one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Redo {
    /// Oldest first.
    calls: VecDeque<Fingerprint>,
    /// The different calls that were repeated in order, oldest first, with their seqs.
    repeated: Vec<(Fingerprint, u64)>,
    /// The repeated calls together, as evidence that the agent has started over.
    points: u32,
    /// Number of calls since the original of the call that was repeated last.
    distance: usize,
    /// Number of calls since the call that was repeated last.
    others: u32,
}

impl Redo {
    /// Adds a call. If this call is one of many that the agent made again, returns the seqs of these
    /// calls.
    pub(super) fn add(
        &mut self,
        trajectory: &TrajectoryAnalysis,
        call: &ToolInvoked,
    ) -> Option<Vec<u64>> {
        let is_other = call.polls() || call.is_idle() || call.is_positive() || call.is_silent();
        if is_other && !call.writes() {
            return None;
        }
        let fingerprint = fingerprint_of(call);
        let original = self.original_of(fingerprint);
        self.calls.push_back(fingerprint);
        if self.calls.len() > MAX_REMEMBERED_CALLS {
            self.calls.pop_front();
        }
        // After a compaction, the agent may have to look at something again.
        let is_forgotten = trajectory.compaction_count() > 0 && !call.writes();
        let Some(distance) = original.filter(|_| !is_forgotten) else {
            self.others += 1;
            self.distance += 1;
            if self.others > MAX_OTHER_CALLS {
                self.repeated.clear();
                self.points = 0;
            }
            return None;
        };
        self.others = 0;
        self.distance = distance;
        if !self.repeated.iter().any(|(known, _)| *known == fingerprint) {
            self.repeated.push((fingerprint, call.ended_seq()));
            self.points += if call.writes() { POINTS_OF_A_CHANGE } else { 1 };
        }
        if self.repeated.len() > MIN_POINTS as usize {
            self.repeated.remove(0);
        }
        let is_redo = self.points >= MIN_POINTS;
        is_redo.then(|| self.repeated.iter().map(|(_, seq)| *seq).collect())
    }

    /// How many calls ago the call with this fingerprint was made that continues the repetition, or
    /// that begins one.
    fn original_of(&self, fingerprint: Fingerprint) -> Option<usize> {
        // Most calls are new. This test looks at all remembered calls without a branch, so that the
        // compiler can compare many at once.
        let (older, newer) = self.calls.as_slices();
        let is_in = |calls: &[Fingerprint]| {
            calls.iter().fold(false, |any, known| {
                any | (u16::from_le_bytes(*known) == u16::from_le_bytes(fingerprint))
            })
        };
        if !(is_in(older) || is_in(newer)) {
            return None;
        }
        // Numbers the remembered calls by how many calls ago they were made; the latest has number 1.
        let mut earlier = (1..).zip(self.calls.iter().rev());
        if self.repeated.is_empty() {
            let found = earlier.filter(|(distance, _)| *distance >= MIN_DISTANCE);
            return found.filter(|(_, known)| **known == fingerprint).last().map(|(at, _)| at);
        }
        let nearest = self.distance.saturating_sub(MAX_LEFT_OUT).max(1);
        let is_next = |distance: usize| (nearest..=self.distance).contains(&distance);
        earlier.find(|(at, known)| is_next(*at) && **known == fingerprint).map(|(at, _)| at)
    }
}

/// For a call that changes something, two bytes of the digest of the call; for another call, of the
/// call and its result.
fn fingerprint_of(call: &ToolInvoked) -> Fingerprint {
    let digest = if call.writes() {
        call.exact_digest()
    } else {
        call.exact_digest().with(call.result_digest())
    };
    let [first, second, ..] = digest.value().to_le_bytes();
    [first, second]
}
