//! Classifiers: small pure functions that decide whether guidance applies.
//!
//! A guidance provider may use them to implement [`classify`](crate::GuidanceProvider::classify).
//! Each looks at the analysis and takes well under a microsecond, because it runs at every decision
//! point. [`all_of`], [`any_of`], [`not`] and [`threshold`] combine them.

mod built_in;
mod compose;

pub use built_in::{
    DoomLoopClassifier, ErrorStreakClassifier, HighToolCountClassifier, LargeOutputClassifier,
    ProgressStallClassifier, SensitiveContentClassifier, SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
};
pub use compose::{AllOf, AnyOf, Not, Threshold, all_of, any_of, not, threshold};

use std::sync::Arc;

use crate::fault::ProviderError;
use crate::message::ClassificationResult;
use crate::prompt::GuidanceContext;

/// Decides whether guidance applies.
///
/// An implementation depends on the context alone: no clock, no disk, no state of its own.
pub trait Classifier: Send + Sync {
    /// The classifier's name in reports.
    fn name(&self) -> &str;

    /// Whether guidance applies now.
    fn classify(
        &self,
        context: &GuidanceContext<'_>,
    ) -> Result<ClassificationResult, ProviderError>;
}

macro_rules! classify_through_a_pointer {
    ($($pointer:ident),*) => {$(
        impl<T: Classifier + ?Sized> Classifier for $pointer<T> {
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
    )*};
}

classify_through_a_pointer!(Box, Arc);
