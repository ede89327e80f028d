//! Feedback about a run that makes no progress: loops, changes back and forth, and calls that bring
//! nothing new.

use crate::analysis::{PatternDetail, TrajectoryPattern};
use crate::fault::ProviderError;
use crate::message::{Feedback, Observation, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider};

/// Reports a run that makes no progress: the patterns `doom_loop`, `write_thrash`, `no_effect`,
/// `stagnation`, `progress_stall` and `churn`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallDetector;

/// The first present pattern that shows a lack of progress and about which the agent may get a
/// message now: not too soon after the latest message, and only with new evidence. The text of the
/// message is not known here, so `is_new_text` gets an empty text and checks only the evidence.
fn reportable_stall<'a>(context: &FeedbackContext<'a>) -> Option<&'a TrajectoryPattern> {
    context.trajectory().patterns().iter().find(|pattern| {
        matches!(
            pattern.detail(),
            PatternDetail::DoomLoop { .. }
                | PatternDetail::WriteThrash { .. }
                | PatternDetail::NoEffect { .. }
                | PatternDetail::Stagnation { .. }
                | PatternDetail::ProgressStall { .. }
                | PatternDetail::Churn { .. }
        ) && context.may_deliver(pattern.cause())
            && context.session().ledger().is_new_text(&context.why(pattern), "")
    })
}

impl FeedbackProvider for StallDetector {
    fn name(&self) -> &str {
        "StallDetector"
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        Ok(reportable_stall(context).is_some())
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let pattern = reportable_stall(context).ok_or("no stall")?;
        let why = context.why(pattern);
        let (category, description) = match pattern.detail() {
            PatternDetail::DoomLoop { cycle_length: 1, repetitions, .. } => {
                ("Repetition", format!("the same call {repetitions} times, with the same result"))
            }
            PatternDetail::DoomLoop { cycle_length, repetitions, .. } => (
                "Repetition",
                format!("the same {cycle_length} calls {repetitions} times, with the same results"),
            ),
            PatternDetail::WriteThrash { returns, .. } => {
                ("Thrashing", format!("a file returned to an earlier state {returns} times"))
            }
            PatternDetail::NoEffect { changes, alternates: true } => {
                ("Stagnation", format!("the same check went back and forth over {changes} changes"))
            }
            PatternDetail::NoEffect { changes, .. } => (
                "Stagnation",
                format!("the same check gave the same result after {changes} changes"),
            ),
            PatternDetail::Stagnation { calls, .. } => {
                ("Stagnation", format!("{calls} different calls returned the same result"))
            }
            _ => ("Stall", "no change took effect and no result was new".to_owned()),
        };
        let suggestion = match why.rung.0 {
            1 => "Consider a different approach to the current step.",
            2 => "Consider listing what you tried and what each attempt showed.",
            _ => {
                "Consider noting this as an open point and continuing with another part of the task."
            }
        };
        let summary = match context.trajectory().calls_since_progress() {
            0 | 1 => "You may be making no progress.".to_owned(),
            calls => format!("You have made {calls} tool calls without visible progress."),
        };
        Ok(Feedback::new(self.name(), summary)
            .with_observation(Observation::new(category, description))
            .with_suggestion(suggestion)
            .with_severity(Severity::Caution)
            .about(why))
    }
}
