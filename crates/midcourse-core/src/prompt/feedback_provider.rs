//! What a feedback provider is, and how it is put on a prompt.

use super::{FeedbackContext, FeedbackTrigger};
use crate::fault::ProviderError;
use crate::message::Feedback;
use crate::session::ProviderId;

/// Has something to say after tool calls.
///
/// An implementation depends on the context alone: no clock, no disk, no state of its own. It may
/// fail or panic; then it is skipped and reported, and the others still speak.
pub trait FeedbackProvider: Send + Sync {
    /// What it is called in what it says.
    fn name(&self) -> &str;

    /// Whether it has something to say, once its trigger is due.
    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError>;

    /// What it has to say.
    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError>;
}

/// A provider and when to ask it.
pub struct FeedbackProviderConfig {
    pub(crate) provider: Box<dyn FeedbackProvider>,
    pub(crate) id: ProviderId,
    pub(crate) trigger: FeedbackTrigger,
    pub(crate) is_observer: bool,
}

impl FeedbackProviderConfig {
    /// Asks `provider` whenever `trigger` is due.
    pub fn new(provider: impl FeedbackProvider + 'static, trigger: FeedbackTrigger) -> Self {
        let id = ProviderId::of(provider.name());
        Self { provider: Box::new(provider), id, trigger, is_observer: false }
    }

    /// What the provider is called.
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// When it is asked.
    pub const fn trigger(&self) -> &FeedbackTrigger {
        &self.trigger
    }

    /// Whether it was declared through the observer names.
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
