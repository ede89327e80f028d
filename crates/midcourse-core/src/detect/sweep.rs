//! Sees one file read over and over by its lines: pieces that were already read, or very many small
//! ones.
//!
//! Paging once through a long file is work, and so is reading it again after a change. The ranges
//! differ from call to call, so no two calls are the same; what counts is what they cover.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// Reads of lines that had been read before, mostly. A few are looking something up.
const AGAIN: usize = 7;

/// Reads of one file within the window, all of new lines: by now a search would have been shorter.
const PIECES: usize = 25;

/// The detector; everything it needs is in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sweep;

impl PatternDetector for Sweep {
    fn name(&self) -> &str {
        "sweep"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        let Some(file) = call.target() else { return Detection::Unchanged };
        if call.is_error() || call.shown().is_none() {
            return Detection::Unchanged;
        }
        // Oldest first, since the file was last changed and the agent last lost its context.
        let mut reads: Vec<&ToolInvoked> = trajectory
            .calls_since_user_message()
            .filter(|old| !old.is_duplicate())
            .take_while(|old| !trajectory.is_forgotten(old) && !may_change(old, file))
            .filter(|old| old.target() == Some(file) && !old.is_error())
            .collect();
        reads.reverse();
        let mut covered: Vec<(u32, u32)> = Vec::new();
        let mut again = Vec::new();
        for read in &reads {
            let Some(lines) = read.shown() else { continue };
            // The same lines say something else: the file has changed by itself.
            let before = reads.iter().take_while(|old| old.ended_seq() < read.ended_seq());
            let mut same_lines = before.filter(|old| old.shown() == Some(lines));
            if same_lines.any(|old| !old.same_result(read)) {
                covered.clear();
                again.clear();
            }
            if is_mostly_within(lines, &covered) {
                again.push(read.ended_seq());
            }
            covered.push(lines);
        }
        let is_again = again.len() >= AGAIN && again.last() == Some(&call.ended_seq());
        if !is_again && reads.len() < PIECES {
            return Detection::Absent;
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let evidence =
            if is_again { again.clone() } else { reads.iter().map(|r| r.ended_seq()).collect() };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::ContextDegradation {
                repeated: if is_again { narrow(again.len()) } else { 0 },
                of: narrow(reads.len()),
                file: call.target_name().cloned(),
            },
            Confidence::clamped(0.7),
            Cause::new("context_degradation", file),
            narrow(reads.len()),
            evidence,
        ))
    }

    fn reset(&mut self) {}
}

/// Whether a call may have changed the file: it says so, or does not say what it changed.
fn may_change(call: &ToolInvoked, file: Digest) -> bool {
    call.landed() && call.target().is_none_or(|target| target == file)
}

/// Whether at least half of these lines were read before.
fn is_mostly_within((from, to): (u32, u32), covered: &[(u32, u32)]) -> bool {
    // The end of a file is another place whenever the file has grown.
    if from == u32::MAX {
        return false;
    }
    let mut parts: Vec<(u32, u32)> = covered
        .iter()
        .map(|(start, end)| (*start.max(&from), *end.min(&to)))
        .filter(|(start, end)| start <= end)
        .collect();
    parts.sort_unstable();
    let (mut known, mut next) = (0_u64, u64::from(from));
    for (start, end) in parts {
        let start = u64::from(start).max(next);
        let end = u64::from(end) + 1;
        known += end.saturating_sub(start);
        next = next.max(end);
    }
    // Of a whole file nobody knows how long it is; one whole read covers it.
    let all = u64::from(to).saturating_sub(u64::from(from)) + 1;
    known * 2 >= all
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::ContextDegradation { repeated, of, file } = detail else { return None };
    let file = file.as_ref().map_or("one file", |name| name.as_str());
    match (rung.0, repeated) {
        (1, 0) => Some(format!(
            "{of} reads of {file}, piece by piece. A search for what is needed, or one larger read, \
             would get there in fewer steps."
        )),
        (1, _) => Some(format!(
            "{repeated} of {of} reads of {file} showed lines that had been read before, with no \
             change since. A short note of what they say, or a search, would save the next one."
        )),
        (2, _) => Some(
            "The same file is still being gone through. What is it that was not found there? \
             Perhaps it is in another file."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    fn page(from: u32, n: u32) -> String {
        format!(
            "Read {{\"file_path\":\"a.rs\",\"offset\":{from},\"limit\":100}} -> the lines from \
             {from}, for the {n}th time\n"
        )
    }

    #[test]
    fn paging_once_is_work() {
        check(&(0..20).map(|n| page(1 + n * 100, 1)).collect::<String>(), &[]);
    }

    #[test]
    fn going_through_it_again() {
        let once: String = (0..6).map(|n| page(1 + n * 100, 1)).collect();
        let again: String = (0..8).map(|n| page(31 + n % 6 * 100, 2)).collect();
        check(&(once + &again), &["call 13: context_degradation of 7 in 13"]);
    }

    #[test]
    fn a_command_that_grows() {
        let growing: String = (1..9)
            .map(|n| {
                format!("bash sed -n '1,{}p' a.rs -> line 1 to {}, and so on\n", n * 50, n * 50)
            })
            .collect();
        check(&growing, &["call 8: context_degradation of 7 in 8"]);
    }

    #[test]
    fn reading_after_each_change_is_fine() {
        let round = |n: u32| {
            format!(
                "edit {{\"path\":\"a.rs\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n\
                 read a.rs -> the text of the file, version {n}\n"
            )
        };
        check(&(0..12).map(round).collect::<String>(), &[]);
    }
}
