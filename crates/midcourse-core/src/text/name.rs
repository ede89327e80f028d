//! Names that may appear in what we say.
//!
//! Tool and file names come from the agent's world, which an attacker may write to. What is said
//! to an agent holds them only in this form: plain characters, and not many of them.

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The longest name that is said, in characters.
pub const SAFE_NAME_MAX: usize = 80;

/// A name of `[A-Za-z0-9._/-]`, 1 to [`SAFE_NAME_MAX`] characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>")]
pub struct SafeName(CompactString);

impl SafeName {
    /// The plain characters of `name`; of a long one the end, which tells files apart.
    ///
    /// A name without any plain character becomes `-`.
    pub fn of(name: &str) -> Self {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-');
        if (1..=SAFE_NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
            return Self(name.into());
        }
        let plain = |c: &char| u8::try_from(*c).is_ok_and(is_plain);
        let count = name.chars().filter(plain).count();
        let skipped = count.saturating_sub(SAFE_NAME_MAX);
        let mut safe: CompactString = name.chars().filter(plain).skip(skipped).collect();
        if safe.is_empty() {
            safe.push('-');
        }
        Self(safe)
    }

    /// The name as text.
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
    fn only_plain_characters_are_left() {
        assert_eq!(SafeName::of("a b\n[x](y)\u{202e}<z>").as_str(), "abxyz");
        assert_eq!(SafeName::of("\u{1f600}").as_str(), "-");
        let long = format!("{}src/main.rs", "deep/".repeat(40));
        assert_eq!(SafeName::of(&long).as_str().len(), SAFE_NAME_MAX);
        assert!(SafeName::of(&long).as_str().ends_with("deep/src/main.rs"));
    }
}
