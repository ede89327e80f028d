//! The trait of feedback providers, and how a provider is added to a prompt.

use std::sync::Arc;

use super::{FeedbackContext, FeedbackTrigger};
use crate::fault::ProviderError;
use crate::message::Feedback;
use crate::session::ProviderId;

/// Decides after tool calls whether the agent should get feedback, and writes the feedback.
///
/// An implementation must depend on the context alone: no clock, no disk, no state of its own. A
/// replay of the run then gives the same feedback. If an implementation returns an error or panics,
/// it is skipped and reported, and the other providers still run.
pub trait FeedbackProvider: Send + Sync {
    /// Name of the provider in the heading of its feedback and in records. It must be unique among
    /// the feedback providers of a prompt.
    fn name(&self) -> &str;

    /// Whether there is something to report. Called only if the provider's trigger is due.
    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError>;

    /// Makes the feedback. Called only if [`Self::should_run`] returned true.
    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError>;

    /// Whether the feedback is about the run as a whole, such as its time or its budget. Such
    /// feedback is also given with a model request that has no tool result.
    fn is_about_run(&self) -> bool {
        false
    }
}

macro_rules! provide_through_a_pointer {
    ($($pointer:ident),*) => {$(
        impl<T: FeedbackProvider + ?Sized> FeedbackProvider for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
                (**self).should_run(context)
            }

            fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
                (**self).provide(context)
            }

            fn is_about_run(&self) -> bool {
                (**self).is_about_run()
            }
        }
    )*};
}

provide_through_a_pointer!(Box, Arc);

/// A feedback provider of a prompt, with the trigger that says when the provider is evaluated.
pub struct FeedbackProviderConfig {
    pub(crate) provider: Box<dyn FeedbackProvider>,
    pub(crate) id: ProviderId,
    pub(crate) trigger: FeedbackTrigger,
    pub(crate) is_observer: bool,
}

impl FeedbackProviderConfig {
    /// Evaluates `provider` whenever `trigger` is due.
    pub fn new(provider: impl FeedbackProvider + 'static, trigger: FeedbackTrigger) -> Self {
        let id = ProviderId::of(provider.name());
        Self { provider: Box::new(provider), id, trigger, is_observer: false }
    }

    /// Name of the provider in headings and records.
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// The provider itself, without its trigger.
    pub fn provider(&self) -> &dyn FeedbackProvider {
        &*self.provider
    }

    /// When the provider is evaluated.
    pub const fn trigger(&self) -> &FeedbackTrigger {
        &self.trigger
    }

    /// Whether the provider is an observer, added to the prompt with `with_observer`.
    pub const fn is_observer(&self) -> bool {
        self.is_observer
    }
}

impl AsRef<Self> for FeedbackProviderConfig {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl std::fmt::Debug for FeedbackProviderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FeedbackProviderConfig")
            .field("provider", &self.provider.name())
            .field("trigger", &self.trigger)
            .finish()
    }
}
