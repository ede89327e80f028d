//! Detects a file that keeps returning to an earlier state: edited, reverted, edited again.
//!
//! One return to an earlier state is an ordinary undo, and a second one may be a last check. If the
//! same file returns a third time, the agent is going back and forth.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// If one file returns to an earlier state this often, the pattern is present.
const MIN_RETURNS: u32 = 3;

/// Returns are counted for at most this many files. If there are more, the file that returned
/// longest ago is dropped.
const MAX_COUNTED_FILES: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WriteThrash {
    /// Each file with its number of returns; the file that returned last is at the end.
    returns: Vec<(Digest, u32)>,
}

impl PatternDetector for WriteThrash {
    fn name(&self) -> &str {
        "write_thrash"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            self.reset();
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        let Some(file) =
            call.target().filter(|_| call.edit().is_some() && !call.is_error() && !call.is_idle())
        else {
            return Detection::Unchanged;
        };
        if !returns(trajectory, call, file) {
            // This write does not return the file to an earlier state, so the agent is making
            // progress.
            self.returns.retain(|(known, _)| *known != file);
            let present = trajectory.pattern(&PatternType::WriteThrash);
            let is_this_file = present.is_some_and(|pattern| *pattern.cause() == cause_of(file));
            return if is_this_file { Detection::Absent } else { Detection::Unchanged };
        }
        let count = self.count(file);
        if count < MIN_RETURNS {
            return Detection::Unchanged;
        }
        let writes = trajectory.calls().rev().filter(|old| is_write_to(old, file));
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::WriteThrash { file: call.target_name().cloned(), returns: count },
            Confidence::clamped(0.95),
            cause_of(file),
            count,
            writes.map(ToolInvoked::ended_seq),
        ))
    }

    fn reset(&mut self) {
        self.returns.clear();
    }
}

impl WriteThrash {
    /// Counts one more return of a file to an earlier state; returns the file's new count.
    fn count(&mut self, file: Digest) -> u32 {
        let before = self.returns.iter().position(|(known, _)| *known == file);
        let count = before.map_or(0, |at| self.returns.remove(at).1).saturating_add(1);
        if self.returns.len() == MAX_COUNTED_FILES {
            self.returns.remove(0);
        }
        self.returns.push((file, count));
        count
    }
}

fn cause_of(file: Digest) -> Cause {
    Cause::new("write_thrash", file)
}

fn is_write_to(call: &ToolInvoked, file: Digest) -> bool {
    call.target() == Some(file) && call.edit().is_some() && !call.is_error()
}

/// Whether a write undoes an earlier write to the file, or repeats an earlier write after a
/// different one.
fn returns(trajectory: &TrajectoryAnalysis, call: &ToolInvoked, file: Digest) -> bool {
    let Some(now) = call.edit() else { return false };
    let mut differed_since = false;
    for old in trajectory.earlier_distinct_calls().filter(|old| is_write_to(old, file)) {
        let Some(then) = old.edit() else { continue };
        let is_undone = then.from == Some(now.to) && now.from == Some(then.to);
        if is_undone || (differed_since && then == now) {
            return true;
        }
        differed_since |= then != now;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn an_edit_made_reverted_and_made_again_is_thrash() {
        check(
            r#"
            edit {"path":"a.rs","old":"x","new":"y"} -> ok
            edit {"path":"a.rs","old":"y","new":"x"} -> ok
            edit {"path":"a.rs","old":"x","new":"y"} -> ok
            edit {"path":"a.rs","old":"y","new":"x"} -> ok
            "#,
            &["call 4: write_thrash of a.rs"],
        );
    }

    #[test]
    fn removing_several_lines_is_not_a_return() {
        check(
            r#"
            edit {"path":"a.rs","old":"dbg(1)","new":""} -> ok
            edit {"path":"a.rs","old":"b","new":"z"} -> ok
            edit {"path":"a.rs","old":"dbg(2)","new":""} -> ok
            edit {"path":"a.rs","old":"dbg(3)","new":""} -> ok
            "#,
            &[],
        );
    }

    #[test]
    fn viewing_a_file_with_an_editor_tool_is_not_a_write() {
        check(
            r#"
            str_replace_editor {"command":"view","path":"a.rs"} -> fn main() {} and so on
            str_replace_editor {"command":"str_replace","path":"a.rs","old_str":"x","new_str":"y"} -> ok
            str_replace_editor {"command":"view","path":"a.rs"} -> fn main() { y } and so on
            str_replace_editor {"command":"view","path":"a.rs"} -> fn main() { y } and so on
            "#,
            &[],
        );
    }

    #[test]
    fn a_single_undo_is_not_thrash() {
        check(
            r#"
            edit {"path":"a.rs","old":"x","new":"y"} -> ok
            edit {"path":"a.rs","old":"y","new":"x"} -> ok
            edit {"path":"a.rs","old":"x","new":"z"} -> ok
            edit {"path":"a.rs","old":"z","new":"w"} -> ok
            "#,
            &[],
        );
    }
}
