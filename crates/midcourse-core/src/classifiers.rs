//! Classifiers: small pure functions that look at a run and decide whether the agent should get a
//! certain piece of guidance now.
//!
//! A guidance provider may use classifiers to implement
//! [`classify`](crate::GuidanceProvider::classify), which may be called several times per turn.
//! A classifier therefore has to be fast; each built-in one takes well under a microsecond.
//! [`all_of`], [`any_of`], [`not`] and [`threshold`] combine classifiers.

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
/// The result must depend on the context alone: an implementation reads no clock and no file, and
/// has no state that changes.
pub trait Classifier: Send + Sync {
    /// A short name such as `error_streak`, for callers that list or log classifiers.
    fn name(&self) -> &str;

    /// Whether guidance applies now, and how sure the classifier is. An error is reported, and the
    /// guidance is left out.
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
