//! Text with a length limit.
//!
//! [`Text`] rejects a string that is empty or too long; [`CutText`] accepts every string and cuts a
//! long one. Every value of these types is within its limit, so other code never checks the length
//! again.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A text of 1 to `MAX` characters. Use `try_from` to make one from a string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// The text as a string, never empty.
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

/// A text of at most `MAX` characters. A longer string is cut so that it has `MAX` characters
/// including the `…` at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>")]
pub(crate) struct CutText<const MAX: usize>(String);

impl<const MAX: usize> CutText<MAX> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> From<Cow<'_, str>> for CutText<MAX> {
    fn from(text: Cow<'_, str>) -> Self {
        // The byte offsets of character number `MAX` and of the one after it. If the second exists,
        // the text is too long, and `…` takes the place of character number `MAX` and all after it.
        let mut ends = text.char_indices().skip(MAX.saturating_sub(1)).map(|(at, _)| at);
        match (ends.next(), ends.next()) {
            (Some(end), Some(_)) => {
                let mut cut = text.get(..end).unwrap_or_default().to_owned();
                cut.push('…');
                Self(cut)
            }
            _ => Self(text.into_owned()),
        }
    }
}

impl<const MAX: usize> From<String> for CutText<MAX> {
    fn from(text: String) -> Self {
        Cow::<str>::Owned(text).into()
    }
}

impl<const MAX: usize> From<&str> for CutText<MAX> {
    fn from(text: &str) -> Self {
        Cow::Borrowed(text).into()
    }
}

impl<const MAX: usize> std::fmt::Display for CutText<MAX> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_and_ends_in_an_ellipsis() {
        let cut = |text: &str| CutText::<4>::from(text).as_str().to_owned();
        assert_eq!(cut(""), "");
        assert_eq!(cut("üüüü"), "üüüü");
        assert_eq!(cut("üüüüü"), "üüü…");
        assert_eq!(cut("abcdefgh"), "abc…");
    }
}
