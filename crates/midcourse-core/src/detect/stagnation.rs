//! Detects different calls that all get the same result.
//!
//! The typical case is one search after another that finds nothing; searches with different tools
//! count together. Other calls count only if they use the same tool and their result is
//! informative. An "ok" is not, and neither is a short result such as "active" for one object after
//! another: there the agent is working through a list.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// Results shorter than this many bytes do not count: different calls may get them by chance.
const MIN_RESULT_BYTES: u64 = 120;

/// The minimum length of a result, in bytes, for calls that name no file or other target. It is
/// lower because such calls are not steps through a list of files, which may all give the same
/// short result.
const MIN_RESULT_BYTES_WITHOUT_TARGET: u64 = 40;

/// The minimum length of a result, in bytes, for calls that show a file or a page. It is lower
/// because different files rarely have the same content.
const MIN_SHOWN_BYTES: u64 = 24;

/// How many of the latest calls with comparable results are examined.
const EXAMINED_CALLS: usize = 12;
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
        // Many calls that all say "passed" are a list of checks, not trouble.
        let says_little = call.is_bare() || call.is_idle() || call.is_positive();
        if call.is_error() || says_little || call.polls() {
            return Detection::Unchanged;
        }
        let (mut different, mut evidence) = (Vec::new(), Vec::new());
        let comparable =
            trajectory.calls_since_user_message().filter(|old| is_comparable(old, call));
        for old in comparable.take(EXAMINED_CALLS) {
            if !old.same_result(call) {
                // If `call` found nothing, then `old` found something, and searches before it do
                // not count.
                if call.found_nothing() {
                    break;
                }
                continue;
            }
            // Several searches for the same term that find nothing count once, whatever their
            // other arguments.
            let search_term = old.search_term().filter(|_| call.found_nothing());
            different.push(search_term.unwrap_or(old.call_digest()));
            evidence.push(old.ended_seq());
        }
        different.sort_unstable();
        different.dedup();
        let threshold = trajectory.config().stagnation_threshold.get() as usize;
        if different.len() < threshold || trajectory.has_pattern(&PatternType::DoomLoop) {
            return Detection::Absent;
        }
        let count = u32::try_from(different.len()).unwrap_or(u32::MAX);
        let tool = if call.found_nothing() { "" } else { call.tool() };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::Stagnation { tool: call.safe_tool(), calls: count },
            Confidence::clamped(0.8),
            Cause::new("stagnation", Digest::of(tool.as_bytes()).with(call.result_digest())),
            count,
            evidence,
        ))
    }

    fn reset(&mut self) {}
}

/// Whether `call` is compared with the earlier call `old`: both are searches, or both use the same
/// tool and the result of `call` is informative.
fn is_comparable(old: &ToolInvoked, call: &ToolInvoked) -> bool {
    if call.found_nothing() {
        return old.search_term().is_some();
    }
    let is_informative = call.is_negative()
        || call.shown_lines().is_some() && call.result_bytes() >= MIN_SHOWN_BYTES
        || call.target().is_none() && call.result_bytes() >= MIN_RESULT_BYTES_WITHOUT_TARGET
        || call.result_bytes() >= MIN_RESULT_BYTES;
    is_informative && old.tool() == call.tool() && !old.is_bare()
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::Stagnation { calls, tool } = detail else { return None };
    let last = tool.quoted().map_or_else(String::new, |tool| format!(", the last one with {tool}"));
    match rung.0 {
        1 => Some(format!(
            "{calls} different calls got the same result{last}. The result may simply be true: what \
             you are looking for may be absent, elsewhere, or named differently."
        )),
        2 => Some(
            "You vary the call and still get the same result. Use another tool, or look at what is \
             there instead of searching for what should be there."
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn six_different_searches_that_find_nothing_are_stagnation() {
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
    fn writes_that_report_success_are_not_stagnation() {
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

    #[test]
    fn a_list_of_checks_that_all_pass_is_not_stagnation() {
        let plans: String = (0..9)
            .map(|n| {
                format!(
                    "bash terraform import aws_s3_bucket.b{n} b{n} -> Import successful!\n\
                     bash terraform plan -target=aws_s3_bucket.b{n} -> No changes. Your \
                     infrastructure matches the configuration.\n"
                )
            })
            .collect();
        check(&plans, &[]);
    }

    #[test]
    fn a_count_of_zero_is_an_answer() {
        let tables =
            ["orders", "payments", "refunds", "carts", "users", "items", "coupons", "stock"];
        let counts: String = tables
            .iter()
            .map(|table| {
                format!(
                    "query {{\"sql\": \"select count(*) from {table} where id is null\"}} -> 0\n"
                )
            })
            .collect();
        check(&counts, &[]);
    }
}
