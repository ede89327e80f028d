//! The ledger of causes: what a run was told about what, by whomever.
//!
//! Feedback and guidance share it, so one cause has one ladder. A cause that was spoken of waits
//! before it is spoken of again, each time twice as long, and is never told twice in the same
//! words. Nothing on the ladder ever stops a run.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Rung, Why};
use crate::digest::Digest;
use crate::time::Timestamp;

/// Causes that are remembered; beyond it the trouble spoken of longest ago is forgotten.
pub const MAX_CAUSES: usize = 64;

/// The latest words about one cause that are remembered, so as not to be said again.
pub const MAX_REMEMBERED_TEXTS: usize = 16;

/// Calls before which nothing is said about how a run is going: too early to tell.
const SETTLING_CALLS: u64 = 3;

/// Calls between words about different troubles: one trouble often looks like several.
const CALLS_BETWEEN: u64 = 3;

/// Causes that are states of the world and not trouble; a trigger paces them, not a ladder.
const STANDING: [&str; 2] = ["deadline", "budget"];

/// Causes that show in what is said, not in calls, and so are not too early to tell.
const ABOUT_SPEECH: [&str; 2] = ["monologue", "tool_avoidance"];

/// How long a cause waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerPolicy {
    /// Calls (or answers) between the first and the second word; later waits double.
    pub cool_down_calls: NonZeroU32,
}

impl Default for LedgerPolicy {
    fn default() -> Self {
        Self { cool_down_calls: NonZeroU32::MIN.saturating_add(2) }
    }
}

/// What was said about which cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// Least recently spoken of first.
    entries: VecDeque<Entry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    cause: Digest,
    rung: u8,
    /// The number of calls, or answers, by then.
    told_at: u64,
    told_at_seq: u64,
    told_at_time: Timestamp,
    /// The host has thrown away what was said.
    is_compacted_away: bool,
    is_standing: bool,
    is_speech: bool,
    words: VecDeque<Digest>,
}

/// Whether a cause shows in what the model says, and so is paced by answers and not by calls.
pub(crate) fn is_about_speech(cause: &Cause) -> bool {
    ABOUT_SPEECH.contains(&cause.kind())
}

impl Cause {
    /// Whether it is a state of the world, such as a deadline or a budget, and not trouble.
    pub fn is_standing(&self) -> bool {
        STANDING.contains(&self.kind())
    }
}

