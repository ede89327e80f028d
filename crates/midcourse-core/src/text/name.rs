//! Names that are safe to put in a message.
//!
//! An attacker may choose the names of tools and files. A message contains them only as a
//! [`SafeName`]: a short string of plain ASCII characters. The developer chooses the names of
//! providers; a [`ProviderName`] keeps them as given, except for characters that could change how
//! the message around them reads.

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The longest `SafeName`, in characters.
pub const MAX_SAFE_NAME_CHARS: usize = 80;

/// A name that is safe in messages: 1 to [`MAX_SAFE_NAME_CHARS`] characters of `[A-Za-z0-9._/-]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>")]
pub struct SafeName(CompactString);

impl SafeName {
    /// Removes all characters that are not allowed. If the rest is too long, keeps its end, because
    /// the end of a path tells files apart.
    ///
    /// A name without any allowed character becomes `-`.
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

    /// The name as a string, never empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name with this many words reads like a sentence.
const SENTENCE_WORDS: usize = 7;

/// Words with which somebody would address an agent. With one of them, three words are a sentence.
const ADDRESSING_WORDS: [&str; 18] = [
    "ignore",
    "disregard",
    "forget",
    "override",
    "previous",
    "instruction",
    "instructions",
    "notice",
    "important",
    "urgent",
    "must",
    "should",
    "please",
    "execute",
    "you",
    "your",
    "assistant",
    "obey",
];

pub(super) fn reads_like_a_sentence(name: &str) -> bool {
    let mut words = 0;
    let mut addresses = false;
    for part in name.split(|c: char| !c.is_ascii_alphabetic()) {
        for word in camel_case_words(part).filter(|word| word.len() > 1) {
            words += 1;
            addresses |= ADDRESSING_WORDS.iter().any(|other| word.eq_ignore_ascii_case(other));
        }
    }
    words >= SENTENCE_WORDS || (addresses && words >= 3)
}

/// The words of a name such as `readFileNow`. A word of capitals only is one word.
fn camel_case_words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let end = rest.char_indices().zip(rest.chars().skip(1)).find_map(|((at, c), next)| {
            (c.is_ascii_lowercase() && next.is_ascii_uppercase()).then_some(at + 1)
        });
        let (word, others) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        rest = others;
        (!word.is_empty()).then_some(word)
    })
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

/// The longest name of a provider, in characters.
pub const MAX_PROVIDER_NAME_CHARS: usize = 80;

/// The name of a provider, 1 to [`MAX_PROVIDER_NAME_CHARS`] characters.
///
/// Letters of any script, digits, single spaces and most punctuation are kept. Control characters,
/// invisible characters, characters that change the writing direction, and square or angle brackets
/// are left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>")]
pub struct ProviderName(CompactString);

impl ProviderName {
    /// Removes brackets, control characters and invisible characters, and makes every whitespace a
    /// single space. If the rest is too long, keeps its beginning.
    ///
    /// If nothing is left, the name becomes `-`.
    pub fn of(name: &str) -> Self {
        let mut kept = CompactString::default();
        let mut chars = 0;
        for c in name.chars().map(|c| if c.is_whitespace() { ' ' } else { c }) {
            let is_second_space = c == ' ' && (kept.is_empty() || kept.ends_with(' '));
            if chars < MAX_PROVIDER_NAME_CHARS && is_harmless(c) && !is_second_space {
                kept.push(c);
                chars += 1;
            }
        }
        kept.truncate(kept.trim_end().len());
        if kept.is_empty() {
            kept.push('-');
        }
        Self(kept)
    }

    /// The name as a string, never empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a character cannot change how the heading of a message reads. Brackets could end the
/// heading; control characters and invisible characters could hide or reorder its text.
fn is_harmless(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}'
    );
    !is_invisible && !c.is_control() && !matches!(c, '[' | ']' | '<' | '>')
}

impl From<Cow<'_, str>> for ProviderName {
    fn from(name: Cow<'_, str>) -> Self {
        Self::of(&name)
    }
}

impl std::fmt::Display for ProviderName {
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

    #[test]
    fn the_name_of_a_provider_is_kept_as_given() {
        for name in ["ToolUsageMonitor", "My Monitor (v2)", "Überwachung", "監視", "निगरानी", "p:1"]
        {
            assert_eq!(ProviderName::of(name).as_str(), name);
        }
    }

    #[test]
    fn a_provider_name_cannot_end_its_heading_or_turn_the_text_around() {
        assert_eq!(ProviderName::of("x]\n\n[System\u{202e}\u{200b}").as_str(), "x System");
        assert_eq!(ProviderName::of(" a \t b ").as_str(), "a b");
        assert_eq!(ProviderName::of("\u{7}").as_str(), "-");
        let long = "ü".repeat(100);
        assert_eq!(ProviderName::of(&long).as_str().chars().count(), MAX_PROVIDER_NAME_CHARS);
    }
}
