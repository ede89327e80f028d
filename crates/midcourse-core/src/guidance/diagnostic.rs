//! Guidance to look at consecutive errors before continuing.

use std::num::NonZeroU32;

use crate::cause::Cause;
use crate::classifiers::{Classifier, ErrorStreakClassifier};
use crate::detect::error_cause;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};
use crate::text::SafeName;
use crate::threshold::{InvalidThreshold, at_least_one};
use crate::why::Why;

/// A tool that a message suggests. A tool that the user configured is always suggested. The default
/// tool is suggested only if this run has used it, because the agent may not have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolMention {
    name: SafeName,
    is_configured: bool,
}

impl ToolMention {
    pub(super) fn if_used(name: &str) -> Self {
        Self { name: SafeName::of(name), is_configured: false }
    }

    pub(super) fn configured(name: &str) -> Self {
        Self { name: SafeName::of(name), is_configured: true }
    }

    pub(super) fn get(&self, context: &GuidanceContext<'_>) -> Option<&SafeName> {
        let exists = self.is_configured || context.trajectory().has_seen_tool(self.name.as_str());
        exists.then_some(&self.name)
    }
}

/// The number of consecutive failures, and the reason for a message about them. The cause in it is
/// an outage if the latest failure reports one, or else the error that all failures have in common,
/// or `error_cascade` if their errors differ.
pub(super) fn error_streak(context: &GuidanceContext<'_>) -> (u64, Why) {
    let trajectory = context.trajectory();
    let failures = trajectory.consecutive_failures();
    let cause = error_cause(trajectory).unwrap_or_else(|| Cause::only("error_cascade"));
    let count = usize::try_from(failures).unwrap_or(usize::MAX);
    (failures, context.session().why_of(cause, trajectory.recent_errors(count)))
}

/// Tells the agent to look at consecutive errors before it continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagnosticSignalProvider {
    streak: ErrorStreakClassifier,
    log_tool: ToolMention,
}

impl Default for DiagnosticSignalProvider {
    /// Applies from three consecutive errors on. The message suggests the tool `view_logs` if the
    /// run has used that tool, and names no tool otherwise.
    fn default() -> Self {
        Self {
            streak: ErrorStreakClassifier::default(),
            log_tool: ToolMention::if_used("view_logs"),
        }
    }
}

impl DiagnosticSignalProvider {
    /// Applies from this many consecutive errors on.
    pub fn new(error_threshold: u32) -> Result<Self, InvalidThreshold> {
        Ok(Self::default().with_error_threshold(at_least_one(error_threshold)?))
    }

    /// Sets how many consecutive errors it takes for the provider to apply; by default three.
    #[must_use]
    pub const fn with_error_threshold(mut self, errors: NonZeroU32) -> Self {
        self.streak = ErrorStreakClassifier { errors };
        self
    }

    /// Sets the tool that the message suggests, whether or not the run has used it.
    #[must_use]
    pub fn with_log_tool_name(mut self, name: &str) -> Self {
        self.log_tool = ToolMention::configured(name);
        self
    }
}

impl GuidanceProvider for DiagnosticSignalProvider {
    fn name(&self) -> &str {
        "diagnostic_signal"
    }

    fn category(&self) -> &str {
        "diagnostic"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        self.streak.classify(context)
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let (errors, why) = error_streak(context);
        let text = match (why.rung.0, self.log_tool.get(context)) {
            (1, Some(tool)) => format!(
                "Found {errors} new console errors. Use the {tool} tool to examine before \
                 continuing."
            ),
            (1, None) => {
                format!("Found {errors} new console errors. Examine them before continuing.")
            }
            // The agent may have got the first message about these errors from another provider,
            // with another text, so this text does not refer to an earlier message.
            _ => format!(
                "Your last {errors} tool calls failed. Compare the first of these errors with the \
                 latest one to see whether anything has changed."
            ),
        };
        Ok(GuidanceInjection::new("diagnostic.errors", text)?.about(why))
    }
}
