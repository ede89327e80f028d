//! Names that are safe to put in a message.
//!
//! An attacker may choose the names of tools and files. A message contains them only as a
//! [`SafeName`]: a short string of plain ASCII characters.

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The longest safe name, in characters.
pub const MAX_SAFE_NAME_CHARS: usize = 80;

/// A name of `[A-Za-z0-9._/-]`, 1 to [`MAX_SAFE_NAME_CHARS`] characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>")]
pub struct SafeName(CompactString);

impl SafeName {
    /// Keeps the plain characters of `name`; of a long name the last ones, which tell files apart.
    ///
    /// A name without plain characters becomes `-`.
    pub fn of(name: &str) -> Self {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-');
        if (1..=MAX_SAFE_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_plain) {
            return Self(name.into());
        }
        let plain = |c: &char| u8::try_from(*c).is_ok_and(is_plain);
        let count = name.chars().filter(plain).count();
        let skipped = count.saturating_sub(MAX_SAFE_NAME_CHARS);
        let mut safe: CompactString = name.chars().filter(plain).skip(skipped).collect();
        if safe.is_empty() {
            safe.push('-');
        }
        Self(safe)
    }

    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Cow<'_, str>> for SafeName {
    fn from(name: Cow<'_, str>) -> Self {
        Self::of(&name)
    }
}

impl std::fmt::Display for SafeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_safe_name_keeps_plain_characters_and_the_end_of_a_long_name() {
        assert_eq!(SafeName::of("a b\n[x](y)\u{202e}<z>").as_str(), "abxyz");
        assert_eq!(SafeName::of("\u{1f600}").as_str(), "-");
        let long = format!("{}src/main.rs", "deep/".repeat(40));
        assert_eq!(SafeName::of(&long).as_str().len(), MAX_SAFE_NAME_CHARS);
        assert!(SafeName::of(&long).as_str().ends_with("deep/src/main.rs"));
    }
}
