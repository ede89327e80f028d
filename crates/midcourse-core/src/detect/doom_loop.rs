//! Detects loops: the agent makes a sequence of one to eight calls (a cycle) again and again and
//! gets the same results each time. One pass through the cycle is a round.
//!
//! For each cycle length the detector counts the consecutive calls that equal the call one cycle
//! earlier, so each new call is compared with eight others, however long the run is. Two calls are
//! equal if they have the same tool, the same or nearly the same arguments, *and* the same result.
//! A call with a new result, target or error is progress and ends the cycle. So does a poll,
//! because an agent that polls is waiting, not looping.
//!
//! If the agent keeps making one call between other calls, always with the same result and without
//! a change in between, that is a loop, too. If that call fails each time, the `repeated_error`
//! detector reports it instead.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, repeated_error};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;
use crate::subject::Activity;
use crate::text::similarity_of_change;

/// The longest cycle that is detected, in calls.
pub const MAX_CYCLE_LEN: usize = 8;

/// The evidence of a loop consists of the calls of its latest rounds, at most this many.
const EVIDENCE_ROUNDS: usize = 3;

/// A cycle of at least this many calls is reported early: not at the end of the last round that the
/// threshold asks for, but after the first `MIN_CALLS_OF_LAST_ROUND` calls of that round.
const LONG_CYCLE_LEN: u32 = 5;
const MIN_CALLS_OF_LAST_ROUND: u32 = 2;

/// If the user asked for something to be repeated, fewer rounds than this are not a loop.
const MIN_REPEATS_WHEN_ASKED_TO_REPEAT: u32 = 40;

/// For a command such as `date`, whose output differs each time, fewer rounds than this are not a
/// loop. All outputs of such a command count as the same result.
const MIN_REPEATS_OF_CLOCK: u32 = 4;

/// If what the agent waits for may not have arrived yet, fewer rounds than this are not a loop. This limit is for an agent that
/// asks again and again without a pause. Calls with pauses between them are polls, not a
/// loop.
const MIN_REPEATS_WHILE_PENDING: u32 = 6;

/// If the agent makes a call this often between other calls, each time with the same result, that
/// is a loop. To read a file three or four times is normal.
const MIN_RECURRENCES: usize = 5;

/// If the agent polls something this often although the result says that it has ended, that is a
/// loop.
const MIN_LOOKS_AT_WHAT_HAS_ENDED: usize = 3;

/// If the agent polls something this often, nothing moves, and the time without progress that makes a
/// stall is over, that is a loop.
const MIN_LOOKS_OF_A_LONG_WAIT: usize = 4;

/// If there are more different calls than this between equal changes, the changes may be made to
/// different things.
const MAX_OTHERS_BETWEEN_EQUAL_CHANGES: usize = 2;

/// A call that the agent makes again and again between other calls may be a check after each step
/// of its work. It is a loop only if at least this many of the intervals between the equal calls
/// contain no command that may have changed something.
const MIN_INTERVALS_WITHOUT_CHANGE: usize = 3;

/// Compares the latest calls with the calls that came n calls earlier, for one fixed n.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Lag {
    /// How many calls in a row, up to the latest one, equal the call that came n calls before them.
    matched: u32,
    /// The lowest similarity among these pairs of equal calls, from 0 to 1.
    similarity: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DoomLoop {
    /// `lags[n - 1]` compares each call with the one n calls earlier.
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
            // The host has compacted the agent's context since the old call, so the agent may have
            // to make that call once more. Unless the new call fails, it neither extends nor ends
            // a cycle.
            if old.is_some_and(|old| trajectory.is_compacted_away(old)) && !call.is_error() {
                continue;
            }
            let similarity = old.and_then(|old| similarity_if_same(call, old, trajectory));
            *lag = match similarity {
                Some(similarity) if lag.matched > 0 => Lag {
                    matched: lag.matched.saturating_add(1),
                    similarity: similarity.min(lag.similarity),
                },
                Some(similarity) => Lag { matched: 1, similarity },
                None => Lag::default(),
            };
        }
        let config = trajectory.config();
        let cycle = self.cycle(trajectory, config.cycle_threshold, config.shortest_cycle);
        cycle.or_else(|| recurring_call(trajectory, call)).into()
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