impl Ledger {
    fn entry(&self, cause: &Cause) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.cause == cause.id())
    }

    /// The rung that the next word about a cause is on.
    pub fn next_rung(&self, cause: &Cause) -> Rung {
        Rung(self.entry(cause).map_or(0, |entry| entry.rung).saturating_add(1))
    }

    /// Whether a cause may be spoken of after this many calls of the run, or answers of the model
    /// for a cause that shows in those.
    pub fn may_deliver(&self, cause: &Cause, steps: u64, policy: LedgerPolicy) -> bool {
        if cause.is_standing() {
            return true;
        }
        if steps < SETTLING_CALLS && !is_about_speech(cause) {
            return false;
        }
        if !is_about_speech(cause) && self.has_just_spoken(cause, steps) {
            return false;
        }
        let Some(entry) = self.entry(cause) else { return true };
        let doublings = u32::from(entry.rung.saturating_sub(1)).min(20);
        let wait = u64::from(policy.cool_down_calls.get()) << doublings;
        entry.is_compacted_away || steps >= entry.told_at.saturating_add(wait)
    }

    /// Whether some other trouble was spoken of a moment ago.
    fn has_just_spoken(&self, cause: &Cause, steps: u64) -> bool {
        let mut troubles = self.entries.iter().filter(|entry| {
            !entry.is_standing
                && !entry.is_speech
                && !entry.is_compacted_away
                && entry.cause != cause.id()
        });
        troubles.next_back().is_some_and(|last| steps < last.told_at.saturating_add(CALLS_BETWEEN))
    }

    /// When a cause was last spoken of, by whomever.
    pub fn last_delivery(&self, cause: &Cause) -> Option<Timestamp> {
        self.entry(cause).map(|entry| entry.told_at_time)
    }

    /// Whether the agent no longer has what it was last told about a cause.
    pub fn is_compacted_away(&self, cause: &Cause) -> bool {
        self.entry(cause).is_some_and(|entry| entry.is_compacted_away)
    }

    /// Whether there is something to say that was not said: other words, and for trouble also a
    /// record that shows it and is newer than the last word about it.
    pub fn is_new_text(&self, why: &Why, words: &str) -> bool {
        let Some(entry) = self.entry(&why.cause) else { return true };
        let shown_again = why.evidence.iter().any(|seq| *seq > entry.told_at_seq);
        (shown_again || entry.is_standing || why.evidence.is_empty())
            && !entry.words.contains(&Digest::of(words.as_bytes()))
    }

    pub(crate) fn record_delivery(
        &mut self,
        why: &Why,
        words: &str,
        seq: u64,
        at: Timestamp,
        steps: u64,
    ) {
        let Why { cause, rung, .. } = why;
        let known = self.entries.iter().position(|entry| entry.cause == cause.id());
        let mut entry = known.and_then(|at| self.entries.remove(at)).unwrap_or_else(|| Entry {
            cause: cause.id(),
            rung: 0,
            told_at: 0,
            told_at_seq: 0,
            told_at_time: at,
            is_compacted_away: false,
            is_standing: cause.is_standing(),
            is_speech: is_about_speech(cause),
            words: VecDeque::new(),
        });
        entry.rung = entry.rung.max(rung.0);
        entry.told_at = steps;
        entry.told_at_seq = seq;
        // A clock that stepped back does not make a later word an earlier one.
        entry.told_at_time = entry.told_at_time.max(at);
        entry.is_compacted_away = false;
        if entry.words.len() == MAX_REMEMBERED_TEXTS {
            entry.words.pop_front();
        }
        entry.words.push_back(Digest::of(words.as_bytes()));
        if self.entries.len() == MAX_CAUSES {
            // A deadline outlives any number of troubles.
            let trouble = self.entries.iter().position(|entry| !entry.is_standing);
            self.entries.remove(trouble.unwrap_or(0));
        }
        self.entries.push_back(entry);
    }

    /// The agent no longer has what it was told: what still holds may be said without a wait.
    pub(crate) fn wipe(&mut self) {
        for entry in &mut self.entries {
            entry.is_compacted_away = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(cause: Cause, rung: Rung, evidence: u64) -> Why {
        Why { cause, rung, evidence: vec![evidence] }
    }

    const NOW: Timestamp = Timestamp::from_unix_ms(1_000);

    #[test]
    fn the_wait_doubles() {
        let (mut ledger, policy) = (Ledger::default(), LedgerPolicy::default());
        let cause = Cause::only("doom_loop");
        let mut told = Vec::new();
        for call in 0..60 {
            if ledger.may_deliver(&cause, call, policy) {
                let why = why(cause.clone(), ledger.next_rung(&cause), call);
                ledger.record_delivery(&why, &format!("word {}", why.rung.0), call, NOW, call);
                told.push(call);
            }
        }
        assert_eq!(told, [3, 6, 12, 24, 48]);
    }

    #[test]
    fn news_is_other_words_and_newer_evidence() {
        let mut ledger = Ledger::default();
        let cause = || Cause::only("doom_loop");
        ledger.record_delivery(&why(cause(), Rung(1), 9), "word", 9, NOW, 3);
        assert!(ledger.is_new_text(&why(cause(), Rung(2), 10), "other word"));
        assert!(!ledger.is_new_text(&why(cause(), Rung(2), 10), "word"));
        assert!(!ledger.is_new_text(&why(cause(), Rung(2), 9), "other word"));
    }

    #[test]
    fn the_trouble_spoken_of_longest_ago_is_forgotten_first() {
        let mut ledger = Ledger::default();
        let cause = |n: usize| Cause::new("x", Digest::of(&n.to_le_bytes()));
        ledger.record_delivery(&why(Cause::only("deadline"), Rung(1), 0), "time", 0, NOW, 0);
        for n in 0..MAX_CAUSES {
            ledger.record_delivery(&why(cause(n), Rung(1), 0), "word", 0, NOW, 3);
        }
        assert_eq!(ledger.next_rung(&Cause::only("deadline")), Rung(2));
        assert_eq!(ledger.next_rung(&cause(0)), Rung(1));
        assert_eq!(ledger.next_rung(&cause(1)), Rung(2));
    }

    #[test]
    fn the_time_of_the_last_word_never_steps_back() {
        let mut ledger = Ledger::default();
        let cause = Cause::only("deadline");
        assert_eq!(ledger.last_delivery(&cause), None);
        for (ms, last) in [(5, 5), (9, 9), (7, 9)] {
            let at = Timestamp::from_unix_ms(ms);
            ledger.record_delivery(&why(cause.clone(), Rung(1), 0), "word", 0, at, 0);
            assert_eq!(ledger.last_delivery(&cause), Some(Timestamp::from_unix_ms(last)));
        }
    }

    #[test]
    fn after_a_compaction_there_is_no_wait() {
        let (mut ledger, policy) = (Ledger::default(), LedgerPolicy::default());
        let cause = Cause::only("doom_loop");
        ledger.record_delivery(&why(cause.clone(), Rung(1), 9), "word", 9, NOW, 10);
        assert!(!ledger.may_deliver(&cause, 11, policy));
        ledger.wipe();
        assert!(ledger.may_deliver(&cause, 11, policy));
        assert_eq!(ledger.next_rung(&cause), Rung(2));
    }
}
