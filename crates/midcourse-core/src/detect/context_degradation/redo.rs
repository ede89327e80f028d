//! Recognizes that the agent starts over: it repeats the calls of an earlier part of the run in the
//! same order.
//!
//! `Redo` stores two bytes per call, so it can remember more calls than the analysis keeps. Two
//! different calls may have the same two bytes, but for several calls in a row this is very
//! unlikely.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::analysis::{ToolInvoked, TrajectoryAnalysis};

/// How many of the latest calls are remembered.
const MAX_REMEMBERED_CALLS: usize = 128;

/// A repetition begins only with a call that was made at least this many calls ago. Shorter cycles
/// are loops, which another detector reports.
const MIN_DISTANCE: usize = 16;

/// Between two repeated calls, the agent may skip at most this many calls of the earlier part.
const MAX_LEFT_OUT: usize = 3;

/// If more than this many calls in a row repeat nothing, the repetition has ended.
const MAX_OTHER_CALLS: u32 = 2;

/// If the repeated calls have this many points together, the agent has started over. A call counts
/// one point. A change counts more: an agent may have a reason to read something again, but rarely
/// to make the same change again.
const MIN_POINTS: u32 = 7;
const POINTS_OF_A_CHANGE: u32 = 2;

type Fingerprint = [u8; 2];

/// The remembered calls, and the current repetition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Redo {
    /// Oldest first.
    calls: VecDeque<Fingerprint>,
    /// The different calls of the current repetition with the seqs of their end, oldest first.
    repeated: Vec<(Fingerprint, u64)>,
    /// Sum of the points of the repeated calls.
    points: u32,
    /// Number of calls since the original of the latest repeated call.
    distance: usize,
    /// Number of calls since the latest repeated call.
    others: u32,
}

impl Redo {
    /// Adds a call. If this call shows that the agent has started over, returns the seqs of the
    /// repeated calls.
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
        // After a compaction, the agent may have to read something again, so only changes count.
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

    /// Finds the earlier call that a call with this fingerprint repeats, as the next call of the
    /// current repetition or the first of a new one. Returns how many calls ago it was made.
    fn original_of(&self, fingerprint: Fingerprint) -> Option<usize> {
        // Most calls are new. This test compares with all remembered calls without a branch, so the
        // compiler can use vector instructions.
        let (older, newer) = self.calls.as_slices();
        let is_in = |calls: &[Fingerprint]| {
            calls.iter().fold(false, |any, known| {
                any | (u16::from_le_bytes(*known) == u16::from_le_bytes(fingerprint))
            })
        };
        if !(is_in(older) || is_in(newer)) {
            return None;
        }
        // Numbers the remembered calls by how many calls ago they were made; the latest has number
        // 1.
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

/// Two bytes of a digest: of the call, if it changes something; otherwise of the call and its
/// result.
fn fingerprint_of(call: &ToolInvoked) -> Fingerprint {
    let digest = if call.writes() {
        call.exact_digest()
    } else {
        call.exact_digest().with(call.result_digest())
    };
    let [first, second, ..] = digest.value().to_le_bytes();
    [first, second]
}
