//! Sees the same error again and again, whatever tools, arguments and edits come in between.
//!
//! Only the error moving, or the failed question succeeding, ends it: edits that never move the
//! error are not progress. Errors of one round count once. An outage is left to its own detector.
//!
//! Where each failure is worded anew (another missing file, another wrong argument), the class of
//! the error is what stays the same; it takes more of those.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector, Rounds};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;
use crate::text::{ErrorClass, ErrorSignature};

/// Changes that landed between the failures without moving the error: so many are an attempt that
/// is under way, and one more failure is waited for.
const CHANGES_UNDER_WAY: usize = 2;

/// A refusal asked again, or a second time-out of this length, needs no third.
const COSTLY: u32 = 2;
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// Failures more that whoever pauses between two tries may have.
const PATIENT: u32 = 2;

/// Calls within which failures of one class count together.
const CLASS_WINDOW: usize = 10;

/// Failures more that it takes where the same error is about ever another thing: a name may be
/// guessed.
const SAME_FORM: u32 = 1;

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RepeatedError {
    held: Option<Held>,
}

/// The error that is believed in, and the question it was last the answer to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Held {
    cause: Digest,
    count: u32,
    call_digest: Digest,
    call: u64,
}

/// Failures that count together.
struct Failures {
    cause: Cause,
    count: u32,
    evidence: Vec<u64>,
}

