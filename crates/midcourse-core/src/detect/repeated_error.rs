//! Sees the same error again and again, whatever tools, arguments and edits come in between.
//!
//! Only the error moving, or the failed question succeeding, ends it: edits that never move the
//! error are not progress. Errors of one round count once. An outage is left to its own detector.

use serde::{Deserialize, Serialize};

use super::{Belief, PatternDetector};
use crate::analysis::{PatternDetail, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern};
use crate::cause::{Cause, Rung};
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;
use crate::text::{ErrorClass, ErrorSignature};

/// The detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RepeatedError {
    held: Option<Held>,
}

/// The error that is believed in, and the question it was last the answer to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Held {
    error: Digest,
    count: u32,
    question: Digest,
    call: u64,
}

/// What a repeated error is about: the same whoever notices it.
pub(super) fn cause_of(error: ErrorSignature) -> Cause {
    Cause::new("repeated_error", error.digest)
}

impl PatternDetector for RepeatedError {
    fn name(&self) -> &str {
        "repeated_error"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Belief {
        if trajectory.person_just_spoke() {
            self.reset();
            return Belief::Gone;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Belief::Unchanged };
        match call.status().error() {
            Some(error) if error.class == ErrorClass::Outage => Belief::Unchanged,
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
    ) -> Belief {
        let config = trajectory.config();
        let window = config.error_window.get() as usize;
        let (mut count, mut turn) = (0, None);
        let mut evidence = Vec::new();
        for old in trajectory.calls_since_spoken_to().take(window) {
            if old.status().error().is_some_and(|old| old.digest == error.digest) {
                evidence.push(old.ended_seq());
                if turn.replace(old.turn()) != Some(old.turn()) {
                    count += 1;
                }
            } else if old.question() == call.question() && !old.is_error() {
                // It has worked in between: what came before is another story.
                break;
            }
        }
        if count < config.error_threshold.get() {
            let moved = self
                .held
                .is_some_and(|held| held.error != error.digest && held.question == call.question());
            return if moved || self.is_stale(trajectory, call) {
                self.held = None;
                Belief::Gone
            } else {
                Belief::Unchanged
            };
        }
        // Of two errors that take turns, the one believed in first is the one to speak of.
        let is_rival = |held: Held| held.error != error.digest && held.count >= count;
        if self.held.is_some_and(is_rival) && !self.is_stale(trajectory, call) {
            return Belief::Unchanged;
        }
        let (question, number) = (call.question(), call.call_index());
        self.held = Some(Held { error: error.digest, count, question, call: number });
        Belief::Holds(TrajectoryPattern::new(
            PatternDetail::RepeatedError { signature: error, count, tool: call.safe_tool() },
            Confidence::clamped(0.85),
            cause_of(error),
            count,
            evidence,
        ))
    }

    /// Whether the error has not come for as many calls as are looked at.
    fn is_stale(&self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> bool {
        let window = u64::from(trajectory.config().error_window.get());
        self.held.is_some_and(|held| call.call_index().saturating_sub(held.call) > window)
    }

    fn succeeded(&mut self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> Belief {
        let Some(held) = self.held else { return Belief::Unchanged };
        if held.question == call.question() || self.is_stale(trajectory, call) {
            self.held = None;
            return Belief::Gone;
        }
        Belief::Unchanged
    }
}

pub(super) fn words(detail: &PatternDetail, rung: Rung) -> Option<String> {
    let PatternDetail::RepeatedError { signature, count, .. } = detail else { return None };
    let class = signature.class;
    match (rung.0, class) {
        (1, ErrorClass::Permission) => Some(format!(
            "The same refusal came {count} times. It is a decision, not a glitch: look for a way \
             that does not need this permission, or note what is needed and go on elsewhere."
        )),
        (1, ErrorClass::UnknownTool | ErrorClass::BadArguments) => Some(format!(
            "The same {} error came {count} times. The tool's own description says which names \
             and arguments it takes.",
            class.words()
        )),
        (1, ErrorClass::Timeout) => Some(format!(
            "The same time-out came {count} times. A smaller piece of the work, or running it in \
             the background, may fit into the limit."
        )),
        (1, _) => Some(format!(
            "The same {} error came {count} times, and the changes in between did not move it. The \
             cause may be somewhere else: the full error text, read from its first line, is the \
             best lead.",
            class.words()
        )),
        (2, _) => Some(format!(
            "{count} attempts, one unchanged error. A minimal case that shows it, or undoing the \
             last changes to see whether they matter at all, would narrow it down."
        )),
        (3, _) => Some(
            "This error has outlasted every attempt. A fresh view helps: state what is known, what \
             was ruled out and what blocks, and leave it as the open point if other work remains."
                .to_owned(),
        ),
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
            "#,
            &["call 5: repeated_error of class tool, 3 times"],
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
