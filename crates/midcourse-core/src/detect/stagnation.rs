//! Detects different calls that all get the same result.
//!
//! The typical case is one search after another that finds nothing; searches with different tools
//! count together. Other calls count only if they use the same tool and their result is
//! informative. An "ok" is not, and neither is a short result such as "active" for one object after
//! another: there the agent is working through a list.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, min_different_calls};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;
use crate::subject::Activity;
use crate::text::SafeName;

/// Results shorter than this many bytes do not count: different calls may get them by chance.
const MIN_RESULT_BYTES: u64 = 120;

/// The minimum length of a result, in bytes, for calls that name no file or other target. It is
/// lower because such calls are not steps through a list of files, which may all give the same
/// short result.
const MIN_RESULT_BYTES_WITHOUT_TARGET: u64 = 40;

/// The minimum length of a result, in bytes, for calls that show a file or a page. It is lower
/// because different files rarely have the same content.
const MIN_SHOWN_BYTES: u64 = 24;

/// If searches for one term find nothing in this many different places, the pattern is present: the
/// term is probably nowhere.
const MIN_EMPTY_PLACES: usize = 8;

/// Used in place of `MIN_EMPTY_PLACES` for a search at the end of a pipeline, such as `kubectl logs
/// web-1 | grep panic`: the agent goes through a list of objects, which may be long.
const MIN_EMPTY_OBJECTS: usize = 16;

/// How many variants of a command are remembered.
const MAX_VARIANTS: usize = 16;

/// How many of the latest calls with comparable results are examined.
const EXAMINED_CALLS: usize = 12;

/// If the calls get two different negative results, and neither is frequent enough alone, this many
/// calls more than the threshold are needed. The agent then tries variants of the same two things.
const EXTRA_CALLS_OF_TWO_RESULTS: usize = 2;

/// Actions that leave a page unchanged count only if at least this many of them are different.
const MIN_DIFFERENT_ACTIONS: usize = 3;

/// If a search found nothing, and this many later searches for the same term in parts of the same
/// place found nothing either, the pattern is present. The first search covered these places, so
/// the later ones could not find anything.
const MIN_COVERED_SEARCHES: u32 = 4;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stagnation {
    /// The latest search that found nothing and that was not covered by an earlier search.
    empty_search: Option<EmptySearch>,
    variants: Option<Variants>,
}

