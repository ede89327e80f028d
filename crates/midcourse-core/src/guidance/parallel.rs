//! Guidance to make independent calls in parallel, after several turns with a single read-only call
//! each. Off by default.

use std::num::NonZeroU32;

use crate::cause::Cause;
use crate::classifiers::{Classifier, SequentialWhenParallelClassifier};
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};
use crate::threshold::{InvalidThreshold, at_least_one};

/// Reminds the agent that it can make calls in parallel. The agent gets the reminder once per run,
/// because a text is not delivered twice about the same cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParallelToolReminder {
    classifier: SequentialWhenParallelClassifier,
}

impl ParallelToolReminder {
    /// Applies after this many consecutive turns with one call each, if these calls only read.
    pub fn new(sequential_threshold: u32) -> Result<Self, InvalidThreshold> {
        Ok(Self::default().with_sequential_threshold(at_least_one(sequential_threshold)?))
    }

    /// Sets how many consecutive turns with one call each it takes for the provider to apply; by
    /// default three.
    #[must_use]
    pub const fn with_sequential_threshold(mut self, turns: NonZeroU32) -> Self {
        self.classifier = SequentialWhenParallelClassifier { turns };
        self
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
