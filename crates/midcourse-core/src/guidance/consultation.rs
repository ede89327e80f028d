//! Guidance to get a fresh perspective after repeated failures.

use std::num::NonZeroU32;

use super::diagnostic::{ToolMention, error_streak};
use crate::classifiers::{Classifier, ErrorStreakClassifier};
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};
use crate::threshold::{InvalidThreshold, at_least_one};

/// Suggests a fresh perspective after repeated failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsultationPromptProvider {
    streak: ErrorStreakClassifier,
    consultation_tool: ToolMention,
}

impl Default for ConsultationPromptProvider {
    /// Applies from five consecutive failures on. The message suggests the tool `request_review` if
    /// the run has used that tool, and names no tool otherwise.
    fn default() -> Self {
        Self {
            streak: ErrorStreakClassifier { errors: NonZeroU32::MIN.saturating_add(4) },
            consultation_tool: ToolMention::if_used("request_review"),
        }
    }
}

impl ConsultationPromptProvider {
    /// Applies from this many consecutive failures on.
    pub fn new(failure_threshold: u32) -> Result<Self, InvalidThreshold> {
        Ok(Self::default().with_failure_threshold(at_least_one(failure_threshold)?))
    }

    /// Sets how many consecutive failures it takes for the provider to apply; by default five.
    #[must_use]
    pub const fn with_failure_threshold(mut self, failures: NonZeroU32) -> Self {
        self.streak = ErrorStreakClassifier { errors: failures };
        self
    }

    /// Sets the tool that the message suggests, whether or not the run has used it.
    #[must_use]
    pub fn with_consultation_tool(mut self, name: &str) -> Self {
        self.consultation_tool = ToolMention::configured(name);
        self
    }
}

impl GuidanceProvider for ConsultationPromptProvider {
    fn name(&self) -> &str {
        "consultation_prompt"
    }

    fn category(&self) -> &str {
        "consultation"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        self.streak.classify(context)
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let (_, why) = error_streak(context);
        let text = match self.consultation_tool.get(context) {
            Some(tool) => format!(
                "Multiple attempts unsuccessful. Consider using {tool} to get fresh perspective \
                 from specialized agent."
            ),
            None => {
                "Multiple attempts unsuccessful. Consider describing the problem from scratch, as \
                 if to someone who has not seen it."
                    .to_owned()
            }
        };
        // If an earlier message about the same errors did not help, this guidance comes before
        // other guidance: a lower number means a higher priority.
        let priority = GuidanceInjection::DEFAULT_PRIORITY - if why.rung.0 > 1 { 10 } else { 0 };
        Ok(GuidanceInjection::new("consultation.fresh-view", text)?
            .with_priority(priority)
            .about(why))
    }
}
