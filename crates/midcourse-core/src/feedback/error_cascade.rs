//! Feedback about consecutive failures.

use std::num::NonZeroU32;

use crate::cause::Cause;
use crate::detect::error_cause;
use crate::fault::ProviderError;
use crate::message::{Feedback, Observation, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider};
use crate::threshold::{InvalidThreshold, at_least_one};

/// Reports calls that fail one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCascadeDetector {
    failures: NonZeroU32,
}

impl Default for ErrorCascadeDetector {
    /// Reports three or more consecutive failures.
    fn default() -> Self {
        Self { failures: NonZeroU32::MIN.saturating_add(2) }
    }
}

impl ErrorCascadeDetector {
    /// Reports this many or more consecutive failures.
    pub fn new(failures: u32) -> Result<Self, InvalidThreshold> {
        Ok(Self { failures: at_least_one(failures)? })
    }
}

/// The cause (what a message is about) of messages about consecutive failures: an outage if the
/// latest failure reports one, or else their common error, or `error_cascade` if the errors differ.
fn cascade_cause(context: &FeedbackContext<'_>) -> Cause {
    error_cause(context.trajectory()).unwrap_or_else(|| Cause::only("error_cascade"))
}

impl FeedbackProvider for ErrorCascadeDetector {
    fn name(&self) -> &str {
        "ErrorCascadeDetector"
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        let failures = context.trajectory().consecutive_failures();
        Ok(failures >= u64::from(self.failures.get())
            && context.may_deliver(&cascade_cause(context)))
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let failures = context.trajectory().consecutive_failures();
        let why = context.session().why_of(
            cascade_cause(context),
            context.trajectory().recent_errors(usize::try_from(failures).unwrap_or(16)),
        );
        let class = context.trajectory().latest_call().and_then(|call| call.failure_kind());
        let suggestion = match why.rung.0 {
            1 => "Read the latest error in full before the next attempt.",
            2 => "Consider going back to the last state that worked.",
            _ => "Consider asking for help, or noting this as an open point.",
        };
        let mut feedback =
            Feedback::new(self.name(), format!("The last {failures} tool calls failed."));
        if let Some(class) = class {
            let description = format!("the latest is a {} error", class.as_str());
            feedback = feedback.with_observation(Observation::new("Errors", description));
        }
        Ok(feedback.with_suggestion(suggestion).with_severity(Severity::Caution).about(why))
    }
}
