//! Detects that the agent keeps reading one file in pieces: it reads lines again that it has read
//! before, or it reads very many small pieces.
//!
//! Paging once through a long file is normal work, and so is reading it again after a change. The
//! line ranges differ from call to call, so the loop detector sees no equal calls. This detector
//! therefore compares which lines the calls show.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// If this many reads show mostly lines that were read before, the pattern is present. Fewer such
/// reads are normal: the agent looks something up again.
const MIN_REPEATED_READS: usize = 7;

/// If one file is read this often, the pattern is present even if all lines were new, because a
/// search would have been faster.
const MIN_READS: usize = 25;

/// Has no state: the kept calls contain everything that the detector needs.
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
        if call.is_error() || call.shown_lines().is_none() {
            return Detection::Unchanged;
        }
        // The reads of the file since it last changed and since the agent's context was last
        // compacted, oldest first.
        let mut reads: Vec<&ToolInvoked> = trajectory
            .calls_since_user_message()
            .filter(|old| !old.is_duplicate())
            .take_while(|old| !trajectory.is_compacted_away(old) && !may_change(old, file))
            .filter(|old| old.target() == Some(file) && !old.is_error())
            .collect();
        reads.reverse();
        let mut covered: Vec<(u32, u32)> = Vec::new();
        let mut repeated = Vec::new();
        for read in &reads {
            let Some(lines) = read.shown_lines() else { continue };
            // If the same lines now have other content, something has changed the file, so the
            // reads before do not count.
            let before = reads.iter().take_while(|old| old.ended_seq() < read.ended_seq());
            let mut same_lines = before.filter(|old| old.shown_lines() == Some(lines));
            if same_lines.any(|old| !old.same_result(read)) {
                covered.clear();
                repeated.clear();
            }
            if is_mostly_covered(lines, &covered) {
                repeated.push(read.ended_seq());
            }
            covered.push(lines);
        }
        let is_repeated =
            repeated.len() >= MIN_REPEATED_READS && repeated.last() == Some(&call.ended_seq());
        // `tail` shows the end of a growing file. An agent that looks there often waits for something.
        let is_piece =
            |read: &&&ToolInvoked| read.shown_lines().is_some_and(|(from, _)| from < u32::MAX);
        if !is_repeated && reads.iter().filter(is_piece).count() < MIN_READS {
            return Detection::Absent;
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let evidence = if is_repeated {
            repeated.clone()
        } else {
            reads.iter().map(|read| read.ended_seq()).collect()
        };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Sweep {
                file: call.target_name().cloned(),
                reads: narrow(reads.len()),
                repeated: if is_repeated { narrow(repeated.len()) } else { 0 },
            },
            Confidence::clamped(0.6),
            Cause::new("sweep", file),
            narrow(reads.len()),
            evidence,
        ))
    }

    fn reset(&mut self) {}
}

/// Whether a call may have changed the file: it made a change, and it names this file or no file.
fn may_change(call: &ToolInvoked, file: Digest) -> bool {
    call.landed() && call.target().is_none_or(|target| target == file)
}

/// Whether at least half of these lines were read before.
fn is_mostly_covered((from, to): (u32, u32), covered: &[(u32, u32)]) -> bool {
    // `u32::MAX` as the first line means `tail`, which shows other lines whenever the file has
    // grown.
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
    // A read of the whole file ends at line `u32::MAX`, so only another read up to the end of the
    // file can cover half of it.
    let all = u64::from(to).saturating_sub(u64::from(from)) + 1;
    known * 2 >= all
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
    fn paging_once_through_a_file_is_not_a_sweep() {
        check(&(0..20).map(|n| page(1 + n * 100, 1)).collect::<String>(), &[]);
    }

    #[test]
    fn paging_through_a_file_again_is_a_sweep() {
        let once: String = (0..6).map(|n| page(1 + n * 100, 1)).collect();
        let again: String = (0..8).map(|n| page(31 + n % 6 * 100, 2)).collect();
        check(&(once + &again), &["call 13: sweep of 7 in 13"]);
    }

    #[test]
    fn showing_more_and_more_of_a_file_is_a_sweep() {
        let growing: String = (1..9)
            .map(|n| {
                format!("bash sed -n '1,{}p' a.rs -> line 1 to {}, and so on\n", n * 50, n * 50)
            })
            .collect();
        check(&growing, &["call 8: sweep of 7 in 8"]);
    }

    #[test]
    fn reading_a_file_after_each_edit_is_not_a_sweep() {
        let round = |n: u32| {
            format!(
                "edit {{\"path\":\"a.rs\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n\
                 read a.rs -> the text of the file, version {n}\n"
            )
        };
        check(&(0..12).map(round).collect::<String>(), &[]);
    }
}
