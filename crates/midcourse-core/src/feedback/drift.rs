//! Feedback about work on files outside the directories in which the run started.

use crate::analysis::{PatternDetail, PatternType};
use crate::fault::ProviderError;
use crate::message::{Feedback, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider};

/// Reports work on files outside the directories in which the run started. It has an effect only if
/// the analysis is configured to detect such work
/// ([`watch_drift`](crate::TrajectoryAnalysisConfig::watch_drift)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriftDetector;

impl FeedbackProvider for DriftDetector {
    fn name(&self) -> &str {
        "DriftDetector"
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        let pattern = context.trajectory().pattern(&PatternType::Drift);
        Ok(pattern.is_some_and(|pattern| context.may_deliver(pattern.cause())))
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let pattern = context.trajectory().pattern(&PatternType::Drift).ok_or("no drift")?;
        let PatternDetail::Drift { calls, is_forbidden } = pattern.detail() else {
            return Err("no drift".into());
        };
        let summary = if *is_forbidden {
            format!("You changed {calls} different things, and the user asked for nothing else.")
        } else {
            format!(
                "Your last {calls} calls on files were in directories that this run did not start \
                 in."
            )
        };
        Ok(Feedback::new(self.name(), summary)
            .with_suggestion("Check whether these files belong to the original request.")
            .with_severity(Severity::Caution)
            .about(context.why(pattern)))
    }
}
