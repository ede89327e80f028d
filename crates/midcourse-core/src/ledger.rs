//! The ledger: which messages a run has received about which cause. A cause is what a message is
//! about: one certain loop or error (a problem), or the deadline or the budget (a limit).
//!
//! The ledger decides whether another message about a cause may be delivered now. After each
//! message about a problem, the wait for the next message about it is twice as long as the wait
//! before. While the problem is absent, the rung (the number of the message in its series)
//! decreases step by step. A text that was delivered about a cause is not delivered again. Feedback
//! and guidance share one ledger. It remembers a bounded number of causes and texts.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Rung};
use crate::digest::Digest;
use crate::time::Timestamp;
use crate::why::Why;

/// The maximum number of causes that are remembered. Beyond that, the problem that was reported
/// longest ago is forgotten; limits such as a deadline are kept.
pub const MAX_CAUSES: usize = 64;

/// The maximum number of delivered texts that are remembered for each cause. A remembered text is
/// not delivered again.
pub const MAX_REMEMBERED_TEXTS: usize = 16;

/// A run gets no message about a problem before it has made this many tool calls: with fewer calls
/// there is too little evidence.
const MIN_CALLS_BEFORE_FIRST_MESSAGE: u64 = 3;

/// Minimum number of tool calls between messages about different problems. One mistake of the agent
/// often makes several detectors report a problem, and the agent should not get a message about
/// each of them at once.
const MIN_CALLS_BETWEEN_PROBLEMS: u64 = 3;

/// Each time a problem has been absent for this many calls (or responses), its rung decreases by
/// one: the next message is one step milder, and the wait before it is half as long. When the rung
/// is 0, the ledger forgets the problem.
const CALLS_PER_STEP_DOWN: u64 = 20;

/// The kind of cause that the ledger uses for guidance whose provider names no cause.
const UNNAMED_KIND: &str = "guidance";

/// Kinds of causes that are limits of the run, not problems. The ledger does not delay messages
/// about limits: their providers decide when the next message is due, for instance when half of the
/// budget is used.
const LIMIT_KINDS: [&str; 2] = ["deadline", "budget"];

/// Kinds of causes that are detected in the text of model responses. The agent may be making no
/// tool calls at all, so the waits between their messages are counted in responses.
const RESPONSE_KINDS: [&str; 3] = ["monologue", "tool_avoidance", "idle_talk"];

/// The wait between two messages about the same problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerPolicy {
    /// Number of tool calls (or of model responses, for a problem that shows in responses) between
    /// the first and the second message. Each later wait is twice as long as the one before.
    pub cool_down_calls: NonZeroU32,
}

impl Default for LedgerPolicy {
    /// A first wait of three calls.
    fn default() -> Self {
        Self { cool_down_calls: NonZeroU32::MIN.saturating_add(2) }
    }
}

/// Which messages a run has received about which cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// One entry per cause, ordered by the latest delivery, the most recent last.
    entries: VecDeque<Entry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    cause: Digest,
    rung: u8,
    /// Number of tool calls (or of responses, if `kind` is `ProblemInResponses`) that the run had
    /// made at the latest delivery.
    delivered_at_count: u64,
    delivered_at_seq: u64,
    delivered_at: Timestamp,
    /// The same count when the problem was last present.
    present_at_count: u64,
    /// Whether the host has compacted the conversation since the latest delivery, so that the agent
    /// does not see the messages about this cause any more.
    is_compacted_away: bool,
    kind: EntryKind,
    texts: VecDeque<Digest>,
}

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum EntryKind {
    /// A problem that is detected in tool calls.
    Problem,
    /// A problem that is detected in model responses. The counts of its entry are numbers of
    /// responses.
    ProblemInResponses,
    /// A deadline or a budget.
    Limit,
    /// Guidance whose provider names no cause.
    Unnamed,
}

impl EntryKind {
    fn of(cause: &Cause) -> Self {
        if cause.is_limit() {
            Self::Limit
        } else if is_about_responses(cause) {
            Self::ProblemInResponses
        } else if cause.kind() == UNNAMED_KIND {
            Self::Unnamed
        } else {
            Self::Problem
        }
    }
}

