//! Speaks at a cycle that keeps repeating: try something else.

use std::num::NonZeroU32;

use crate::analysis::PatternType;
use crate::classify::{Classifier, DoomLoopClassifier};
use crate::confidence::Confidence;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};

/// Points at circles.
#[derive(Debug, Clone, PartialEq)]
pub struct DoomLoopDetector {
    /// Which cycles it points at.
    pub classifier: DoomLoopClassifier,
}

impl Default for DoomLoopDetector {
    /// Rounds at least 0.85 alike, of up to five calls, three times.
    fn default() -> Self {
        let three = NonZeroU32::MIN.saturating_add(2);
        Self::new(Confidence::clamped(0.85), three.saturating_add(2), three)
    }
}

impl DoomLoopDetector {
    /// Speaks at `max_repetitions` rounds of up to `window_size` calls that are alike enough.
    ///
    /// It sees what the analysis sees: rounds less alike, fewer or shorter than the analysis is
    /// configured for are not there to speak of.
    pub fn new(
        similarity_threshold: Confidence,
        window_size: NonZeroU32,
        max_repetitions: NonZeroU32,
    ) -> Self {
        Self {
            classifier: DoomLoopClassifier {
                repetitions: max_repetitions,
                longest: window_size,
                similarity: similarity_threshold,
                ..DoomLoopClassifier::default()
            },
        }
    }

    /// The same, for cycles of at least this many calls.
    #[must_use]
    pub const fn with_shortest_cycle(mut self, calls: NonZeroU32) -> Self {
        self.classifier.shortest = calls;
        self
    }
}

impl GuidanceProvider for DoomLoopDetector {
    fn name(&self) -> &str {
        "doom_loop_detector"
    }

    fn category(&self) -> &str {
        "doom_loop"
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        self.classifier.classify(context)
    }

    fn provide(&self, context: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        let pattern = context.trajectory().pattern(&PatternType::DoomLoop).ok_or("no loop")?;
        let why = context.why(pattern);
        let text = match why.rung.0 {
            1 => {
                "Detected repeated unsuccessful pattern. Consider a different approach or consult \
                 the planning tool to reassess strategy."
            }
            2 => {
                "The pattern still repeats. Consider listing what was tried, what each try showed, \
                 and what has not been checked yet."
            }
            _ => {
                "The pattern has not changed. Consider leaving it as an open point and going on \
                 with the rest of the task."
            }
        };
        Ok(GuidanceInjection::new("doom-loop.repeated", text)?.about(why))
    }
}
