//! Feedback on failures in a row.

use std::num::NonZeroU32;

use crate::cause::Cause;
use crate::detect::error_cause;
use crate::fault::ProviderError;
use crate::message::{Feedback, Observation, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider, InvalidTrigger};

/// Speaks when calls fail one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCascadeDetector {
    failures: NonZeroU32,
}

impl Default for ErrorCascadeDetector {
    /// Speaks at three failures in a row.
    fn default() -> Self {
        Self { failures: NonZeroU32::MIN.saturating_add(2) }
    }
}

impl ErrorCascadeDetector {
    /// Speaks at this many failures in a row.
    pub fn new(failures: u32) -> Result<Self, InvalidTrigger> {
        Ok(Self { failures: NonZeroU32::new(failures).ok_or(InvalidTrigger::ZeroCalls)? })
    }
}

/// What failures in a row are about: their common error, or the cascade as such.
fn cause_of(context: &FeedbackContext<'_>) -> Cause {
    error_cause(context.trajectory()).unwrap_or_else(|| Cause::only("error_cascade"))
}

impl FeedbackProvider for ErrorCascadeDetector {
    fn name(&self) -> &str {
        "ErrorCascadeDetector"
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        let failures = context.trajectory().consecutive_failures();
        Ok(failures >= u64::from(self.failures.get()) && context.may_deliver(&cause_of(context)))
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let failures = context.trajectory().consecutive_failures();
        let why = context.session().why_of(
            cause_of(context),
            context.trajectory().recent_errors(usize::try_from(failures).unwrap_or(16)),
        );
        let class = context.trajectory().latest_call().and_then(|call| call.error_class());
        let suggestion = match why.rung.0 {
            1 => "Read the latest error in full before the next attempt.",
            2 => "Consider going back to the last state that worked.",
            _ => "Consider asking for help, or noting this as an open point.",
        };
        let mut feedback =
            Feedback::new(self.name(), format!("The last {failures} tool calls failed."))?;
        if let Some(class) = class {
            let seen = format!("the latest is a {} error", class.label());
            feedback = feedback.observe(Observation::new("Errors", seen)?)?;
        }
        Ok(feedback.suggest(suggestion)?.severity(Severity::Caution).about(why))
    }
}
