//! Classifiers: whether guidance applies, as a small pure question to the context.
//!
//! Each looks at the analysis and answers in well under a microsecond; they are asked at every
//! decision. Built from parameters that are checked where they are made, and from one another
//! with [`all_of`], [`any_of`], [`not`] and [`threshold`].

mod built_in;
mod compose;

pub use built_in::{
    DoomLoopClassifier, ErrorStreakClassifier, HighToolCountClassifier, LargeOutputClassifier,
    ProgressStallClassifier, SensitiveContentClassifier, SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
};
pub use compose::{AllOf, AnyOf, Not, Threshold, all_of, any_of, not, threshold};

use crate::fault::ProviderError;
use crate::message::ClassificationResult;
use crate::prompt::GuidanceContext;

/// Decides whether guidance applies.
///
/// An implementation depends on the context alone: no clock, no disk, no state of its own.
pub trait Classifier: Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// Whether guidance applies now.
    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError>;
}

impl<T: Classifier + ?Sized> Classifier for Box<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError> {
        (**self).classify(context)
    }
}