/// Whether a cause is detected in model responses, so that its waits are counted in responses and
/// not in tool calls.
pub(crate) fn is_about_responses(cause: &Cause) -> bool {
    RESPONSE_KINDS.contains(&cause.kind())
}

impl Cause {
    /// Whether the cause is a limit of the run (a deadline or a budget) and not a problem.
    pub fn is_limit(&self) -> bool {
        LIMIT_KINDS.contains(&self.kind())
    }
}

/// The cause that the ledger uses if the provider of guidance names none. It is different for each
/// provider and text.
pub(crate) fn unnamed_cause(provider: &str, text: &str) -> Cause {
    Cause::new(UNNAMED_KIND, Digest::of(provider.as_bytes()).then(text.as_bytes()))
}

impl Ledger {
    fn entry(&self, cause: &Cause) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.cause == cause.id())
    }

    /// The number that the next message about a cause gets; 1 if the run has received none.
    pub fn next_rung(&self, cause: &Cause) -> Rung {
        Rung(self.entry(cause).map_or(0, |entry| entry.rung).saturating_add(1))
    }

    /// Whether a message about a cause may be delivered now. `count` is the number of tool calls
    /// that the run has made, or of model responses for a cause that is detected in responses.
    pub fn may_deliver(&self, cause: &Cause, count: u64, policy: LedgerPolicy) -> bool {
        if cause.is_limit() {
            return true;
        }
        if !is_about_responses(cause)
            && (count < MIN_CALLS_BEFORE_FIRST_MESSAGE || self.was_just_delivered(cause, count))
        {
            return false;
        }
        self.has_waited(cause, count, policy)
    }

    /// Whether the wait after the latest message about a cause is over.
    pub(crate) fn has_waited(&self, cause: &Cause, count: u64, policy: LedgerPolicy) -> bool {
        let Some(entry) = self.entry(cause) else { return true };
        let doublings = u32::from(entry.rung.saturating_sub(1)).min(20);
        let wait = u64::from(policy.cool_down_calls.get()) << doublings;
        entry.is_compacted_away || count >= entry.delivered_at_count.saturating_add(wait)
    }

    /// This ledger as it would be if the next message about a problem had the number `rung`, with no
    /// wait before it.
    pub(crate) fn with_next_rung(&self, cause: &Cause, rung: Rung) -> Self {
        let mut ledger = self.clone();
        let known = ledger.entries.iter().position(|entry| entry.cause == cause.id());
        let Some(before) = rung.0.checked_sub(1).filter(|before| *before > 0) else {
            known.map(|at| ledger.entries.remove(at));
            return ledger;
        };
        let forgotten = Entry {
            cause: cause.id(),
            rung: before,
            delivered_at_count: 0,
            delivered_at_seq: 0,
            delivered_at: Timestamp::default(),
            present_at_count: 0,
            is_compacted_away: true,
            kind: EntryKind::of(cause),
            texts: VecDeque::new(),
        };
        match known.and_then(|at| ledger.entries.get_mut(at)) {
            // The number is the real one, so what was delivered before is real, too.
            Some(entry) if entry.rung == before => entry.is_compacted_away = true,
            Some(entry) => *entry = forgotten,
            None => ledger.entries.push_front(forgotten),
        }
        ledger
    }

    /// Records that a problem is present now. If it was absent for a while before, its rung
    /// decreases.
    pub(crate) fn record_presence(&mut self, cause: &Cause, count: u64) {
        let Some(at) = self.entries.iter().position(|entry| entry.cause == cause.id()) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(at) else { return };
        let last = entry.present_at_count.max(entry.delivered_at_count);
        let steps = count.saturating_sub(last) / CALLS_PER_STEP_DOWN;
        entry.rung = entry.rung.saturating_sub(u8::try_from(steps).unwrap_or(u8::MAX));
        entry.present_at_count = count;
        if entry.rung == 0 {
            self.entries.remove(at);
        }
    }

    /// Whether a message about another problem was delivered fewer than
    /// `MIN_CALLS_BETWEEN_PROBLEMS` calls ago. Two kinds of messages are left out: those about
    /// responses, because their entries count responses and not calls, and those that the agent
    /// does not see any more after a compaction.
    fn was_just_delivered(&self, cause: &Cause, count: u64) -> bool {
        let mut problems = self.entries.iter().filter(|entry| {
            entry.kind == EntryKind::Problem
                && !entry.is_compacted_away
                && entry.cause != cause.id()
        });
        problems.next_back().is_some_and(|last| {
            count < last.delivered_at_count.saturating_add(MIN_CALLS_BETWEEN_PROBLEMS)
        })
    }

    /// When the latest message about a cause was delivered, whichever provider made it; `None` if
    /// the run has received none.
    pub fn last_delivery(&self, cause: &Cause) -> Option<Timestamp> {
        self.entry(cause).map(|entry| entry.delivered_at)
    }

    /// Whether the host has compacted the conversation since the latest message about a cause, so
    /// that the agent's context does not contain the messages about it any more.
    pub fn is_compacted_away(&self, cause: &Cause) -> bool {
        self.entry(cause).is_some_and(|entry| entry.is_compacted_away)
    }

    /// Whether a message would tell the agent something new: no earlier message about its cause had
    /// this text, and, if the cause is a problem, some evidence in `why` is newer than the latest
    /// message about it. Empty evidence counts as new.
    pub fn is_new_text(&self, why: &Why, text: &str) -> bool {
        let Some(entry) = self.entry(&why.cause) else { return true };
        let has_new_evidence = why.evidence.iter().any(|seq| *seq > entry.delivered_at_seq);
        (has_new_evidence || entry.kind == EntryKind::Limit || why.evidence.is_empty())
            && !entry.texts.contains(&Digest::of(text.as_bytes()))
    }

    /// Notes that a message was delivered. `seq` is the sequence number of the delivery's record.
    /// `count` is the number of tool calls or responses, as for [`Self::may_deliver`].
    pub(crate) fn record_delivery(
        &mut self,
        why: &Why,
        text: &str,
        seq: u64,
        at: Timestamp,
        count: u64,
    ) {
        let Why { cause, rung, .. } = why;
        let known = self.entries.iter().position(|entry| entry.cause == cause.id());
        let mut entry = known.and_then(|at| self.entries.remove(at)).unwrap_or_else(|| Entry {
            cause: cause.id(),
            rung: 0,
            delivered_at_count: 0,
            delivered_at_seq: 0,
            delivered_at: at,
            present_at_count: count,
            is_compacted_away: false,
            kind: EntryKind::of(cause),
            texts: VecDeque::new(),
        });
        entry.rung = entry.rung.max(rung.0);
        entry.delivered_at_count = count;
        entry.delivered_at_seq = seq;
        // If the host's clock steps back, the later time is kept.
        entry.delivered_at = entry.delivered_at.max(at);
        entry.is_compacted_away = false;
        if entry.texts.len() == MAX_REMEMBERED_TEXTS {
            entry.texts.pop_front();
        }
        entry.texts.push_back(Digest::of(text.as_bytes()));
        if self.entries.len() == MAX_CAUSES {
            // The problem with the oldest message is forgotten. A limit, such as the deadline, is
            // forgotten only if all entries are limits.
            let problem = self.entries.iter().position(|entry| entry.kind != EntryKind::Limit);
            self.entries.remove(problem.unwrap_or(0));
        }
        self.entries.push_back(entry);
    }

    /// Notes that the host has compacted the conversation. The agent's context now contains none of
    /// the messages, so problems that still exist may be reported again without a wait.
    pub(crate) fn record_compaction(&mut self) {
        for entry in &mut self.entries {
            entry.is_compacted_away = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(cause: Cause, rung: Rung, evidence: u64) -> Why {
        Why { cause, rung, evidence: vec![evidence], subject: None }
    }

    const NOW: Timestamp = Timestamp::from_unix_ms(1_000);

    #[test]
    fn the_wait_doubles_with_each_message() {
        let (mut ledger, policy) = (Ledger::default(), LedgerPolicy::default());
        let cause = Cause::only("doom_loop");
        let mut delivered = Vec::new();
        for call in 0..60 {
            if ledger.may_deliver(&cause, call, policy) {
                let why = why(cause.clone(), ledger.next_rung(&cause), call);
                ledger.record_delivery(&why, &format!("text {}", why.rung.0), call, NOW, call);
                delivered.push(call);
            }
        }
        assert_eq!(delivered, [3, 6, 12, 24, 48]);
    }

    #[test]
    fn a_new_message_has_another_text_and_newer_evidence() {
        let mut ledger = Ledger::default();
        let cause = || Cause::only("doom_loop");
        ledger.record_delivery(&why(cause(), Rung(1), 9), "text", 9, NOW, 3);
        assert!(ledger.is_new_text(&why(cause(), Rung(2), 10), "other text"));
        assert!(!ledger.is_new_text(&why(cause(), Rung(2), 10), "text"));
        assert!(!ledger.is_new_text(&why(cause(), Rung(2), 9), "other text"));
    }

    #[test]
    fn the_problem_mentioned_longest_ago_is_forgotten_first() {
        let mut ledger = Ledger::default();
        let cause = |n: usize| Cause::new("x", Digest::of(&n.to_le_bytes()));
        ledger.record_delivery(&why(Cause::only("deadline"), Rung(1), 0), "text", 0, NOW, 0);
        for n in 0..MAX_CAUSES {
            ledger.record_delivery(&why(cause(n), Rung(1), 0), "text", 0, NOW, 3);
        }
        assert_eq!(ledger.next_rung(&Cause::only("deadline")), Rung(2));
        assert_eq!(ledger.next_rung(&cause(0)), Rung(1));
        assert_eq!(ledger.next_rung(&cause(1)), Rung(2));
    }

    #[test]
    fn the_time_of_the_last_delivery_never_steps_back() {
        let mut ledger = Ledger::default();
        let cause = Cause::only("deadline");
        assert_eq!(ledger.last_delivery(&cause), None);
        for (ms, last) in [(5, 5), (9, 9), (7, 9)] {
            let at = Timestamp::from_unix_ms(ms);
            ledger.record_delivery(&why(cause.clone(), Rung(1), 0), "text", 0, at, 0);
            assert_eq!(ledger.last_delivery(&cause), Some(Timestamp::from_unix_ms(last)));
        }
    }

    #[test]
    fn the_series_comes_down_while_its_problem_is_gone() {
        let (mut ledger, policy) = (Ledger::default(), LedgerPolicy::default());
        let cause = Cause::only("doom_loop");
        for (rung, call) in [(1, 10), (2, 13), (3, 19), (4, 31)] {
            ledger.record_presence(&cause, call);
            assert!(ledger.may_deliver(&cause, call, policy), "{call}");
            assert_eq!(ledger.next_rung(&cause), Rung(rung));
            let text = format!("text {rung}");
            ledger.record_delivery(&why(cause.clone(), Rung(rung), call), &text, call, NOW, call);
        }
        // The problem is present until call 40, so the wait of 24 calls stays the same.
        for call in 32..=40 {
            ledger.record_presence(&cause, call);
            assert!(!ledger.may_deliver(&cause, call, policy));
        }
        // The problem is absent for 40 calls, so the rung decreases by two, from 4 to 2.
        ledger.record_presence(&cause, 80);
        assert!(ledger.may_deliver(&cause, 80, policy));
        assert_eq!(ledger.next_rung(&cause), Rung(3));
        // After a long absence, it counts as a new problem, and the first text may be delivered
        // again.
        ledger.record_presence(&cause, 450);
        assert_eq!(ledger.next_rung(&cause), Rung(1));
        assert!(ledger.is_new_text(&why(cause, Rung(1), 450), "text 1"));
    }

    #[test]
    fn after_a_compaction_there_is_no_wait() {
        let (mut ledger, policy) = (Ledger::default(), LedgerPolicy::default());
        let cause = Cause::only("doom_loop");
        ledger.record_delivery(&why(cause.clone(), Rung(1), 9), "text", 9, NOW, 10);
        assert!(!ledger.may_deliver(&cause, 11, policy));
        ledger.record_compaction();
        assert!(ledger.may_deliver(&cause, 11, policy));
        assert_eq!(ledger.next_rung(&cause), Rung(2));
    }
}
