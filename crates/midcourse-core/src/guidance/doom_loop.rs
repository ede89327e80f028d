//! Guidance to try something else when a sequence of calls keeps repeating.

use std::num::NonZeroU32;

use crate::classifiers::{Classifier, DoomLoopClassifier};
use crate::confidence::Confidence;
use crate::detect::MAX_CYCLE_LEN;
use crate::fault::ProviderError;
use crate::message::{ClassificationResult, GuidanceInjection};
use crate::prompt::{GuidanceContext, GuidanceProvider};
use crate::threshold::{InvalidThreshold, at_least_one};

/// Reports loops: a sequence of calls that is repeated with the same results.
#[derive(Debug, Clone, PartialEq)]
pub struct DoomLoopDetector {
    /// Decides which loops are reported, by their length, repetitions and similarity.
    pub classifier: DoomLoopClassifier,
}

impl Default for DoomLoopDetector {
    /// Reports a sequence of two to five calls that the agent made at least three times, with a
    /// similarity of at least 0.85.
    fn default() -> Self {
        let three = NonZeroU32::MIN.saturating_add(2);
        Self {
            classifier: DoomLoopClassifier {
                repetitions: three,
                longest_cycle: three.saturating_add(2),
                similarity: Confidence::clamped(0.85),
                ..DoomLoopClassifier::default()
            },
        }
    }
}

impl DoomLoopDetector {
    /// Reports a sequence of at most `window_size` calls that the agent made at least
    /// `max_repetitions` times, if the repetitions have at least this similarity.
    ///
    /// `max_repetitions` takes effect even if it is lower than
    /// [`cycle_threshold`](crate::TrajectoryAnalysisConfig::cycle_threshold) of the analysis. A
    /// `similarity_threshold` that is lower than
    /// [`similarity`](crate::TrajectoryAnalysisConfig::similarity) of the analysis has no effect:
    /// the analysis does not count calls that are less alike as a repetition.
    pub fn new(
        similarity_threshold: f64,
        window_size: u32,
        max_repetitions: u32,
    ) -> Result<Self, InvalidThreshold> {
        Self::default()
            .with_similarity_threshold(similarity_threshold)?
            .with_window_size(window_size)?
            .with_max_repetitions(max_repetitions)
    }

    /// Sets how alike repetitions have to be, from 0 to 1.
    pub fn with_similarity_threshold(mut self, similarity: f64) -> Result<Self, InvalidThreshold> {
        self.classifier.similarity = similarity.try_into()?;
        Ok(self)
    }

    /// Sets the length of the longest sequence, 1 to [`MAX_CYCLE_LEN`] calls; by default five. If
    /// the configured length of the shortest sequence is greater, it is lowered to the same number.
    pub fn with_window_size(mut self, calls: u32) -> Result<Self, InvalidThreshold> {
        self.classifier.longest_cycle = cycle_len(calls)?;
        let classifier = &mut self.classifier;
        classifier.shortest_cycle = classifier.shortest_cycle.min(classifier.longest_cycle);
        Ok(self)
    }

    /// Sets how often the agent must have made a sequence until it is reported; by default three
    /// times.
    pub fn with_max_repetitions(mut self, repetitions: u32) -> Result<Self, InvalidThreshold> {
        self.classifier.repetitions = at_least_one(repetitions)?;
        Ok(self)
    }

    /// Sets the length of the shortest sequence, 1 to [`MAX_CYCLE_LEN`] calls; by default two.
    pub fn with_shortest_cycle(mut self, calls: u32) -> Result<Self, InvalidThreshold> {
        self.classifier.shortest_cycle = cycle_len(calls)?;
        Ok(self)
    }
}

fn cycle_len(calls: u32) -> Result<NonZeroU32, InvalidThreshold> {
    if calls as usize > MAX_CYCLE_LEN {
        return Err(InvalidThreshold::CycleTooLong { calls, max: MAX_CYCLE_LEN });
    }
    at_least_one(calls)
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
        let (pattern, ..) = self.classifier.find(context).ok_or("no loop")?;
        let why = context.why(&pattern);
        // The agent may have got the first message about this loop from another provider, with
        // another text, so later texts do not refer to an earlier message.
        let text = match why.rung.0 {
            1 => {
                "Detected repeated unsuccessful pattern. Consider a different approach or consult \
                 the planning tool to reassess strategy."
            }
            2 => {
                "You keep making the same calls with the same results. List what you tried, what \
                 each attempt showed, and what you have not checked yet."
            }
            _ => {
                "The same calls have returned the same results for a while. Consider noting this \
                 as an open point and continuing with the rest of the task."
            }
        };
        Ok(GuidanceInjection::new("doom-loop.repeated", text)?.about(why))
    }
}
