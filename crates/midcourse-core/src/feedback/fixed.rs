//! A fixed text: the thing to say when a file appears, or every so often.

use crate::fault::ProviderError;
use crate::message::{Feedback, InvalidFeedback};
use crate::prompt::{FeedbackContext, FeedbackProvider};
use crate::text::Text;

/// Says one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFeedback {
    name: String,
    text: Text<500>,
}

impl StaticFeedback {
    /// Says `text`, of 1 to 500 characters, under a name.
    pub fn new(name: &str, text: &str) -> Result<Self, InvalidFeedback> {
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
        Ok(Feedback::new(&self.name, self.text.as_str())?)
    }
}