impl DoomLoop {
    /// The shortest cycle of at least `min_len` calls of which the agent has just completed at
    /// least `threshold` rounds in a row; `None` if there is none.
    pub(super) fn cycle(
        &self,
        trajectory: &TrajectoryAnalysis,
        threshold: NonZeroU32,
        min_len: NonZeroU32,
    ) -> Option<TrajectoryPattern> {
        let is_pending = trajectory.latest_call().is_some_and(|call| may_arrive(trajectory, call));
        let is_requested = trajectory.user_asked_to_repeat()
            && trajectory.latest_call().is_some_and(|call| !call.is_error());
        // Another agent may do something else each time, even if its results look the same.
        let is_delegation = trajectory
            .latest_call()
            .is_some_and(|call| call.activity() == Activity::Delegate && !call.is_error());
        let is_clock = trajectory.latest_call().is_some_and(ToolInvoked::prints_clock);
        (1..).zip(&self.lags).filter(|(length, _)| *length >= min_len.get()).find_map(
            |(length, lag): (u32, &Lag)| {
                let repetitions = lag.matched / length + 1;
                let min_repeats = if is_requested {
                    MIN_REPEATS_WHEN_ASKED_TO_REPEAT
                } else if is_pending {
                    MIN_REPEATS_WHILE_PENDING
                } else if is_clock {
                    MIN_REPEATS_OF_CLOCK
                } else {
                    0
                };
                let threshold = threshold.get() + u32::from(is_delegation);
                let threshold = threshold.max(min_repeats);
                let rounds_left = threshold.saturating_sub(repetitions);
                let is_clear_early = length >= LONG_CYCLE_LEN
                    && rounds_left == 1
                    && lag.matched % length >= MIN_CALLS_OF_LAST_ROUND;
                (rounds_left == 0 || is_clear_early)
                    .then(|| describe(trajectory, length, repetitions, lag.similarity))
            },
        )
    }
}

/// The similarity of two calls; `None` if they do not count as the same.
fn similarity_if_same(
    call: &ToolInvoked,
    old: &ToolInvoked,
    trajectory: &TrajectoryAnalysis,
) -> Option<f64> {
    if call.tool() != old.tool() || !call.same_result(old) {
        return None;
    }
    // Retries while a service is down are not a loop: the `outage` detector reports them. Polls are
    // not a loop either, except calls such as `sleep` that fail: they did not wait. Polling
    // something that has ended is not waiting, so it may be a loop.
    let is_wait = call.polls() && !(call.waits() && call.is_error()) && !call.says_ended();
    if call.reports_outage() || is_wait {
        return None;
    }
    if call.exact_digest() == old.exact_digest() {
        return Some(1.0);
    }
    // A different edit or target is a different step, even if the result is the same. If both
    // results say no more than "ok" (`is_bare`), they do not show that the calls did the same.
    if call.writes() || call.is_bare() || call.target() != old.target() {
        return None;
    }
    if call.call_digest() == old.call_digest() {
        return Some(1.0);
    }
    // Both calls show the same content of the same file, with different arguments.
    if call.shown_lines().is_some() && old.shown_lines().is_some() && call.target().is_some() {
        return Some(0.95);
    }
    // Searches for different terms are not a repetition, even if none of them finds anything.
    if call.search_term() != old.search_term() {
        return None;
    }
    let (args, old_args) = (call.whole_args()?, old.whole_args()?);
    // Successful calls whose arguments differ in a number are steps through a list, not a
    // repetition.
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<u8>>();
    if !call.is_error() && digits(args) != digits(old_args) {
        return None;
    }
    let similarity = similarity_of_change(args, old_args);
    (similarity >= trajectory.config().similarity.value()).then_some(similarity)
}

