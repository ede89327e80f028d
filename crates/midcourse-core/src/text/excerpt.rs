//! The beginning of a text, kept to compare calls with each other. The text comes from tools and
//! files, and may contain instructions of an attacker, so an excerpt never goes into a message.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The longest excerpt, in bytes.
pub const MAX_EXCERPT_BYTES: usize = 256;

/// The beginning of a text, at most [`MAX_EXCERPT_BYTES`] long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CompactString")]
pub struct Excerpt(CompactString);

impl Excerpt {
    /// Takes the beginning of `text`, cut at a character boundary.
    pub fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(MAX_EXCERPT_BYTES);
        Self(CompactString::from(text.get(..end).unwrap_or_default()))
    }

    /// Whether the original text may have been longer than the excerpt. A text is cut between two
    /// characters, so a cut excerpt can be up to three bytes shorter than `MAX_EXCERPT_BYTES`.
    pub fn is_cut(&self) -> bool {
        self.0.len() > MAX_EXCERPT_BYTES - 4
    }

    /// The excerpt as a string. It is untrusted: never put it in a message.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<CompactString> for Excerpt {
    fn from(text: CompactString) -> Self {
        Self::of(&text)
    }
}
