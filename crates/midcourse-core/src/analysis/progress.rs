//! Compares a call that has just ended with the earlier calls that the analysis keeps, to decide
//! whether it is progress, a repetition or a poll.

use std::time::Duration;

use super::TrajectoryAnalysis;
use super::call::{Act, ToolInvoked};
use super::call_flags::CallFlags;
use crate::subject::Activity;

/// A call is a poll if it repeats an earlier call after at least this pause and its result says
/// that something is still running.
const MIN_PENDING_POLL_GAP: Duration = Duration::from_secs(10);

/// Shortest pause that can be part of a back-off (retries with ever longer pauses).
const MIN_BACK_OFF_GAP: Duration = Duration::from_secs(2);

/// A result of at most this many bytes is short: different calls often get the same short result,
/// such as "done".
const MAX_SHORT_RESULT_BYTES: u64 = 240;

impl TrajectoryAnalysis {
    /// Sets the flags of a call that has just ended by comparing it with the kept calls. Calls from
    /// before a compaction are left out: their results are no longer in the agent's context.
    pub(super) fn flag_progress(&self, call: &mut ToolInvoked) {
        let (mut seen_target, mut seen_result, mut seen_error) = (false, false, false);
        let (mut repeats, mut duplicate, mut any_error, mut seen_call, mut same_write) =
            (false, false, false, false, false);
        let error = call.status.error();
        for kept in self.calls.iter().filter(|kept| !self.is_compacted_away(kept)) {
            seen_target |= kept.target == call.target;
            let same_result = kept.result_digest == call.result_digest && !kept.is_error();
            seen_result |= same_result;
            // The calls are visited from old to new. A call that changed something resets
            // `repeats`: making an earlier call again after a change is not a repetition.
            repeats &= !kept.flags.any(CallFlags::LANDED);
            duplicate |= kept.exact_digest == call.exact_digest && kept.turn == call.turn;
            if kept.exact_digest == call.exact_digest {
                seen_call = true;
                // A command such as `git bisect good` does a different step each time and has a
                // different result. Other tools are compared without their result, which may
                // contain a counter.
                same_write |= kept.is_error() == call.is_error()
                    && (!call.is_shell() || kept.same_result(call));
            }
            repeats |= kept.call_digest == call.call_digest && kept.same_result(call);
            if let Some(kept_error) = kept.status.error() {
                any_error = true;
                seen_error |= error.is_some_and(|error| error.digest == kept_error.digest);
            }
        }
        let polls = self.is_poll(call);
        let ok = error.is_none();
        let flags = &mut call.flags;
        flags.set(CallFlags::REPEATS, repeats);
        flags.set(CallFlags::DUPLICATE, duplicate);
        flags.set(CallFlags::POLLS, polls);
        // Plans, printed text and edits without effect (`IDLE`) are not progress.
        let counts = ok && !flags.any(CallFlags::IDLE);
        flags.set(CallFlags::NEW_TARGET, counts && call.target.is_some() && !seen_target);
        // A short result such as "done" counts as new if the agent has not made this very call
        // before, even if another call got the same result. The short result of a search does not
        // count as new then: a short result of several searches usually means "nothing found".
        // A search of the output of another program may be one of many, through a list of objects.
        let is_piped = flags.any(CallFlags::SHELL) && call.activity == Activity::RunCommand;
        let is_search =
            matches!(call.act, Some(Act::Search(_))) && !flags.any(CallFlags::COUNTS) && !is_piped;
        // If an action leaves the page as the latest call showed it, the action had no effect.
        let leaves_page = flags.any(CallFlags::UI)
            && self.calls.back().is_some_and(|kept| kept.result_digest == call.result_digest);
        let is_short =
            !seen_call && !is_search && !leaves_page && call.result_bytes <= MAX_SHORT_RESULT_BYTES;
        let is_new = is_short || !seen_result;
        flags.set(CallFlags::NEW_RESULT, counts && is_new);
        flags.set(
            CallFlags::LANDED,
            counts && flags.any(CallFlags::WRITES) && !same_write && !leaves_page,
        );
        flags.set(CallFlags::NEW_ERROR, !ok && any_error && !seen_error);
    }

    /// Whether a call waits, or repeats an earlier call after a sleep or after a long or growing
    /// pause.
    fn is_poll(&self, call: &ToolInvoked) -> bool {
        if call.waits() {
            return true;
        }
        // A change is not a poll. A command such as `git pull` may be both.
        if call.writes() && !call.is_shell() {
            return false;
        }
        let is_same =
            |kept: &&ToolInvoked| kept.call_digest == call.call_digest && !kept.is_duplicate();
        let mut before = self.calls.iter().rev().filter(is_same);
        let Some(last) = before.next() else { return false };
        let gap = call.started_at().since(last.ended_at());
        let pause = self.calls.back().map(|latest| call.started_at().since(latest.ended_at()));
        let between =
            || self.calls.iter().rev().take_while(|kept| kept.call_index > last.call_index);
        let only_waits = || between().all(|kept| kept.waits() || kept.polls());
        let slept = || between().any(ToolInvoked::waits);
        let backs_off = |older: &ToolInvoked| {
            let gap_before = last.started_at().since(older.ended_at());
            gap >= MIN_BACK_OFF_GAP && gap * 2 >= gap_before * 3
        };
        // `gap` is the time since the equal call, `pause` the time since the latest call of any
        // kind. A long gap alone does not make a poll: the agent may have done other work in it.
        pause.is_some_and(|pause| pause >= self.config.poll_gap)
            || (gap >= self.config.poll_gap && only_waits())
            || (call.is_pending() && gap >= MIN_PENDING_POLL_GAP)
            || slept()
            // Growing pauses between reads or searches are not a back-off: the agent is just slow.
            || (!matches!(call.act, Some(Act::Read(..) | Act::Search(_)))
                && between().next().is_none()
                && before.next().is_some_and(backs_off))
    }

    /// Whether the call ended before the host last compacted the agent's context. The context then
    /// contains at most a summary of the call.
    pub(crate) const fn is_compacted_away(&self, call: &ToolInvoked) -> bool {
        call.call_index <= self.turns.calls_at_compaction
    }
}
