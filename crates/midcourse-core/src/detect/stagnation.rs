//! Sees ever new questions that all get the same answer.
//!
//! Thirty-eight searches that find nothing are the classic; whichever tool searches, nothing is
//! nothing. Elsewhere it takes an answer that says something: a bare "ok" is none, and a short answer
//! about one thing after the other ("active", "no problems") is a list being worked through.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// An answer of this length, the same to the letter for another question, is no coincidence.
const TELLING_ANSWER_BYTES: u64 = 120;

/// The same where the calls name no target, so that there is no list they could go through.
const BATCH_ANSWER_BYTES: u64 = 40;

/// The shortest text that no two files or pages have in common by chance.
const SHOWN_BYTES: u64 = 24;

/// The latest calls of the sort that are looked at.
const LATEST: usize = 12;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stagnation;

impl PatternDetector for Stagnation {
    fn name(&self) -> &str {
        "stagnation"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        if call.is_error() || call.is_bare() || call.is_idle() || call.polls() {
            return Detection::Unchanged;
        }
        let (mut questions, mut evidence) = (Vec::new(), Vec::new());
        let kin = trajectory.calls_since_user_message().filter(|old| is_kin(old, call));
        for old in kin.take(LATEST) {
            if !old.same_result(call) {
                // Something was found: what is still missing is another story.
                if call.found_nothing() {
                    break;
                }
                continue;
            }
            // Whatever else was varied, what counts of a search in vain is what was sought.
            let sought = old.sought().filter(|_| call.found_nothing());
            questions.push(sought.unwrap_or(old.call_digest()));
            evidence.push(old.ended_seq());
        }
        questions.sort_unstable();
        questions.dedup();
        let threshold = trajectory.config().stagnation_threshold.get() as usize;
        if questions.len() < threshold || trajectory.has_pattern(&PatternType::DoomLoop) {
            return Detection::Absent;
        }
        let count = u32::try_from(questions.len()).unwrap_or(u32::MAX);
        let who = if call.found_nothing() { "" } else { call.tool() };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Stagnation { tool: call.safe_tool(), calls: count },
            Confidence::clamped(0.8),
            Cause::new("stagnation", Digest::of(who.as_bytes()).with(call.result_digest())),
            count,
            evidence,
        ))
    }

    fn reset(&mut self) {}
}

/// Whether an earlier call is of the sort whose answers are compared with this one's.
fn is_kin(old: &ToolInvoked, call: &ToolInvoked) -> bool {
    if call.found_nothing() {
        return old.sought().is_some();
    }
    let is_telling = call.is_negative()
        || call.shown().is_some() && call.result_bytes() >= SHOWN_BYTES
        || call.target().is_none() && call.result_bytes() >= BATCH_ANSWER_BYTES
        || call.result_bytes() >= TELLING_ANSWER_BYTES;
    is_telling && old.tool() == call.tool() && !old.is_bare()
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::Stagnation { calls, tool } = detail else { return None };
    match rung.0 {
        1 => Some(format!(
            "{calls} different questions got the same answer, {tool} last. The answer may \
             simply be true: what is looked for may be absent, elsewhere, or called something else."
        )),
        2 => Some(
            "Varying the question still brings the same answer. Another tool, or a look at what is \
             there instead of a search for what should be, would add something new."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn many_searches_that_find_nothing() {
        check(
            "
            grep alpha   -> No matches found
            grep bravos  -> No matches found
            grep kilo    -> No matches found
            grep x-ray   -> No matches found
            grep juliet  -> No matches found
            grep foxtrot -> No matches found
            ",
            &["call 6: stagnation of 6"],
        );
    }

    #[test]
    fn a_bare_ok_from_a_writing_tool_is_none() {
        check(
            r#"
            write {"path":"a","content":"1"} -> File was written with success
            write {"path":"b","content":"2"} -> File was written with success
            write {"path":"c","content":"3"} -> File was written with success
            write {"path":"d","content":"4"} -> File was written with success
            write {"path":"e","content":"5"} -> File was written with success
            write {"path":"f","content":"6"} -> File was written with success
            write {"path":"g","content":"7"} -> File was written with success
            "#,
            &[],
        );
    }
}
