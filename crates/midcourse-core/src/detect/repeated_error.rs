//! Detects the same error over and over, whatever tools, arguments and edits come in between.
//!
//! The pattern ends when the failed call succeeds or fails with a different error, or when the
//! error has not occurred for a while. Edits that do not change the error do not end it. Errors in
//! one turn count once. An outage has its own detector.
//!
//! If every failure has a different text (another missing file, another wrong argument), the errors
//! are compared by their template (the text without the words of the call's arguments) or by their
//! kind (such as "not found"). The pattern then usually needs more failures.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, TurnCounter, min_different_calls, min_failures};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;
use crate::text::{ErrorSignature, FailureKind};

/// If the agent changed something in this many of the intervals between the failures, it is working
/// on the error.
const MIN_CHANGES_OF_AN_ATTEMPT: u32 = 2;

/// If a check fails, and the agent changed something in this many of the intervals between the
/// failures, the error is reported one failure later still.
const MIN_CHANGES_OF_WORK: u32 = 3;

/// If an error comes back this often after the same call failed with another error, changes in
/// between do not delay the report.
const MIN_RETURNS_OF_AN_ERROR: u32 = 2;

/// If different calls fail with the same error, or the agent works on the error, it is reported this
/// many failures later: the agent may be about to find what works.
const EXTRA_FAILURES_OF_ATTEMPTS: u32 = 1;

/// If this many of the failures are failures of one call, the user's list of objects to check does
/// not explain them.
const MIN_FAILURES_OF_ONE_CALL: u32 = 2;

/// If the agent pauses between its attempts, the error is reported this many failures later.
const EXTRA_FAILURES_WHEN_POLLING: u32 = 1;

/// Errors with the same template or kind, but different texts, are counted among this many of the
/// latest calls.
const CLASS_WINDOW_CALLS: usize = 10;

/// Timeouts of different calls are counted among this many of the latest calls.
const TIMEOUT_WINDOW_CALLS: usize = 14;

/// If the errors differ only in the name of an object, they are reported this many failures later:
/// guessing a name a few times is normal.
const EXTRA_FAILURES_OF_TEMPLATE: u32 = 1;

/// If one call fails at the same line with a different name each time, the agent may be guessing
/// names. The error is reported this many failures later than errors of different calls, because
/// the next name may be the right one.
const EXTRA_FAILURES_OF_GUESSES: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RepeatedError {
    reported: Option<ReportedError>,
}

/// The error that is currently reported, and the call that failed with it last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct ReportedError {
    cause: Digest,
    count: u32,
    call_digest: Digest,
    call_index: u64,
}

/// Failures that count as one repeated error.
struct Failures {
    cause: Cause,
    count: u32,
    /// Number of these failures that are failures of the latest call.
    of_this_call: u32,
    /// Number of intervals between the failures in which the agent changed something or, for errors
    /// with different texts, ran a command that only reads.
    changes: u32,
    evidence: Vec<u64>,
}

/// The cause of messages about this error. All detectors that report the error use the same cause,
/// so that the agent gets one series of messages and not one per detector.
pub(super) fn cause_of(error: ErrorSignature) -> Cause {
    Cause::new("repeated_error", error.digest)
}

impl PatternDetector for RepeatedError {
    fn name(&self) -> &str {
        "repeated_error"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            self.reset();
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        match call.status().error() {
            Some(error) if error.kind == FailureKind::Outage => Detection::Unchanged,
            Some(error) => self.failed(trajectory, call, error),
            None => self.succeeded(trajectory, call),
        }
    }

    fn reset(&mut self) {
        self.reported = None;
    }
}

