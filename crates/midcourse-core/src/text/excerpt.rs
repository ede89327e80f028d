//! The beginning of a text: what a kept call remembers of arguments and results.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The most that is kept of one text, in bytes.
pub const EXCERPT_MAX_BYTES: usize = 256;

/// The first bytes of a text, at most [`EXCERPT_MAX_BYTES`] of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CompactString")]
pub struct Excerpt(CompactString);

impl Excerpt {
    /// The beginning of `text`, cut between two characters.
    pub fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(EXCERPT_MAX_BYTES);
        Self(CompactString::from(text.get(..end).unwrap_or_default()))
    }

    /// Whether the text may have gone on.
    pub fn is_cut(&self) -> bool {
        self.0.len() > EXCERPT_MAX_BYTES - 4
    }

    /// The excerpt as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<CompactString> for Excerpt {
    fn from(text: CompactString) -> Self {
        Self::of(&text)
    }
}
