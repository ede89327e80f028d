//! The result of a classifier: whether guidance applies, and how sure the classifier is.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize};

use crate::confidence::Confidence;

/// The most facts that go with a classification.
pub const MAX_METADATA_ENTRIES: usize = 8;

/// The longest reason and the longest fact, in bytes.
const NOTE_MAX: usize = 200;

/// Whether guidance applies, and how sure one is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassificationResult {
    relevant: bool,
    confidence: Confidence,
    #[serde(default, deserialize_with = "short")]
    reason: Option<CompactString>,
    #[serde(default, deserialize_with = "a_few")]
    metadata: BTreeMap<CompactString, CompactString>,
}

/// A reason as long as one can be; a stored one may claim to be longer.
fn short<'de, D: Deserializer<'de>>(reason: D) -> Result<Option<CompactString>, D::Error> {
    Ok(Option::<CompactString>::deserialize(reason)?.map(|reason| cut(&reason)))
}

/// As many facts as there can be, each as long as one can be.
fn a_few<'de, D: Deserializer<'de>>(
    facts: D,
) -> Result<BTreeMap<CompactString, CompactString>, D::Error> {
    let facts = BTreeMap::<CompactString, CompactString>::deserialize(facts)?;
    Ok(facts.iter().take(MAX_METADATA_ENTRIES).map(|(key, value)| (cut(key), cut(value))).collect())
}

impl ClassificationResult {
    const fn new(relevant: bool, confidence: Confidence) -> Self {
        Self { relevant, confidence, reason: None, metadata: BTreeMap::new() }
    }

    /// It applies, for sure.
    pub const fn yes() -> Self {
        Self::new(true, Confidence::ONE)
    }

    /// It does not apply.
    pub const fn no() -> Self {
        Self::new(false, Confidence::ZERO)
    }

    /// It applies, as far as this confidence goes.
    pub const fn maybe(confidence: Confidence) -> Self {
        Self::new(true, confidence)
    }

    /// Adds why, for the record; a long reason is cut.
    #[must_use]
    pub fn because(mut self, reason: impl AsRef<str>) -> Self {
        self.reason = Some(cut(reason.as_ref()));
        self
    }

    /// Adds a fact for the record; the ninth and later ones are left out.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        if self.metadata.len() < MAX_METADATA_ENTRIES {
            self.metadata.insert(cut(key), cut(&value.to_string()));
        }
        self
    }

    /// Whether guidance applies.
    pub const fn relevant(&self) -> bool {
        self.relevant
    }

    /// How sure one is.
    pub const fn confidence(&self) -> Confidence {
        self.confidence
    }

    /// Why.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Facts that go with it.
    pub const fn metadata(&self) -> &BTreeMap<CompactString, CompactString> {
        &self.metadata
    }
}

fn cut(text: &str) -> CompactString {
    text.get(..text.floor_char_boundary(NOTE_MAX)).unwrap_or_default().into()
}
