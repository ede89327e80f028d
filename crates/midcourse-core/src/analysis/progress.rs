//! Progress: what a call brings that the run did not have.

use super::TrajectoryAnalysis;
use super::call::{Marks, ToolInvoked};

impl TrajectoryAnalysis {
    /// Compares a call that has just ended with those that are kept. What was asked before a
    /// compaction is new to the agent when it asks again.
    pub(super) fn mark(&self, call: &mut ToolInvoked) {
        let (mut seen_target, mut seen_answer, mut seen_error) = (false, false, false);
        let (mut repeats, mut duplicate, mut any_error, mut asked, mut same_write) =
            (false, false, false, false, false);
        let error = call.status.error();
        let remembered =
            self.calls.iter().filter(|kept| kept.call_index > self.turns.compacted_at_call);
        for kept in remembered {
            seen_target |= kept.target == call.target;
            let same_answer = kept.answer == call.answer && !kept.is_error();
            seen_answer |= same_answer;
            // What was asked before a change is worth asking again after it.
            repeats &= !kept.marks.any(Marks::LANDED);
            duplicate |= kept.raw == call.raw && kept.turn == call.turn;
            if kept.raw == call.raw {
                asked = true;
                same_write |= kept.is_error() == call.is_error();
            }
            repeats |= kept.question == call.question && kept.same_answer(call);
            if let Some(kept_error) = kept.status.error() {
                any_error = true;
                seen_error |= error.is_some_and(|error| error.digest == kept_error.digest);
            }
        }
        let ok = error.is_none();
        let marks = &mut call.marks;
        marks.set(Marks::REPEATS, repeats);
        marks.set(Marks::DUPLICATE, duplicate);
        marks.set(Marks::NEW_TARGET, ok && call.target.is_some() && !seen_target);
        // "Done" is news about a thing that was not done before.
        let is_new = if marks.any(Marks::BARE) { !asked } else { !seen_answer };
        marks.set(Marks::NEW_ANSWER, ok && is_new);
        marks.set(Marks::LANDED, ok && marks.any(Marks::WRITES) && !same_write);
        marks.set(Marks::ERROR_MOVED, !ok && any_error && !seen_error);
    }
}
