//! Guidance: the message that an agent gets at a decision point.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::{ClassificationResult, DecisionPoint};
use crate::cause::Why;
use crate::text::{InvalidText, Text};
use crate::time::Timestamp;

/// The words of guidance: 1 to 500 characters.
pub type GuidanceText = Text<500>;

/// Names a piece of guidance: `[a-z0-9][a-z0-9._-]{0,63}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GuidanceKey(CompactString);

impl GuidanceKey {
    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for GuidanceKey {
    type Error = InvalidGuidance;

    fn try_from(key: &str) -> Result<Self, InvalidGuidance> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=64).contains(&key.len())
            && key.bytes().next().is_some_and(plain)
            && key.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'));
        if fits { Ok(Self(key.into())) } else { Err(InvalidGuidance::Key(key.to_owned())) }
    }
}

impl TryFrom<String> for GuidanceKey {
    type Error = InvalidGuidance;

    fn try_from(key: String) -> Result<Self, InvalidGuidance> {
        key.as_str().try_into()
    }
}

impl From<GuidanceKey> for String {
    fn from(key: GuidanceKey) -> Self {
        key.0.into()
    }
}

/// One piece of guidance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuidanceInjection {
    key: GuidanceKey,
    content: GuidanceText,
    priority: i32,
    category: CompactString,
    #[serde(default)]
    why: Option<Why>,
}

impl GuidanceInjection {
    /// The priority of guidance that does not say otherwise.
    pub const DEFAULT_PRIORITY: i32 = 100;

    /// A piece of guidance, in the category of whoever gives it.
    pub fn new(key: &str, content: impl Into<String>) -> Result<Self, InvalidGuidance> {
        Ok(Self {
            key: key.try_into()?,
            content: content.into().try_into()?,
            priority: Self::DEFAULT_PRIORITY,
            category: CompactString::default(),
            why: None,
        })
    }

    /// Says how important it is: the lower, the earlier.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Puts it into a category; of one category only the best is said.
    #[must_use]
    pub fn category(mut self, category: &str) -> Self {
        self.category = category.into();
        self
    }

    /// Says what it is about, which puts it on that cause's ladder.
    #[must_use]
    pub fn about(mut self, why: Why) -> Self {
        self.why = Some(why);
        self
    }

    /// Its name.
    pub const fn key(&self) -> &GuidanceKey {
        &self.key
    }

    /// Its words.
    pub fn content(&self) -> &str {
        self.content.as_str()
    }

    /// How important it is.
    pub const fn rank(&self) -> i32 {
        self.priority
    }

    /// Its category.
    pub fn group(&self) -> &str {
        &self.category
    }

    /// What it is about.
    pub const fn why(&self) -> Option<&Why> {
        self.why.as_ref()
    }
}

/// Guidance that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGuidance {
    /// Its name is not one.
    #[error(
        "{0:?} is not a key: give 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter \
         or digit"
    )]
    Key(String),
    /// Its words do not fit.
    #[error(transparent)]
    Text(#[from] InvalidText),
}

/// What was said at a decision point, by whom and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuidanceDelivered {
    /// Who said it.
    pub provider_name: CompactString,
    /// What was said.
    pub injection: GuidanceInjection,
    /// Where.
    pub decision_point: DecisionPoint,
    /// Why it was thought to apply.
    pub classification: ClassificationResult,
    /// When.
    pub timestamp: Timestamp,
}

/// The words of one decision: a heading, then the pieces with a blank line between two.
pub fn format_guidance<'a>(pieces: impl IntoIterator<Item = &'a GuidanceInjection>) -> String {
    let mut text = String::new();
    for piece in pieces {
        if text.is_empty() {
            text.push_str("[Guidance]");
        }
        text.push_str("\n\n");
        text.push_str(piece.content());
    }
    text
}
