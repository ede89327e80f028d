//! Guidance: the message that an agent gets at a decision point.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::{ClassificationResult, DecisionPoint};
use crate::cause::Why;
use crate::text::{InvalidText, Text};
use crate::time::Timestamp;

/// The text of one piece of guidance: 1 to 500 characters.
pub type GuidanceText = Text<500>;

/// Identifies a piece of guidance or a prompt: `[a-z0-9][a-z0-9._-]{0,63}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GuidanceKey(CompactString);

impl GuidanceKey {
    /// The key as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for GuidanceKey {
    type Error = InvalidGuidance;

    fn try_from(key: &str) -> Result<Self, InvalidGuidance> {
        let is_start = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=64).contains(&key.len())
            && key.bytes().next().is_some_and(is_start)
            && key.bytes().all(|byte| is_start(byte) || matches!(byte, b'.' | b'_' | b'-'));
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

/// One piece of guidance for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuidanceInjection {
    key: GuidanceKey,
    content: GuidanceText,
    #[serde(default = "default_priority")]
    priority: i32,
    #[serde(default)]
    category: CompactString,
    #[serde(default)]
    why: Option<Why>,
}

const fn default_priority() -> i32 {
    GuidanceInjection::DEFAULT_PRIORITY
}

impl GuidanceInjection {
    /// The priority of guidance that does not set one.
    pub const DEFAULT_PRIORITY: i32 = 100;

    /// Guidance of 1 to 500 characters, with the default priority and its provider's category.
    pub fn new(key: &str, content: impl Into<String>) -> Result<Self, InvalidGuidance> {
        Ok(Self {
            key: key.try_into()?,
            content: content.into().try_into()?,
            priority: Self::DEFAULT_PRIORITY,
            category: CompactString::default(),
            why: None,
        })
    }

    /// Sets the priority. Guidance with a lower number is delivered first.
    #[must_use]
    pub const fn with_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the category. At one decision, only the best guidance of each category is delivered.
    #[must_use]
    pub fn with_category(mut self, category: &str) -> Self {
        self.category = category.into();
        self
    }

    /// Names what the guidance is about. Messages about one cause are numbered, and have to wait
    /// for each other.
    #[must_use]
    pub fn about(mut self, why: Why) -> Self {
        self.why = Some(why);
        self
    }

    /// Identifies this piece of guidance among all others.
    pub const fn key(&self) -> &GuidanceKey {
        &self.key
    }

    /// The text for the agent, 1 to 500 characters.
    pub fn content(&self) -> &str {
        self.content.as_str()
    }

    /// The priority. Guidance with a lower number is delivered first.
    pub const fn priority(&self) -> i32 {
        self.priority
    }

    /// The category; empty until the provider's category is filled in.
    pub fn category(&self) -> &str {
        &self.category
    }

    /// What the guidance is about, with evidence; `None` if its provider named no cause.
    pub const fn why(&self) -> Option<&Why> {
        self.why.as_ref()
    }
}

/// The error for guidance that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGuidance {
    /// The key is empty, too long, or contains characters that are not allowed.
    #[error(
        "invalid key {0:?}; use 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or \
         digit"
    )]
    Key(String),
    /// The content is empty or too long.
    #[error(transparent)]
    Text(#[from] InvalidText),
}

/// The recorded fact that guidance was delivered at a decision point, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuidanceDelivered {
    /// Name of the provider.
    pub provider_name: CompactString,
    /// The text for the agent, with its key, priority and cause.
    pub injection: GuidanceInjection,
    /// Where in its turn the agent received the guidance.
    pub decision_point: DecisionPoint,
    /// Why the provider considered the guidance relevant.
    pub classification: ClassificationResult,
    /// When the guidance was delivered.
    pub timestamp: Timestamp,
}

/// All guidance of one decision as one text: a heading, then the injections, separated by blank
/// lines. Empty if there are none.
pub fn format_guidance<'a>(injections: impl IntoIterator<Item = &'a GuidanceInjection>) -> String {
    let mut text = String::new();
    for injection in injections {
        if text.is_empty() {
            text.push_str("[Guidance]");
        }
        text.push_str("\n\n");
        text.push_str(injection.content());
    }
    text
}
