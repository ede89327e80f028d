//! Feedback on work far from where the run began.

use crate::analysis::{PatternDetail, PatternType};
use crate::fault::ProviderError;
use crate::message::{Feedback, Severity};
use crate::prompt::{FeedbackContext, FeedbackProvider};

/// Speaks when the run works in other places than it began in. It needs an analysis that watches
/// for drift ([`watch_drift`](crate::TrajectoryAnalysisConfig::watch_drift)).
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
        let PatternDetail::Drift { calls } = pattern.detail() else {
            return Err("no drift".into());
        };
        let summary =
            format!("The last {calls} calls on files were in places this run did not begin in.");
        Ok(Feedback::new(self.name(), summary)?
            .suggest("Check these files against the original request.")?
            .severity(Severity::Caution)
            .about(context.why(pattern)))
    }
}
