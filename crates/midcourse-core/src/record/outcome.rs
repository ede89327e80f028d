//! How a run ended, as one word in its record.

use serde::{Deserialize, Serialize};

use crate::text::Excerpt;

/// How a run ended.
///
/// Parsing never fails: a word that this release does not know becomes [`Self::Other`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum RunOutcome {
    /// The agent finished on its own.
    Completed,
    /// The agent gave up or its model failed.
    Failed,
    /// The user or a signal ended the run.
    Aborted,
    /// The host ended the run because of a limit on turns, tokens or time.
    LimitReached,
    /// The host did not say how the run ended.
    Unknown,
    /// The host's word for an outcome that this release does not know.
    Other(String),
}

impl RunOutcome {
    /// The word for the outcome in the JSON of records.
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
    /// A copy of the outcome for a checkpoint. The host's word in `Other` is cut to 256 bytes, so
    /// that a long word does not make the checkpoint large.
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
