//! Speaks when attempts keep failing: ask somebody else.

use std::num::NonZeroU32;

use super::diagnostic::{ToolMention, streak};
use crate::classify::{Classifier, ErrorStreakClassifier};
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};

/// Suggests a fresh perspective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsultationPromptProvider {
    streak: ErrorStreakClassifier,
    consultation_tool: ToolMention,
}

impl Default for ConsultationPromptProvider {
    /// Speaks at five failures; names `request_review` if this run has used it.
    fn default() -> Self {
        Self {
            streak: ErrorStreakClassifier { errors: NonZeroU32::MIN.saturating_add(4) },
            consultation_tool: ToolMention::usual("request_review"),
        }
    }
}

impl ConsultationPromptProvider {
    /// Speaks at this many failures in a row.
    pub fn new(failure_threshold: NonZeroU32) -> Self {
        Self { streak: ErrorStreakClassifier { errors: failure_threshold }, ..Self::default() }
    }

    /// The same, naming a tool that consults somebody.
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
        let (_, why) = streak(context);
        let text = match self.consultation_tool.get(context) {
            Some(tool) => format!(
                "Multiple attempts unsuccessful. Consider using {tool} to get fresh perspective \
                 from specialized agent."
            ),
            None => {
                "Multiple attempts unsuccessful. Consider describing the problem from scratch, \
                     as if to somebody who has not seen it."
                    .to_owned()
            }
        };
        // Where an earlier word did not help, a fresh view is the better form of the next one.
        let priority = GuidanceInjection::DEFAULT_PRIORITY - if why.rung.0 > 1 { 10 } else { 0 };
        Ok(GuidanceInjection::new("consultation.fresh-view", text)?.priority(priority).about(why))
    }
}
