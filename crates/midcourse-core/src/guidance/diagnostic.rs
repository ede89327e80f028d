//! Speaks at errors in a row: look at them before going on.

use std::num::NonZeroU32;

use crate::cause::{Cause, Why};
use crate::classify::{Classifier, ErrorStreakClassifier};
use crate::detect::error_cause;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};
use crate::text::SafeName;

/// A tool to name: always if the user named it, else only if this run has used it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolMention {
    name: SafeName,
    is_configured: bool,
}

impl ToolMention {
    pub(super) fn usual(name: &str) -> Self {
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

/// How many failures there are in a row, and why one would speak of them: they are all one error,
/// or the streak as such is the trouble.
pub(super) fn streak(context: &GuidanceContext<'_>) -> (u64, Why) {
    let trajectory = context.trajectory();
    let failures = trajectory.consecutive_failures();
    let cause = error_cause(trajectory).unwrap_or_else(|| Cause::only("error_cascade"));
    let shown = usize::try_from(failures).unwrap_or(usize::MAX);
    (failures, context.session().why_of(cause, trajectory.recent_errors(shown)))
}

/// Points at errors in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagnosticSignalProvider {
    streak: ErrorStreakClassifier,
    log_tool: ToolMention,
}

impl Default for DiagnosticSignalProvider {
    /// Speaks at three errors; names `view_logs` if this run has used it.
    fn default() -> Self {
        Self { streak: ErrorStreakClassifier::default(), log_tool: ToolMention::usual("view_logs") }
    }
}

impl DiagnosticSignalProvider {
    /// Speaks at this many errors in a row.
    pub fn new(error_threshold: NonZeroU32) -> Self {
        Self { streak: ErrorStreakClassifier { errors: error_threshold }, ..Self::default() }
    }

    /// The same, naming a tool that shows errors.
    #[must_use]
    pub fn with_log_tool(mut self, name: &str) -> Self {
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
        let (errors, why) = streak(context);
        let text = match (why.rung.0, self.log_tool.get(context)) {
            (1, Some(tool)) => format!(
                "Found {errors} new console errors. Use the {tool} tool to examine before \
                 continuing."
            ),
            (1, None) => {
                format!("Found {errors} new console errors. Examine them before continuing.")
            }
            (rung, _) => format!(
                "{errors} errors in a row now, pointed out {} times before. Comparing the first \
                 with the latest shows whether anything has moved.",
                rung - 1
            ),
        };
        Ok(GuidanceInjection::new("diagnostic.errors", text)?.about(why))
    }
}