/// Commands in a row that ask the same place in different ways and get the same short result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Variants {
    place: Digest,
    result: Digest,
    /// The exact digests of the different commands, each with its seq.
    commands: Vec<(Digest, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct EmptySearch {
    term: Digest,
    /// Where the term was searched for; `None` if the call named no place.
    place: Option<SafeName>,
    seq: u64,
    /// Number of later searches in parts of this place.
    covered: u32,
}

impl PatternDetector for Stagnation {
    fn name(&self) -> &str {
        "stagnation"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            self.reset();
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        if let Some(evidence) = self.variants_up_to(trajectory, call) {
            let count = u32::try_from(evidence.len()).unwrap_or(u32::MAX);
            return Detection::Present(pattern(call, count, call.result_digest(), evidence));
        }
        // Many calls with the result "passed" are a list of checks, which is normal.
        let says_little = call.is_bare() || call.is_idle() || call.is_positive();
        if call.is_error() || says_little || call.polls() {
            return Detection::Unchanged;
        }
        // A result that says that something is wrong tells more than other results.
        let threshold = trajectory.config().stagnation_threshold.get();
        let threshold = threshold.saturating_sub(u32::from(call.is_negative()));
        let threshold = min_different_calls(trajectory, threshold) as usize;
        let found = Equal::among(trajectory, call, threshold);
        let (count, evidence) = if let Some(search) = self.covering_search(call) {
            (search.covered + 1, vec![search.seq, call.ended_seq()])
        } else if found.is_enough(call, threshold) {
            (u32::try_from(found.count()).unwrap_or(u32::MAX), found.evidence)
        } else {
            return Detection::Absent;
        };
        if trajectory.has_pattern(&PatternType::DoomLoop) {
            return Detection::Absent;
        }
        // The replies of other agents differ each time.
        let result = if is_negative_reply(call) { Digest::default() } else { call.result_digest() };
        Detection::Present(pattern(call, count, result, evidence))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

fn pattern(
    call: &ToolInvoked,
    count: u32,
    result: Digest,
    evidence: Vec<u64>,
) -> TrajectoryPattern {
    let tool = if call.found_nothing() { "" } else { call.tool() };
    TrajectoryPattern::new(
        PatternDetail::Stagnation { tool: call.safe_tool(), calls: count },
        Confidence::clamped(0.95),
        Cause::new("stagnation", Digest::of(tool.as_bytes()).with(result)),
        count,
        evidence,
    )
}

impl Stagnation {
    /// Adds a command that only reads and has a short result. If there are enough variants of it in
    /// a row, returns their seqs.
    fn variants_up_to(
        &mut self,
        trajectory: &TrajectoryAnalysis,
        call: &ToolInvoked,
    ) -> Option<Vec<u64>> {
        let is_query = call.is_shell() && call.only_reads() && !call.is_remote() && !call.is_idle();
        let is_short = call.is_bare() || call.found_nothing();
        if !is_query || !is_short || call.is_error() || call.is_positive() || call.polls() {
            self.variants = None;
            return None;
        }
        let (place, result) = (call.subject()?, call.result_digest());
        let known = self.variants.take().filter(|it| it.place == place && it.result == result);
        let mut variants = known.unwrap_or(Variants { place, result, commands: Vec::new() });
        if !variants.commands.iter().any(|(command, _)| *command == call.exact_digest()) {
            variants.commands.push((call.exact_digest(), call.ended_seq()));
        }
        let commands = &variants.commands;
        let threshold = trajectory.config().stagnation_threshold.get();
        let is_enough = commands.len() >= min_different_calls(trajectory, threshold) as usize;
        let evidence = is_enough.then(|| commands.iter().map(|(_, seq)| *seq).collect());
        if commands.len() == MAX_VARIANTS {
            variants.commands.remove(0);
        }
        self.variants = Some(variants);
        evidence
    }

    /// Remembers a search that found nothing. If an earlier search covers this one, and has covered
    /// `MIN_COVERED_SEARCHES` searches by now, returns the earlier search.
    fn covering_search(&mut self, call: &ToolInvoked) -> Option<&EmptySearch> {
        let term = call.search_term().filter(|_| call.found_nothing())?;
        let place = call.target_name();
        let is_covered = self
            .empty_search
            .as_ref()
            .is_some_and(|search| search.term == term && is_part(place, search.place.as_ref()));
        if !is_covered {
            let seq = call.ended_seq();
            self.empty_search = Some(EmptySearch { term, place: place.cloned(), seq, covered: 0 });
            return None;
        }
        let search = self.empty_search.as_mut()?;
        search.covered = search.covered.saturating_add(1);
        self.empty_search.as_ref().filter(|search| search.covered >= MIN_COVERED_SEARCHES)
    }
}

/// Whether a place is a part of another place.
fn is_part(part: Option<&SafeName>, whole: Option<&SafeName>) -> bool {
    match (part, whole) {
        (Some(part), Some(whole)) => {
            let rest = part.as_str().strip_prefix(whole.as_str().trim_end_matches('/'));
            rest.is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
        }
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// The recent calls that got the same result as the latest call.
#[derive(Default)]
struct Equal {
    /// Digests of the different calls with this result.
    different: Vec<Digest>,
    /// Digests of the different calls with a second negative result, the same for all of them.
    other: Vec<Digest>,
    /// Digests of the different searches for the term of the latest call, if it found nothing.
    places: Vec<Digest>,
    /// Number of calls with this result, including equal calls.
    all: usize,
    evidence: Vec<u64>,
}

impl Equal {
    fn among(trajectory: &TrajectoryAnalysis, call: &ToolInvoked, threshold: usize) -> Self {
        let mut found = Self::default();
        let mut other: Option<&ToolInvoked> = None;
        let comparable =
            trajectory.calls_since_user_message().filter(|old| is_comparable(old, call));
        let examined = if is_piped_search(call) { MIN_EMPTY_OBJECTS } else { EXAMINED_CALLS };
        for old in comparable.take(examined.max(threshold + EXTRA_CALLS_OF_TWO_RESULTS)) {
            if !is_same_result(old, call) {
                // If `call` found nothing, then `old` found something, and searches before it do
                // not count.
                if call.found_nothing() {
                    break;
                }
                if old.is_negative() && other.get_or_insert(old).same_result(old) {
                    found.other.push(old.call_digest());
                }
                continue;
            }
            // Several searches for the same term that find nothing count once, whatever their
            // other arguments.
            let search_term = old.search_term().filter(|_| call.found_nothing());
            if search_term == call.search_term() {
                found.places.push(old.call_digest());
            }
            found.different.push(search_term.unwrap_or(old.call_digest()));
            found.evidence.push(old.ended_seq());
        }
        found.all = found.different.len();
        for digests in [&mut found.different, &mut found.other, &mut found.places] {
            digests.sort_unstable();
            digests.dedup();
        }
        found
    }

    fn is_enough(&self, call: &ToolInvoked, threshold: usize) -> bool {
        let (same, other) = (self.different.len(), self.other.len());
        let is_page_left = call.shows_page() && self.all >= threshold;
        let min_places = if is_piped_search(call) { MIN_EMPTY_OBJECTS } else { MIN_EMPTY_PLACES };
        same >= threshold
            || (call.found_nothing() && self.places.len() >= min_places.max(threshold))
            || (call.is_negative()
                && same.min(other) * 2 >= threshold
                && same + other >= threshold + EXTRA_CALLS_OF_TWO_RESULTS)
            || (is_page_left && same >= MIN_DIFFERENT_ACTIONS)
    }

    fn count(&self) -> usize {
        self.different.len().max(self.evidence.len().min(self.all))
    }
}

/// Whether a call searches the output of another program.
fn is_piped_search(call: &ToolInvoked) -> bool {
    call.search_term().is_some() && call.is_shell() && call.activity() == Activity::RunCommand
}

/// Whether two calls got the same result. The replies of other agents differ in their words, so two
/// replies are the same if both say no.
fn is_same_result(old: &ToolInvoked, call: &ToolInvoked) -> bool {
    old.same_result(call) || (is_negative_reply(old) && is_negative_reply(call))
}

/// Whether another agent has replied that it could not do or find what it was asked for.
fn is_negative_reply(call: &ToolInvoked) -> bool {
    call.activity() == Activity::Delegate && call.is_negative()
}

/// Whether `call` is compared with the earlier call `old`: both are searches, or both use the same
/// tool and the result of `call` is informative.
fn is_comparable(old: &ToolInvoked, call: &ToolInvoked) -> bool {
    if call.found_nothing() {
        return old.search_term().is_some();
    }
    let is_informative = call.is_negative()
        || call.is_empty_answer()
        || call.shown_lines().is_some() && call.result_bytes() >= MIN_SHOWN_BYTES
        || call.target().is_none() && call.result_bytes() >= MIN_RESULT_BYTES_WITHOUT_TARGET
        || call.result_bytes() >= MIN_RESULT_BYTES;
    // If several tools get the same refusal, it is the same obstacle.
    let is_refusal = call.is_negative() && !call.is_shell() && !old.is_shell();
    let is_same_tool =
        old.tool() == call.tool() || is_refusal || (old.shows_page() && call.shows_page());
    is_informative && is_same_tool && !old.is_bare()
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

    #[test]
    fn empty_answers_about_different_objects_are_stagnation() {
        let scan = |n: u32| {
            format!("ocr {{\"file\": \"r{n}.heic\"}} -> {{\"text\": \"\", \"pages\": 1}}\n")
        };
        check(&(0..6).map(scan).collect::<String>(), &["call 6: stagnation of 6"]);
    }

    #[test]
    fn short_results_that_say_no_count() {
        let acts = ["open", "push", "unlock", "pull", "kick", "break", "climb"];
        let tries: String =
            acts.iter().map(|act| format!("act {act} gate -> The gate is locked.\n")).collect();
        check(&tries, &["call 5: stagnation of 5"]);
        check(&format!("user: check that all gates are locked\n{tries}"), &[]);
    }

    #[test]
    fn two_negative_results_in_turn_are_stagnation() {
        let round = |n: u32| {
            format!(
                "download {{\"plan\": \"p{n}\"}} -> I am unable to download files\n\
                 download {{\"plan\": \"q{n}\"}} -> No such file in /downloads\n"
            )
        };
        check(
            &(0..4).map(round).collect::<String>(),
            &["call 7: stagnation of 4", "call 8: stagnation of 4"],
        );
    }

    #[test]
    fn other_agents_that_all_say_no_are_stagnation() {
        let replies = [
            "There is no such service in the repository.",
            "None. Only two comments mention it.",
            "I could not find it in any language.",
            "Neither vendor nor tools has it.",
            "Result: not found.",
        ];
        let ask = |reply: &str| format!("Task {{\"prompt\": \"find it, {reply}\"}} -> {reply}\n");
        check(&replies.map(ask).concat(), &["call 5: stagnation of 5"]);
        let found = replies.map(|reply| ask(&reply.replace("no", "a").replace("No", "A")));
        check(&format!("{}{}", ask("It is in src/main.rs."), found.concat()), &[]);
    }

    #[test]
    fn one_term_that_is_nowhere_is_stagnation() {
        let grep = |n: u32| format!("bash ssh app-{n} \"grep -h 7be1 /var/log/app.log\" -> \"\"\n");
        let greps = (0..8).map(grep).collect::<String>();
        check(&greps, &["call 8: stagnation of 8"]);
        check(&format!("user: check all hosts for 7be1\n{greps}"), &[]);
    }

    #[test]
    fn the_same_matches_in_another_order_are_the_same_result() {
        let results = [
            "1. toner shop, 2. locking guide of the vendor",
            "1. locking guide of the vendor, 2. toner shop",
        ];
        let searches: String = (0..6)
            .zip(results.iter().cycle())
            .map(|(n, result)| format!("web_search {{\"query\": \"q{n}\"}} -> {result}\n"))
            .collect();
        check(&searches, &["call 6: stagnation of 6"]);
    }

    #[test]
    fn variants_of_a_command_with_one_short_result_are_stagnation() {
        let variants: String =
            (1..7).map(|n| format!("bash cut -f{n} /srv/list.txt | sort -u -> 3\n")).collect();
        check(&variants, &["call 6: stagnation of 6"]);
        let batch: String =
            (1..9).map(|n| format!("bash cut -f1 /srv/list{n}.txt | sort -u -> 3\n")).collect();
        check(&batch, &[]);
    }

    #[test]
    fn searching_the_parts_of_a_place_that_was_searched_is_stagnation() {
        let parts = ["auth", "billing", "gateway", "mailer", "search"];
        let run = |first: &str| {
            let rest: String = parts
                .iter()
                .map(|part| {
                    format!("Grep {{\"pattern\": \"FLAG\", \"path\": \"/m/{part}\"}} -> No matches found\n")
                })
                .collect();
            format!("{first}{rest}")
        };
        let whole = "Grep {\"pattern\": \"FLAG\", \"path\": \"/m\"} -> No matches found\n";
        check(&run(whole), &["call 5: stagnation of 5"]);
        check(&run(""), &[]);
    }

    #[test]
    fn actions_that_leave_the_page_as_it_is_are_stagnation() {
        let page = "[dialog] We value your privacy. [12] Accept [13] Settings [14] Reject";
        let act = |call: &str, done: &str| format!("{call} -> \"{done}{page}\"\n");
        let run: String = [14, 12, 12, 13, 12, 14]
            .iter()
            .map(|n| act(&format!("click {{\"index\": {n}}}"), &format!("Clicked {n}.\\n")))
            .collect();
        check(&(run + &act("press_key Escape", "")), &["call 6: stagnation of 6"]);
    }
}
