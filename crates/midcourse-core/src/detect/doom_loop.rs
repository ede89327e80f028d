//! Sees the same calls with the same answers, round and round: cycles of one to eight calls.
//!
//! For each cycle length the number of calls in a row is kept that equal the one a cycle earlier,
//! so a call costs eight comparisons however long the run. Two calls are the same if tool and
//! question agree, or the arguments are nearly equal, *and* the answer is the same: new bytes, an
//! error that moved or a new target is progress. Polls are waiting, not looping.
//!
//! A question that keeps coming back between other calls, with one answer and no change since, is a
//! loop as well. A failing one is left to `repeated_error`.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, repeated_error};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;
use crate::text::similarity_of_change;

/// The longest cycle that is looked for, in calls.
pub const MAX_CYCLE_LEN: usize = 8;

/// Rounds that are named as evidence.
const ROUNDS_SHOWN: usize = 3;

/// Cycles of this length need not be gone through to the end the last time: so many of its steps
/// are enough.
const LONG_WAY: u32 = 5;
const STEPS_OF_THE_LAST: u32 = 2;

/// Times in a row that are too often even for who was asked to repeat it.
const WANTED: u32 = 20;

/// Times in a row that a clock is looked at: it does show something new each time.
const LOOKS_AT_A_CLOCK: u32 = 4;

/// Times a question comes back between other calls, with one answer, that are a loop. Reading a
/// file for the third or fourth time is looking something up.
const COMES_BACK: usize = 5;

/// Ways from one time to the next on which nothing can have changed: a check after each step is work.
const UNMOVED: usize = 3;

/// Times in a row that a question is asked whose answer says "still running", without a pause.
const IMPATIENT: u32 = 6;

/// How the calls compare with those one cycle length earlier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Lag {
    /// Calls in a row that were the same.
    matched: u32,
    /// How alike the least alike of them were.
    similarity: f64,
}

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DoomLoop {
    lags: [Lag; MAX_CYCLE_LEN],
}

