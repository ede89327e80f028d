//! Labels: what a person says about a run, and whether midcourse was right to speak or to stay silent
//! there.
//!
//! A label contains enough of the labelled message to compare it with the messages of a replay.
//! Labels are not records: the engine never sees them, and the hash chain does not cover them.

use midcourse_core::Timestamp;
use serde::{Deserialize, Serialize};

/// Whether midcourse did the right thing, in a person's opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelVerdict {
    /// It was right to deliver the message, or to stay silent.
    Good,
    /// The message was a false alarm, or a message was missing.
    Bad,
}

impl LabelVerdict {
    /// The name in the store, in JSON and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }

    /// The verdict with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Good, Self::Bad].into_iter().find(|verdict| verdict.as_str() == name)
    }
}

/// What a person says about a place of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The seq of the record that the label is about; `None` if it is about the whole run.
    #[serde(default)]
    pub seq: Option<u64>,
    /// Whether midcourse did the right thing there.
    pub verdict: LabelVerdict,
    /// What the labelled message is about, such as `doom_loop`. If a message was missing, what it
    /// should have been about; `None` if the person did not say.
    #[serde(default)]
    pub cause: Option<String>,
    /// How many tool calls had ended at the record.
    #[serde(default)]
    pub call: Option<u64>,
    /// The BLAKE3 hash of the labelled message's text, in hexadecimal digits. `None` if the label is
    /// not about a message.
    #[serde(default)]
    pub text_hash: Option<String>,
    /// The person's remark.
    #[serde(default)]
    pub note: Option<String>,
    /// When the person said it.
    pub labelled_at_unix_ms: Timestamp,
}

impl Label {
    /// Whether the label is about a delivered message, and not about a silence or a whole run.
    pub const fn is_about_message(&self) -> bool {
        self.text_hash.is_some()
    }

    /// The hash that identifies the text of a message.
    pub fn hash_of(text: &str) -> String {
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }
}
