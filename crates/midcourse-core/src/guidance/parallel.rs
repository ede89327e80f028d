//! Speaks when single looks follow one another: they could be taken at once. Off unless asked for.

use std::num::NonZeroU32;

use crate::cause::Cause;
use crate::classify::{Classifier, SequentialWhenParallelClassifier};
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};

/// Reminds of parallel calls, once a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParallelToolReminder {
    classifier: SequentialWhenParallelClassifier,
}

impl ParallelToolReminder {
    /// Speaks at this many turns with one call each.
    pub const fn new(sequential_threshold: NonZeroU32) -> Self {
        Self { classifier: SequentialWhenParallelClassifier { turns: sequential_threshold } }
    }
}

impl GuidanceProvider for ParallelToolReminder {
    fn name(&self) -> &str {
        "parallel_tool_reminder"
    }

    fn category(&self) -> &str {
        "efficiency"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        self.classifier.classify(context)
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let turns = self.classifier.turns.get() as usize;
        let evidence = context.trajectory().recent_tool_calls(turns).rev();
        let why = context.session().why_of(Cause::only("sequential_calls"), evidence);
        let text = "Multiple independent operations detected. Consider executing tools in parallel \
                    for efficiency.";
        Ok(GuidanceInjection::new("efficiency.parallel", text)?.about(why))
    }
}
