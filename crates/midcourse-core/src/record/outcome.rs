//! How a run ended, as one word in the record.

use serde::{Deserialize, Serialize};

use crate::text::Excerpt;

/// How a run ended.
///
/// Any text reads: a word this release does not know is kept as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum RunOutcome {
    /// The agent finished by itself.
    Completed,
    /// The agent gave up or its model failed.
    Failed,
    /// A person or a signal ended it.
    Aborted,
    /// A limit of the host ended it: turns, tokens, time.
    LimitReached,
    /// It ended without saying how.
    Unknown,
    /// Another word.
    Other(String),
}

impl RunOutcome {
    /// The word in the record.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::LimitReached => "limit_reached",
            Self::Unknown => "unknown",
            Self::Other(word) => word,
        }
    }
}

impl RunOutcome {
    /// The same in little room: of another word, its beginning.
    pub(crate) fn bounded(&self) -> Self {
        match self {
            Self::Other(word) => Self::Other(Excerpt::of(word).as_str().to_owned()),
            known => known.clone(),
        }
    }
}

impl From<String> for RunOutcome {
    fn from(word: String) -> Self {
        match word.as_str() {
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "aborted" => Self::Aborted,
            "limit_reached" => Self::LimitReached,
            "unknown" => Self::Unknown,
            _ => Self::Other(word),
        }
    }
}

impl From<RunOutcome> for String {
    fn from(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Other(word) => word,
            known => known.as_str().to_owned(),
        }
    }
}