/// Whether what the agent waits for may not have arrived yet: the result says that something is still
/// running, or a query of a service found nothing after the agent had sent or changed something.
fn may_arrive(trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> bool {
    let is_query = call.found_nothing() && !call.is_shell() && call.target().is_none();
    call.is_pending()
        || (is_query && trajectory.calls_since_user_message().any(ToolInvoked::landed))
}

/// The loop pattern for a call that the agent keeps making between other calls, with the same
/// result and without a known change in between; `None` if `call` is no such call.
fn recurring_call(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
) -> Option<TrajectoryPattern> {
    // A result that says no more than "ok" tells nothing, so getting it again is not a loop. The
    // short output of a shell command, such as a number, does tell something.
    // Making the same change again, because something undoes it, is a loop, too.
    let is_change = call.writes() && !call.is_shell();
    let is_empty = call.is_bare() && !(call.is_shell() && call.result_bytes() > 0) && !is_change;
    // The agent still polls something whose result says that it has ended.
    let waits_for_nothing = call.polls() && call.says_ended();
    let is_wait = (call.waits() && !waits_for_nothing)
        || may_arrive(trajectory, call)
        || call.reports_outage()
        || trajectory.user_asked_to_repeat();
    if call.is_error() || is_empty || is_wait || call.is_idle() {
        return None;
    }
    // The same change on one page after the other is work through a list. If the agent only looks at
    // one or two things in between, it is one and the same change.
    let may_be_list = is_change && call.is_bare();
    let (mut first, mut others) = (call, Vec::new());
    let mut evidence = vec![call.ended_seq()];
    let (mut intervals_without_change, mut may_have_changed) = (0, false);
    for old in trajectory.earlier_distinct_calls() {
        if old.landed() || trajectory.is_compacted_away(old) {
            break;
        }
        if old.call_digest() == call.call_digest() {
            if !old.same_result(call) {
                break;
            }
            first = old;
            evidence.push(old.ended_seq());
            intervals_without_change += usize::from(!std::mem::take(&mut may_have_changed));
        } else {
            may_have_changed |= old.may_have_changed_something();
            if may_be_list
                && others.len() <= MAX_OTHERS_BETWEEN_EQUAL_CHANGES
                && !others.contains(&old.call_digest())
            {
                others.push(old.call_digest());
            }
        }
    }
    let (recurrences, unchanged) = if waits_for_nothing {
        (MIN_LOOKS_AT_WHAT_HAS_ENDED, MIN_LOOKS_AT_WHAT_HAS_ENDED - 1)
    } else if call.polls() {
        // Waiting is normal, unless nothing moves for a long time.
        if call.ended_at().since(first.ended_at()) < trajectory.stall_after() {
            return None;
        }
        (MIN_LOOKS_OF_A_LONG_WAIT, MIN_LOOKS_OF_A_LONG_WAIT - 1)
    } else {
        (MIN_RECURRENCES, MIN_INTERVALS_WITHOUT_CHANGE)
    };
    let is_list = others.len() > MAX_OTHERS_BETWEEN_EQUAL_CHANGES;
    if evidence.len() < recurrences || intervals_without_change < unchanged || is_list {
        return None;
    }
    let repetitions = u32::try_from(evidence.len()).unwrap_or(u32::MAX);
    let detail = PatternDetail::DoomLoop {
        cycle_length: 1,
        repetitions,
        cycle_actions: vec![call.safe_tool()],
        similarity: Confidence::clamped(1.0),
    };
    let confidence = Confidence::clamped(0.75);
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
    let evidence_calls = length_calls * EVIDENCE_ROUNDS.min(repetitions as usize);
    let evidence = distinct().take(evidence_calls).map(ToolInvoked::ended_seq);
    TrajectoryPattern::new(
        detail,
        Confidence::clamped(0.85 * similarity),
        cause_of(&round),
        repetitions,
        evidence,
    )
}

/// The cause of messages about a cycle: messages with the same cause form one series. The cause
/// does not depend on which call of the cycle comes first. If all failed calls in the cycle have
/// the same error, that error is the cause.
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
            let subject = match call.status().error() {
                Some(error) => error.digest,
                None if call.is_bare() => call.call_digest(),
                None => call.result_digest(),
            };
            Digest::of(call.tool().as_bytes()).with(subject)
        })
        .collect();
    calls.sort_unstable();
    let id = calls.into_iter().fold(Digest::default(), Digest::with);
    Cause::new("doom_loop", id)
}

#[cfg(test)]
mod tests;