/// What a repeated error is about: the same whoever notices it.
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
            Some(error) if error.class == ErrorClass::Outage => Detection::Unchanged,
            Some(error) => self.failed(trajectory, call, error),
            None => self.succeeded(trajectory, call),
        }
    }

    fn reset(&mut self) {
        self.held = None;
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
            .or_else(|| same_form(trajectory, call, error))
            .or_else(|| same_class(trajectory, call, error.class));
        let Some(Failures { cause, count, evidence }) = found else {
            let moved = self.held.is_some_and(|held| held.call_digest == call.call_digest());
            return if moved || self.is_stale(trajectory, call) {
                self.held = None;
                Detection::Absent
            } else {
                Detection::Unchanged
            };
        };
        // Of two errors that take turns, the one believed in first is the one to speak of.
        let is_rival = |held: Held| held.cause != cause.id() && held.count >= count;
        if self.held.is_some_and(is_rival) && !self.is_stale(trajectory, call) {
            return Detection::Unchanged;
        }
        let (call_digest, number) = (call.call_digest(), call.call_index());
        self.held = Some(Held { cause: cause.id(), count, call_digest, call: number });
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::RepeatedError { signature: error, count, tool: call.safe_tool() },
            Confidence::clamped(0.85),
            cause,
            count,
            evidence,
        ))
    }

    /// Whether the error has not come for as many calls as are looked at.
    fn is_stale(&self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> bool {
        let window = u64::from(trajectory.config().error_window.get());
        self.held.is_some_and(|held| call.call_index().saturating_sub(held.call) > window)
    }

    fn succeeded(&mut self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> Detection {
        let Some(held) = self.held else { return Detection::Unchanged };
        if held.call_digest == call.call_digest() || self.is_stale(trajectory, call) {
            self.held = None;
            return Detection::Absent;
        }
        Detection::Unchanged
    }
}

/// What has succeeded since, so that its earlier failures are another story.
#[derive(Default)]
struct Solved(Vec<(Digest, Option<(Digest, Digest)>)>);

impl Solved {
    /// The same tool at the same place.
    fn place(call: &ToolInvoked) -> Option<(Digest, Digest)> {
        call.target().map(|target| (Digest::of(call.tool().as_bytes()), target))
    }

    fn add(&mut self, call: &ToolInvoked) {
        self.0.push((call.call_digest(), Self::place(call)));
    }

    fn has(&self, call: &ToolInvoked) -> bool {
        let place = Self::place(call);
        let is_it = |(question, solved): &(Digest, Option<(Digest, Digest)>)| {
            *question == call.call_digest() || (place.is_some() && *solved == place)
        };
        self.0.iter().any(is_it)
    }
}

/// The same error: lately, whatever was tried, or for long, as the answer to one question.
fn same_error(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    error: ErrorSignature,
) -> Option<Failures> {
    let config = trajectory.config();
    let window = config.error_window.get() as usize;
    let (mut lately, mut of_question, mut costly) = (0, 0, 0);
    let (mut rounds, mut changes, mut since_failure) = (Rounds::default(), 0, 0);
    let (mut solved, mut evidence) = (Solved::default(), Vec::new());
    for (back, old) in trajectory.calls_since_user_message().enumerate() {
        match old.status().error() {
            Some(found) if found.is_same_as(&error) => {}
            Some(_) => continue,
            None => {
                solved.add(old);
                since_failure |= usize::from(old.landed());
                continue;
            }
        }
        let is_lately = back < window;
        let is_question = old.call_digest() == call.call_digest();
        if !(is_lately || is_question) || solved.has(old) {
            continue;
        }
        evidence.push(old.ended_seq());
        changes += std::mem::take(&mut since_failure);
        if rounds.add(old) {
            lately += u32::from(is_lately);
            of_question += u32::from(is_question);
            costly += u32::from(is_question && is_costly(trajectory, old, error.class));
        }
    }
    // An attempt that is under way, and a wait between two tries, are given more room.
    let more = u32::from(changes >= CHANGES_UNDER_WAY) + if call.polls() { PATIENT } else { 0 };
    let count = lately.max(of_question);
    let holds = count >= config.error_threshold.get() + more || costly >= COSTLY;
    holds.then(|| Failures { cause: cause_of(error), count, evidence })
}

/// Whether one more of a failure is too much: a person's refusal, or a long wait for nothing.
fn is_costly(trajectory: &TrajectoryAnalysis, call: &ToolInvoked, class: ErrorClass) -> bool {
    let waited = || {
        // Not every host says when a call began; it was after the one before.
        let before = trajectory.calls().rev().find(|old| old.call_index() < call.call_index());
        let began = before.map_or(call.started_at(), ToolInvoked::ended_at);
        call.took().max(call.ended_at().since(began)) >= LONG_TIMEOUT
    };
    call.is_denied() || (class == ErrorClass::Timeout && waited())
}

/// The same error about another thing each time.
fn same_form(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    error: ErrorSignature,
) -> Option<Failures> {
    let is_of_form =
        |old: &ToolInvoked| old.status().error().is_some_and(|old| old.template == error.template);
    let cause = Cause::new("repeated_error", error.template);
    let found = in_a_row(trajectory, call, is_of_form, cause);
    // Another error as the answer to the same question is one that moved.
    let such =
        trajectory.calls_since_user_message().take(CLASS_WINDOW).filter(|old| is_of_form(old));
    let mut ways: Vec<Digest> = such.map(ToolInvoked::call_digest).collect();
    ways.sort_unstable();
    ways.dedup();
    let threshold = trajectory.config().error_threshold.get() + SAME_FORM;
    (found.count >= threshold && ways.len() >= threshold as usize).then_some(found)
}

/// Failures of one class in other words each.
fn same_class(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    class: ErrorClass,
) -> Option<Failures> {
    let more = match class {
        ErrorClass::UnknownTool | ErrorClass::BadArguments | ErrorClass::Resource => 0,
        ErrorClass::Permission => 1,
        // One looks for a file in a few places, and fixes a few typing errors.
        ErrorClass::NotFound | ErrorClass::Syntax | ErrorClass::Timeout => 2,
        ErrorClass::Outage | ErrorClass::Check | ErrorClass::Other => return None,
    };
    let threshold = trajectory.config().error_threshold.get() + more;
    let cause = Cause::new("repeated_error", Digest::of(class.label().as_bytes()));
    let found = in_a_row(trajectory, call, |old| old.error_class() == Some(class), cause);
    (found.count >= threshold).then_some(found)
}

/// Failures of a kind since the tool last succeeded; other tools may have done something else.
fn in_a_row(
    trajectory: &TrajectoryAnalysis,
    call: &ToolInvoked,
    is_such: impl Fn(&ToolInvoked) -> bool,
    cause: Cause,
) -> Failures {
    let (mut rounds, mut evidence) = (Rounds::default(), Vec::new());
    for old in trajectory.calls_since_user_message().take(CLASS_WINDOW) {
        if is_such(old) {
            evidence.push(old.ended_seq());
            rounds.add(old);
        } else if !old.is_error() && old.tool() == call.tool() {
            break;
        }
    }
    Failures { cause, count: rounds.count(), evidence }
}

pub(super) fn message_text(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::RepeatedError { signature, count, .. } = detail else { return None };
    let class = signature.class;
    match (rung.0, class) {
        (1, ErrorClass::Permission) => Some(format!(
            "The same refusal came {count} times. It is a decision, not a glitch. There may be a way \
             that does not need this permission; if not, what is needed can be noted while other \
             work goes on."
        )),
        (1, ErrorClass::UnknownTool | ErrorClass::BadArguments) => Some(format!(
            "The same {} error came {count} times. The tool's own description says which names \
             and arguments it takes.",
            class.label()
        )),
        (1, ErrorClass::Timeout) => Some(format!(
            "The same time-out came {count} times. A smaller piece of the work, or running it in \
             the background, may fit into the limit."
        )),
        (1, ErrorClass::NotFound) => Some(format!(
            "{count} not-found errors of the same kind. A look at what is there (a listing, a \
             search one level up) tells more than the next guess at a name."
        )),
        (1, _) => Some(format!(
            "The same {} error came {count} times; what was tried in between did not move it. The \
             cause may be somewhere else: the full error text, read from its first line, is the \
             best lead.",
            class.label()
        )),
        (2, _) => Some(format!(
            "{count} attempts, one unchanged error. A minimal case that shows it, or undoing the \
             last changes to see whether they matter at all, would narrow it down."
        )),
        (3, _) => Some(
            "This error has outlasted every attempt. What is known, what was ruled out and what \
             blocks, written down, gives a fresh view; it can stay the open point while other work \
             goes on."
                .to_owned(),
        ),
        // Nobody is told the same twice: the count differs each time.
        (4.., _) => Some(format!(
            "{count} times by now, still unmoved. What is known about this error can be handed over \
             as it stands; another attempt of the same kind will not add to it."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    #[test]
    fn different_attempts_with_edits_in_between() {
        check(
            r#"
            bash make          !! error: undefined reference to main
            edit {"path":"a.c","old":"1","new":"2"} -> ok
            bash make all      !! error: undefined reference to main
            edit {"path":"b.c","old":"3","new":"4"} -> ok
            bash cc -o a a.c   !! error: undefined reference to main
            edit {"path":"b.c","old":"5","new":"6"} -> ok
            bash make          !! error: undefined reference to main
            "#,
            &["call 7: repeated_error of class tool, 4 times"],
        );
    }

    #[test]
    fn different_attempts_with_nothing_changed() {
        check(
            "
            bash make          !! error: undefined reference to main
            read a.c           -> int mian() and so on
            bash make all      !! error: undefined reference to main
            bash cc -o a a.c   !! error: undefined reference to main
            ",
            &["call 4: repeated_error of class tool, 3 times"],
        );
    }

    #[test]
    fn the_same_error_about_ever_another_thing() {
        let guess = |name: &str| {
            format!("read {name} !! ENOENT: no such file or directory, open '{name}'\n")
        };
        let guesses: String = ["HOWTO.md", "guide.md", "docs.md", "intro.md"].map(guess).concat();
        check(&guesses, &["call 4: repeated_error of class not-found, 4 times"]);
    }

    #[test]
    fn a_refusal_asked_again() {
        check(
            "
            read notes.txt -> some notes about the release
            bash git push xx the user said no
            bash git push xx the user said no
            ",
            &["call 3: repeated_error of class permission, 2 times"],
        );
    }

    #[test]
    fn each_target_cured_before_the_next() {
        let target = |name: &str| {
            format!(
                "bash lint {name} !! error: version is required\n\
                 edit {{\"path\":\"{name}\",\"old\":\"a\",\"new\":\"{name}\"}} -> ok\n\
                 bash lint {name} -> all of it is fine now\n"
            )
        };
        check(&["a", "b", "c", "d", "e"].map(target).concat(), &[]);
    }

    #[test]
    fn tries_with_growing_pauses() {
        check(
            "
            bash sync !! error: the mirror is busy
            +10s bash sync !! error: the mirror is busy
            +40s bash sync !! error: the mirror is busy
            +2m bash sync -> synced 1204 objects
            ",
            &["call 4: waiting for 2 polls"],
        );
    }

    #[test]
    fn an_error_that_moves_is_progress() {
        check(
            r#"
            bash make          !! error: 12 errors
            edit {"path":"a.c","old":"1","new":"2"} -> ok
            bash make          !! error: 9 errors
            edit {"path":"a.c","old":"2","new":"3"} -> ok
            bash make          !! error: 7 errors
            edit {"path":"a.c","old":"3","new":"4"} -> ok
            bash make          !! error: 2 errors
            "#,
            &[],
        );
    }

    #[test]
    fn failing_together_is_failing_once() {
        check(
            "
            read /a !! EACCES: permission denied
            & read /b !! EACCES: permission denied
            & read /c !! EACCES: permission denied
            ",
            &[],
        );
    }

    #[test]
    fn it_is_over_when_the_question_succeeds() {
        check(
            "
            bash make !! error: x
            bash make -> built everything from scratch
            bash make !! error: x
            bash make -> built everything from scratch
            bash make !! error: x
            ",
            &[],
        );
    }
}
