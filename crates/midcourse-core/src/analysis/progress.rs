//! Progress: what a call brings that the run did not have, and whether it waits for it.

use std::time::Duration;

use super::TrajectoryAnalysis;
use super::call::{Act, Marks, ToolInvoked};

/// A question whose answer says "still running" is a poll when it comes this much later.
const PENDING_GAP: Duration = Duration::from_secs(10);

/// Gaps that grow are a back-off, from this length on.
const BACK_OFF_MIN: Duration = Duration::from_secs(2);

/// An answer of this length may be the same for two things that have nothing else in common.
const SHORT_ANSWER_BYTES: u64 = 240;

impl TrajectoryAnalysis {
    /// Compares a call that has just ended with those that are kept. What was asked before a
    /// compaction is new to the agent when it asks again.
    pub(super) fn mark(&self, call: &mut ToolInvoked) {
        let (mut seen_target, mut seen_answer, mut seen_error) = (false, false, false);
        let (mut repeats, mut duplicate, mut any_error, mut asked, mut same_write) =
            (false, false, false, false, false);
        let error = call.status.error();
        for kept in self.calls.iter().filter(|kept| !self.is_compacted_away(kept)) {
            seen_target |= kept.target == call.target;
            let same_result = kept.result_digest == call.result_digest && !kept.is_error();
            seen_answer |= same_result;
            // What was asked before a change is worth asking again after it.
            repeats &= !kept.marks.any(Marks::LANDED);
            duplicate |= kept.exact_digest == call.exact_digest && kept.turn == call.turn;
            if kept.exact_digest == call.exact_digest {
                asked = true;
                same_write |= kept.is_error() == call.is_error();
            }
            repeats |= kept.call_digest == call.call_digest && kept.same_result(call);
            if let Some(kept_error) = kept.status.error() {
                any_error = true;
                seen_error |= error.is_some_and(|error| error.digest == kept_error.digest);
            }
        }
        let polls = self.is_poll(call);
        let ok = error.is_none();
        let marks = &mut call.marks;
        marks.set(Marks::REPEATS, repeats);
        marks.set(Marks::DUPLICATE, duplicate);
        marks.set(Marks::POLLS, polls);
        // A plan, a word or a change that changes nothing brings nobody forward.
        let counts = ok && !marks.any(Marks::IDLE);
        marks.set(Marks::NEW_TARGET, counts && call.target.is_some() && !seen_target);
        // "Done" is news about a thing that was not done before, and so is any short answer about
        // another one; of a search it is none.
        let seeks = matches!(call.act, Some(Act::Search(_)));
        let is_another = !asked && !seeks && call.result_bytes <= SHORT_ANSWER_BYTES;
        let is_new = is_another || !seen_answer;
        marks.set(Marks::NEW_ANSWER, counts && is_new);
        marks.set(Marks::LANDED, counts && marks.any(Marks::WRITES) && !same_write);
        marks.set(Marks::ERROR_MOVED, !ok && any_error && !seen_error);
    }

    /// Whether a call asks again as one who waits.
    fn is_poll(&self, call: &ToolInvoked) -> bool {
        if call.waits() {
            return true;
        }
        let asked =
            |kept: &&ToolInvoked| kept.call_digest == call.call_digest && !kept.is_duplicate();
        let mut before = self.calls.iter().rev().filter(asked);
        let Some(last) = before.next() else { return false };
        let gap = call.started_at().since(last.ended_at());
        let pause = self.calls.back().map(|latest| call.started_at().since(latest.ended_at()));
        let between =
            || self.calls.iter().rev().take_while(|kept| kept.call_index > last.call_index);
        let only_waits = || between().all(|kept| kept.waits() || kept.polls());
        let slept = || between().any(ToolInvoked::waits);
        let backs_off = |older: &ToolInvoked| {
            let gap_before = last.started_at().since(older.ended_at());
            gap >= BACK_OFF_MIN && gap * 2 >= gap_before * 3
        };
        // Who does something else meanwhile is not waiting, however long that takes.
        pause.is_some_and(|pause| pause >= self.config.poll_gap)
            || (gap >= self.config.poll_gap && only_waits())
            || (call.is_pending() && gap >= PENDING_GAP)
            || slept()
            // A file is not asked less and less often; agents just take their time.
            || (!matches!(call.act, Some(Act::Read(..) | Act::Search(_)))
                && between().next().is_none()
                && before.next().is_some_and(backs_off))
    }

    /// Whether a call is no longer in the agent's context, but for a summary.
    pub(crate) const fn is_compacted_away(&self, call: &ToolInvoked) -> bool {
        call.call_index <= self.turns.compacted_at_call
    }
}