impl PatternDetector for DoomLoop {
    fn name(&self) -> &str {
        "doom_loop"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            self.reset();
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        let mut earlier = trajectory.earlier_distinct_calls();
        for lag in &mut self.lags {
            let old = earlier.next();
            // What the agent no longer has in its context it has to read once more; that neither
            // adds to a circle nor ends it.
            if old.is_some_and(|old| trajectory.is_forgotten(old)) && !call.is_error() {
                continue;
            }
            let same = old.and_then(|old| sameness(call, old, trajectory));
            *lag = match same {
                Some(similarity) if lag.matched > 0 => Lag {
                    matched: lag.matched.saturating_add(1),
                    similarity: similarity.min(lag.similarity),
                },
                Some(similarity) => Lag { matched: 1, similarity },
                None => Lag::default(),
            };
        }
        let cycle = self.shortest_cycle(trajectory);
        cycle.or_else(|| comes_back(trajectory, call)).into()
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

impl DoomLoop {
    fn shortest_cycle(&self, trajectory: &TrajectoryAnalysis) -> Option<TrajectoryPattern> {
        let config = trajectory.config();
        let shortest = config.shortest_cycle.get();
        let is_pending = trajectory.latest_call().is_some_and(ToolInvoked::is_pending);
        let is_wanted = trajectory.user_asked_to_repeat()
            && trajectory.latest_call().is_some_and(|call| !call.is_error());
        let is_clock = trajectory.latest_call().is_some_and(ToolInvoked::prints_clock);
        (1..).zip(&self.lags).filter(|(length, _)| *length >= shortest).find_map(
            |(length, lag): (u32, &Lag)| {
                let repetitions = lag.matched / length + 1;
                let least = if is_wanted {
                    WANTED
                } else if is_pending {
                    IMPATIENT
                } else if is_clock {
                    LOOKS_AT_A_CLOCK
                } else {
                    0
                };
                let threshold = config.cycle_threshold.get().max(least);
                let rounds_left = threshold.saturating_sub(repetitions);
                // A long way that is gone a last time is known before its end.
                let is_known = length >= LONG_WAY
                    && rounds_left == 1
                    && lag.matched % length >= STEPS_OF_THE_LAST;
                (rounds_left == 0 || is_known)
                    .then(|| describe(trajectory, length, repetitions, lag.similarity))
            },
        )
    }
}

/// How alike two calls are, if they count as the same.
fn sameness(call: &ToolInvoked, old: &ToolInvoked, trajectory: &TrajectoryAnalysis) -> Option<f64> {
    if call.tool() != old.tool() || !call.same_result(old) {
        return None;
    }
    // Trying again is what one does while a service is down; that has a detector of its own.
    if call.says_outage() || (call.polls() && !(call.waits() && call.is_error())) {
        return None;
    }
    if call.exact_digest() == old.exact_digest() {
        return Some(1.0);
    }
    // Another change, another id or another file is another step even where the answer is "ok".
    if call.writes() || call.is_bare() || call.target() != old.target() {
        return None;
    }
    if call.call_digest() == old.call_digest() {
        return Some(1.0);
    }
    // However a file is shown, it is the same file.
    if call.shown().is_some() && old.shown().is_some() && call.target().is_some() {
        return Some(0.95);
    }
    // Another thing that is not there either is no repetition.
    if call.sought() != old.sought() {
        return None;
    }
    let (asked, asked_before) = (call.whole_args()?, old.whole_args()?);
    // Number two of a list is another thing than number one, if both succeed.
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<u8>>();
    if !call.is_error() && digits(asked) != digits(asked_before) {
        return None;
    }
    let alike = similarity_of_change(asked, asked_before);
    (alike >= trajectory.config().similarity.value()).then_some(alike)
}

/// A question that keeps coming back between other calls, nothing having been changed.
fn comes_back(trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> Option<TrajectoryPattern> {
    // "ok" is no answer to a question; a number is.
    let is_empty = call.is_bare() && !(call.is_shell() && call.result_bytes() > 0);
    let is_wait = call.polls()
        || call.is_pending()
        || call.says_outage()
        || trajectory.user_asked_to_repeat();
    if call.is_error() || is_empty || is_wait || call.is_idle() {
        return None;
    }
    let mut evidence = vec![call.ended_seq()];
    // Of the ways from one time to the next: those on which nothing can have changed.
    let (mut unmoved, mut may_have_moved) = (0, false);
    for old in trajectory.earlier_distinct_calls() {
        if old.landed() || trajectory.is_forgotten(old) {
            break;
        }
        if old.call_digest() == call.call_digest() {
            if !old.same_result(call) {
                break;
            }
            evidence.push(old.ended_seq());
            unmoved += usize::from(!std::mem::take(&mut may_have_moved));
        } else {
            may_have_moved |= old.may_have_changed_something();
        }
    }
    if evidence.len() < COMES_BACK || unmoved < UNMOVED {
        return None;
    }
    let repetitions = u32::try_from(evidence.len()).unwrap_or(u32::MAX);
    let detail = PatternDetail::DoomLoop {
        cycle_length: 1,
        repetitions,
        cycle_actions: vec![call.safe_tool()],
        similarity: Confidence::clamped(1.0),
    };
    let confidence = Confidence::clamped(0.8);
    Some(TrajectoryPattern::new(detail, confidence, cause_of(&[call]), repetitions, evidence))
}

fn describe(
    trajectory: &TrajectoryAnalysis,
    length: u32,
    repetitions: u32,
    similarity: f64,
) -> TrajectoryPattern {
    let length_calls = length as usize;
    let distinct = || trajectory.calls().rev().filter(|call| !call.is_duplicate());
    let mut round: Vec<&ToolInvoked> = distinct().take(length_calls).collect();
    round.reverse();
    let detail = PatternDetail::DoomLoop {
        cycle_length: length,
        repetitions,
        cycle_actions: round.iter().map(|call| call.safe_tool()).collect(),
        similarity: Confidence::clamped(similarity),
    };
    let shown = length_calls * ROUNDS_SHOWN.min(repetitions as usize);
    let evidence = distinct().take(shown).map(ToolInvoked::ended_seq);
    TrajectoryPattern::new(
        detail,
        Confidence::clamped(0.9 * similarity),
        cause_of(&round),
        repetitions,
        evidence,
    )
}

/// The same for every rotation of a cycle; a cycle around one error is about that error.
fn cause_of(round: &[&ToolInvoked]) -> Cause {
    let mut errors = round.iter().filter_map(|call| call.status().error());
    if let Some(error) = errors.next()
        && errors.all(|other| other.digest == error.digest)
    {
        return repeated_error::cause_of(error);
    }
    let mut calls: Vec<Digest> = round
        .iter()
        .map(|call| {
            let what = match call.status().error() {
                Some(error) => error.digest,
                None if call.is_bare() => call.call_digest(),
                None => call.result_digest(),
            };
            Digest::of(call.tool().as_bytes()).with(what)
        })
        .collect();
    calls.sort_unstable();
    let id = calls.into_iter().fold(Digest::default(), Digest::with);
    Cause::new("doom_loop", id)
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::DoomLoop { cycle_length, repetitions, .. } = detail else { return None };
    match (rung.0, cycle_length) {
        (1, 1) => Some(format!(
            "The same thing was asked {repetitions} times, with the same answer and nothing changed \
             in between. Asking again will not change it; a different source or a smaller step might."
        )),
        (1, _) => Some(format!(
            "The same {cycle_length} steps have run {repetitions} times with the same results. \
             Something outside this circle has to change first; what the steps take for granted is \
             a place to look."
        )),
        (2, _) => Some(
            "Still going round in a circle. It may help to write down what was tried, what each \
             try showed, and which one assumption has not been checked yet."
                .to_owned(),
        ),
        (3, _) => Some(
            "This circle has not moved for a while. Another part of the task may be able to go on \
             without it, with this noted as the open point."
                .to_owned(),
        ),
        // Nobody is told the same twice: the count differs each time.
        (4.., _) => Some(format!(
            "{repetitions} rounds by now, all alike. What is known can be summed up and handed over \
             as it is; a round more will not add to it."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn a_call_repeated_to_the_letter() {
        check(
            "3x bash make !! error: missing separator",
            &["call 3: doom_loop of 1, 3 times", "call 3: repeated_error of class syntax, 3 times"],
        );
        check("2x bash make !! error: missing separator", &[]);
    }

    #[test]
    fn longer_of_the_same_is_not_news() {
        check("9x bash ls -> a.txt and b.txt and c.txt", &["call 3: doom_loop of 1, 3 times"]);
    }

    #[test]
    fn a_cycle_of_three() {
        check(
            "
            3x {
                read a.rs -> fn a() {} and so on and on
                read b.rs -> fn b() {} and so on and on
                bash make test -> 3 tests are red, 4 are green
            }
            ",
            &["call 9: doom_loop of 3, 3 times"],
        );
    }

    #[test]
    fn a_long_cycle_is_known_before_its_third_end() {
        let files = ["a", "b", "c", "d", "e", "f"];
        let round = files.map(|name| format!("read {name}.rs -> fn {name}() {{}} and so on\n"));
        check(&round.concat().repeat(3), &["call 14: doom_loop of 6, 2 times"]);
    }

    #[test]
    fn nearly_equal_arguments_with_one_answer() {
        check(
            "
            bash cargo test --all --no-fail-fast -- first_case  !! error: linker not found
            bash cargo test --all --no-fail-fast -- first_case1 !! error: linker not found
            bash cargo test --all --no-fail-fast -- first_case2 !! error: linker not found
            ",
            &[
                "call 3: doom_loop of 1, 3 times",
                "call 3: repeated_error of class not-found, 3 times",
            ],
        );
    }

    #[test]
    fn new_bytes_for_the_same_question_are_no_loop() {
        check(
            "
            bash tail log -> step 1 of 9, warming up the cache
            bash tail log -> step 2 of 9, reading all the files
            bash tail log -> step 3 of 9, building the index
            bash tail log -> step 4 of 9, writing the index
            ",
            &[],
        );
    }

    #[test]
    fn a_result_that_differs_only_in_its_clock_is_the_same() {
        check(
            "
            bash status -> 2026-11-15T08:00:01Z nothing to do for anybody
            bash status -> 2026-11-15T08:00:02Z nothing to do for anybody
            bash status -> 2026-11-15T08:00:03Z nothing to do for anybody
            ",
            &["call 3: doom_loop of 1, 3 times"],
        );
    }

    #[test]
    fn different_searches_that_find_nothing_are_no_loop() {
        check(
            r#"
            Grep {"path":"/home/agent/project/src","pattern":"alpha"} -> No matches found
            Grep {"path":"/home/agent/project/src","pattern":"bravo"} -> No matches found
            Grep {"path":"/home/agent/project/src","pattern":"charlie"} -> No matches found
            "#,
            &[],
        );
    }

    #[test]
    fn the_same_on_different_things_is_no_loop() {
        check(
            "
            bash docker rm 3f2a1b9c8d7e -> 3f2a1b9c8d7e
            bash docker rm 8c7d6e5f4a3b -> 8c7d6e5f4a3b
            bash docker rm 1b2c3d4e5f60 -> 1b2c3d4e5f60
            bash docker rm 9a8b7c6d5e4f -> 9a8b7c6d5e4f
            ",
            &[],
        );
    }

    #[test]
    fn a_circle_of_two_errors_is_one_circle() {
        let round = |n: u32| {
            format!(
                "bash make !! error: x failed after 0.{n}s\n\
                 bash lint !! error: y failed after 0.{n}1s\n"
            )
        };
        check(
            &(1..8).map(round).collect::<String>(),
            &["call 5: repeated_error of class tool, 3 times", "call 6: doom_loop of 2, 3 times"],
        );
    }

    #[test]
    fn parallel_duplicates_count_once() {
        check(
            "
            bash ls -> a.txt and b.txt and c.txt
            & bash ls -> a.txt and b.txt and c.txt
            & bash ls -> a.txt and b.txt and c.txt
            & bash ls -> a.txt and b.txt and c.txt
            ",
            &[],
        );
    }

    #[test]
    fn a_word_of_the_person_begins_anew() {
        check(
            "
            2x bash ls -> a.txt and b.txt and c.txt
            user: again, please
            2x bash ls -> a.txt and b.txt and c.txt
            ",
            &[],
        );
    }
}
