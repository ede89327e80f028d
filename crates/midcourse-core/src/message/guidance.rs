//! Guidance: the message that an agent gets at a decision point.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::{ClassificationResult, DecisionPoint};
use crate::text::{InvalidText, Text};
use crate::time::Timestamp;
use crate::why::Why;

/// The text of one piece of guidance: 1 to 500 characters.
pub type GuidanceText = Text<500>;

/// The name of a piece of guidance or of a prompt. It matches `[a-z0-9][a-z0-9._-]{0,63}`.
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

    /// Guidance with this text, which must have 1 to 500 characters. The guidance has the default
    /// priority, and the category of the provider that returns it.
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

    /// Sets the category, which is otherwise that of the provider. If several pieces of guidance of
    /// one category apply at a decision point, the agent gets only one: the piece with the lowest
    /// priority number.
    #[must_use]
    pub fn with_category(mut self, category: &str) -> Self {
        self.category = category.into();
        self
    }

    /// Sets what the guidance is about. After a message about a problem, the next message about the
    /// same problem has to wait for some tool calls. Guidance for which this method was not called
    /// waits only if the same provider has delivered the same text before.
    #[must_use]
    pub fn about(mut self, why: Why) -> Self {
        self.why = Some(why);
        self
    }

    /// The guidance as a session keeps it: without its subject, which only the record of the
    /// delivery needs.
    pub(crate) fn kept(mut self) -> Self {
        if let Some(why) = &mut self.why {
            why.subject = None;
        }
        self
    }

    /// Name of this piece of guidance in records, as its provider chose it.
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

    /// The category. If `with_category` did not set one, the category is empty until
    /// `collect_guidance` sets it to that of the provider.
    pub fn category(&self) -> &str {
        &self.category
    }

    /// What the guidance is about, and the records that show it; `None` if the provider did not
    /// say.
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
    /// The text is empty or longer than 500 characters.
    #[error(transparent)]
    Text(#[from] InvalidText),
}

/// One delivery of guidance, as it is recorded: the guidance, its provider, the provider's reason,
/// and the decision point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuidanceDelivered {
    /// Name of the provider.
    pub provider_name: CompactString,
    /// The text for the agent, with its key, its priority and what it is about.
    pub injection: GuidanceInjection,
    /// Where in its turn the agent received the guidance.
    pub decision_point: DecisionPoint,
    /// Why the provider considered the guidance relevant.
    pub classification: ClassificationResult,
    /// When the guidance was delivered.
    pub timestamp: Timestamp,
}

/// All guidance for one decision point as one text: the line `[Guidance]`, then the text of each
/// piece, separated by blank lines. Without guidance, the text is empty.
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
