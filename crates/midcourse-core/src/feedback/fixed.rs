//! Feedback with a fixed text, such as a reminder after every ten calls or when a file appears.

use crate::fault::ProviderError;
use crate::message::Feedback;
use crate::prompt::{FeedbackContext, FeedbackProvider};
use crate::text::{InvalidText, Text};

/// Gives the agent the same text whenever the provider's trigger is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFeedback {
    name: String,
    text: Text<500>,
}

impl StaticFeedback {
    /// A provider with this name and a text of 1 to 500 characters.
    pub fn new(name: &str, text: &str) -> Result<Self, InvalidText> {
        Ok(Self { name: name.to_owned(), text: text.try_into()? })
    }
}

impl FeedbackProvider for StaticFeedback {
    fn name(&self) -> &str {
        &self.name
    }

    fn should_run(&self, _: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        Ok(true)
    }

    fn provide(&self, _: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        Ok(Feedback::new(&self.name, self.text.as_str()))
    }
}
