//! Text with a length limit.
//!
//! The constructor checks the length, so code that holds a [`Text`] never checks it again.

use serde::{Deserialize, Serialize};

/// A text of 1 to `MAX` characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// The text, 1 to `MAX` characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> TryFrom<String> for Text<MAX> {
    type Error = InvalidText;

    fn try_from(text: String) -> Result<Self, InvalidText> {
        let chars = text.chars().count();
        if (1..=MAX).contains(&chars) {
            Ok(Self(text))
        } else {
            Err(InvalidText { chars, max: MAX })
        }
    }
}

impl<const MAX: usize> TryFrom<&str> for Text<MAX> {
    type Error = InvalidText;

    fn try_from(text: &str) -> Result<Self, InvalidText> {
        text.to_owned().try_into()
    }
}

impl<const MAX: usize> From<Text<MAX>> for String {
    fn from(text: Text<MAX>) -> Self {
        text.0
    }
}

impl<const MAX: usize> std::fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for a text that is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("text has {chars} characters; use 1 to {max}")]
pub struct InvalidText {
    /// Length of the rejected text, in characters.
    pub chars: usize,
    /// Longest allowed text, in characters.
    pub max: usize,
}