impl RepeatedError {
    fn failed(
        &mut self,
        trajectory: &TrajectoryAnalysis,
        call: &ToolInvoked,
        error: ErrorSignature,
    ) -> Detection {
        let found = same_error(trajectory, call, error)
            .or_else(|| same_template(trajectory, call, error))
            .or_else(|| same_kind(trajectory, call, error.kind));
        let is_enough = |found: &Failures| {
            let is_one_call = found.of_this_call >= MIN_FAILURES_OF_ONE_CALL;
            let min_count = if is_one_call { min_failures } else { min_different_calls };
            found.count >= min_count(trajectory, MIN_FAILURES_OF_ONE_CALL)
        };
        let Some(Failures { cause, count, evidence, .. }) = found.filter(is_enough) else {
            let error_changed =
                self.reported.is_some_and(|reported| reported.call_digest == call.call_digest());
            return if error_changed || self.is_stale(trajectory, call) {
                self.reported = None;
                Detection::Absent
            } else {
                Detection::Unchanged
            };
        };
        // If two errors alternate, the reported error stays the reported one until the other error
        // has occurred more often.
        let is_other =
            |reported: ReportedError| reported.cause != cause.id() && reported.count >= count;
        if self.reported.is_some_and(is_other) && !self.is_stale(trajectory, call) {
            return Detection::Unchanged;
        }
        let (call_digest, call_index) = (call.call_digest(), call.call_index());
        self.reported = Some(ReportedError { cause: cause.id(), count, call_digest, call_index });
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::RepeatedError { signature: error, count, tool: call.safe_tool() },
            Confidence::clamped(0.9),
            cause,
            count,
            evidence,
        ))
    }

    /// Whether the reported error has not occurred within the last `error_window` calls.
    fn is_stale(&self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> bool {
        let window = u64::from(trajectory.config().error_window.get());
        self.reported
            .is_some_and(|reported| call.call_index().saturating_sub(reported.call_index) > window)
    }

    fn succeeded(&mut self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> Detection {
        let Some(reported) = self.reported else { return Detection::Unchanged };
        if reported.call_digest == call.call_digest() || self.is_stale(trajectory, call) {
            self.reported = None;
            return Detection::Absent;
        }
        Detection::Unchanged
    }
}

/// Calls that succeeded: the digest of each call, and its tool and target. Earlier failures of the
/// same call, or of the same tool on the same target, do not count. Neither do failures of a command
/// that succeeded with another number: an agent that tries numbers, as in a bisection, wants to see
/// which of them fail.
#[derive(Default)]
struct Solved {
    calls: Vec<(Digest, Option<(Digest, Digest)>)>,
    /// The arguments of the latest commands, without digits.
    args: Vec<Vec<u8>>,
}

fn without_digits(args: &str) -> Vec<u8> {
    args.bytes().filter(|byte| !byte.is_ascii_digit()).collect()
}

impl Solved {
    fn tool_and_target(call: &ToolInvoked) -> Option<(Digest, Digest)> {
        call.target().map(|target| (Digest::of(call.tool().as_bytes()), target))
    }

    fn add(&mut self, call: &ToolInvoked) {
        self.calls.push((call.call_digest(), Self::tool_and_target(call)));
        if let Some(args) =
            call.whole_args().filter(|args| args.bytes().any(|c| c.is_ascii_digit()))
        {
            self.args.push(without_digits(args));
        }
    }

    fn has(&self, call: &ToolInvoked) -> bool {
        let on_target = Self::tool_and_target(call);
        let is_this = |(call_digest, solved): &(Digest, Option<(Digest, Digest)>)| {
            *call_digest == call.call_digest() || (on_target.is_some() && *solved == on_target)
        };
        self.calls.iter().any(is_this)
            || call.whole_args().is_some_and(|args| {
                let args = without_digits(args);
                self.args.contains(&args)
            })
    }
}

/// The failures with this error since the latest user message; `None` if there are too few to
/// report. A failure of `call` itself counts however long ago it was, as long as the analysis keeps
/// it. A failure of another call counts only within the latest `error_window` calls.
fn same_error(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    error: ErrorSignature,
) -> Option<Failures> {
    let config = trajectory.config();
    let window = config.error_window.get() as usize;
    let (mut recent, mut of_this_call) = (0, 0);
    let (mut turns, mut changes, mut since_failure) = (TurnCounter::default(), 0, 0);
    let (mut solved, mut evidence) = (Solved::default(), Vec::new());
    let (mut returns, mut is_other_error) = (0, false);
    for (back, old) in trajectory.calls_since_user_message().enumerate() {
        match old.status().error() {
            Some(found) if found.is_same_as(&error) => {}
            Some(_) => {
                is_other_error |= old.call_digest() == call.call_digest();
                continue;
            }
            None => {
                solved.add(old);
                since_failure |=
                    u32::from(old.landed() || old.reverts() || old.may_have_changed_something());
                continue;
            }
        }
        let is_recent = back < window;
        let is_this_call = old.call_digest() == call.call_digest();
        if !(is_recent || is_this_call) || solved.has(old) {
            continue;
        }
        evidence.push(old.ended_seq());
        changes += std::mem::take(&mut since_failure);
        returns += u32::from(std::mem::take(&mut is_other_error));
        if turns.add(old) {
            recent += u32::from(is_recent);
            of_this_call += u32::from(is_this_call);
        }
    }
    // If an error keeps coming back after other errors of the same call, the fix for one error
    // causes the other. Such changes do not delay the report.
    let is_attempt = changes >= MIN_CHANGES_OF_AN_ATTEMPT && returns < MIN_RETURNS_OF_AN_ERROR;
    // An agent that runs a check after each of its changes may have to make several of them.
    let is_work = is_attempt && error.kind == FailureKind::Check && changes >= MIN_CHANGES_OF_WORK;
    let count = recent.max(of_this_call);
    // An agent that changes something between its attempts does not just wait.
    let is_poll = call.polls() && changes < MIN_CHANGES_OF_AN_ATTEMPT;
    let threshold =
        config.error_threshold.get() + if is_poll { EXTRA_FAILURES_WHEN_POLLING } else { 0 };
    let is_repeated = (of_this_call >= threshold && !is_attempt)
        || count >= threshold + EXTRA_FAILURES_OF_ATTEMPTS + u32::from(is_work);
    is_repeated.then(|| Failures { cause: cause_of(error), count, of_this_call, changes, evidence })
}

/// The failures with the template of this error (the same error about a different object each
/// time); `None` if there are too few to report.
fn same_template(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    error: ErrorSignature,
) -> Option<Failures> {
    let has_template =
        |old: &ToolInvoked| old.status().error().is_some_and(|old| old.template == error.template);
    let cause = Cause::new("repeated_error", error.template);
    let found = since_success(trajectory, call, has_template, cause.clone());
    // The failed calls must be different calls. If one call fails with a different text each time,
    // its error changes, which is progress.
    let failed = trajectory
        .calls_since_user_message()
        .take(CLASS_WINDOW_CALLS)
        .filter(|old| has_template(old));
    let mut different: Vec<Digest> = failed.map(ToolInvoked::call_digest).collect();
    different.sort_unstable();
    different.dedup();
    let threshold = trajectory.config().error_threshold.get() + EXTRA_FAILURES_OF_TEMPLATE;
    // If one call fails at the same line each time, and only the name in the error differs, the
    // agent is guessing names.
    let is_same_place = |old: &ToolInvoked| {
        let line = old.status().error().and_then(|old| old.line);
        line.is_some() && line == error.line && old.call_digest() == call.call_digest()
    };
    if error.line.is_some() {
        let is_guess = |old: &ToolInvoked| has_template(old) && is_same_place(old);
        let guesses = since_success(trajectory, call, is_guess, cause);
        if guesses.count >= threshold + EXTRA_FAILURES_OF_GUESSES {
            return Some(guesses);
        }
    }
    let threshold = threshold + u32::from(found.changes >= MIN_CHANGES_OF_AN_ATTEMPT);
    (found.count >= threshold && different.len() >= threshold as usize).then_some(found)
}

/// The failures of this kind, even if their texts differ; `None` if there are too few to report.
fn same_kind(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    kind: FailureKind,
) -> Option<Failures> {
    let extra = match kind {
        FailureKind::UnknownTool | FailureKind::BadArguments | FailureKind::Resource => 0,
        FailureKind::EditMismatch | FailureKind::Timeout => 1,
        // Looking for a file in a few places, or fixing a few typos, is normal: more failures are
        // needed.
        // A refusal by a person or a policy is a decision, unlike an address that is closed.
        FailureKind::Permission if call.is_denied() => 1,
        FailureKind::NotFound
        | FailureKind::Permission
        | FailureKind::MissingProgram
        | FailureKind::MissingPackage
        | FailureKind::UnknownName
        | FailureKind::Conflict
        | FailureKind::Syntax => 2,
        FailureKind::Outage | FailureKind::Check | FailureKind::Other => return None,
    };
    let threshold = trajectory.config().error_threshold.get() + extra;
    let cause = Cause::new("repeated_error", Digest::of(kind.as_str().as_bytes()));
    let matches = |old: &ToolInvoked| old.failure_kind() == Some(kind);
    let found = if kind == FailureKind::Timeout {
        timeouts(trajectory, call, cause)
    } else {
        since_success(trajectory, call, matches, cause)
    };
    let extra = u32::from(found.changes >= MIN_CHANGES_OF_AN_ATTEMPT);
    (found.count >= threshold + extra).then_some(found)
}

/// The timeouts among the latest calls. A timeout does not count if the same call, or the same tool
/// with the same target, succeeded later. Successes of other calls do not matter: they do not show
/// that the slow call has become faster.
fn timeouts(trajectory: &TrajectoryAnalysis, call: &ToolInvoked, cause: Cause) -> Failures {
    let (mut turns, mut evidence, mut solved) =
        (TurnCounter::default(), Vec::new(), Solved::default());
    let mut of_this_call = 0;
    for old in trajectory.calls_since_user_message().take(TIMEOUT_WINDOW_CALLS) {
        if !old.is_error() {
            solved.add(old);
        } else if old.failure_kind() == Some(FailureKind::Timeout)
            && !old.waits()
            && !solved.has(old)
        {
            evidence.push(old.ended_seq());
            turns.add(old);
            of_this_call += u32::from(old.call_digest() == call.call_digest());
        }
    }
    Failures { cause, count: turns.count(), of_this_call, changes: 0, evidence }
}

/// The failures that match, of any tool, since the tool of `call` last succeeded. Successes of
/// other tools do not matter.
fn since_success(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    matches: impl Fn(&ToolInvoked) -> bool,
    cause: Cause,
) -> Failures {
    let (mut turns, mut evidence) = (TurnCounter::default(), Vec::new());
    let (mut of_this_call, mut changes, mut since_failure) = (0, 0, 0);
    for old in trajectory.calls_since_user_message().take(CLASS_WINDOW_CALLS) {
        if matches(old) {
            evidence.push(old.ended_seq());
            of_this_call += u32::from(old.call_digest() == call.call_digest());
            changes += std::mem::take(&mut since_failure);
            turns.add(old);
        } else if !old.is_error() && old.tool() == call.tool() && !old.only_reads() {
            // This success ends the series of failures. A command that only reads, for instance a
            // log, would not show that the problem is solved.
            break;
        } else {
            since_failure |= u32::from(old.landed() || (old.only_reads() && !old.is_error()));
        }
    }
    Failures { cause, count: turns.count(), of_this_call, changes, evidence }
}

#[cfg(test)]
mod tests;
