//! Feedback on standing still: circles, flip-flops, and calls that bring nothing new.

use crate::analysis::{PatternDetail, TrajectoryPattern};
use crate::fault::ProviderError;
use crate::message::{Feedback, Observation, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider};

/// Speaks when the run stands still.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallDetector;

/// The pattern there is something to say about now.
fn stalled<'a>(context: &FeedbackContext<'a>) -> Option<&'a TrajectoryPattern> {
    context.trajectory().patterns().iter().find(|pattern| {
        matches!(
            pattern.detail(),
            PatternDetail::DoomLoop { .. }
                | PatternDetail::WriteThrash { .. }
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
        Ok(stalled(context).is_some())
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let pattern = stalled(context).ok_or("nothing stands still")?;
        let why = context.why(pattern);
        let (category, seen) = match pattern.detail() {
            PatternDetail::DoomLoop { cycle_length: 1, repetitions, .. } => {
                ("Repetition", format!("one call, {repetitions} times, with the same answer"))
            }
            PatternDetail::DoomLoop { cycle_length, repetitions, .. } => {
                ("Repetition", format!("{cycle_length} steps, {repetitions} times, same answers"))
            }
            PatternDetail::WriteThrash { returns, .. } => {
                ("Thrashing", format!("a file returned to an earlier state {returns} times"))
            }
            PatternDetail::Stagnation { calls, .. } => {
                ("Stagnation", format!("{calls} different questions got one answer"))
            }
            _ => ("Stall", "no change landed and no answer was new".to_owned()),
        };
        let suggestion = match why.rung.0 {
            1 => "Consider a different approach to the current step.",
            2 => "Consider listing what was tried and what each try showed.",
            _ => "Consider going on with another part of the task and noting this one as open.",
        };
        let since = context.trajectory().calls_since_progress();
        let summary = match since {
            0 | 1 => "You may be standing still.".to_owned(),
            calls => format!("You have made {calls} tool calls without visible progress."),
        };
        Ok(Feedback::new(self.name(), summary)?
            .observe(Observation::new(category, seen)?)?
            .suggest(suggestion)?
            .severity(Severity::Caution)
            .about(why))
    }
}
