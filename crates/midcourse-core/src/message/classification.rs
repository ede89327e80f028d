//! The result of a classifier. A classifier decides whether a provider's guidance applies to the
//! run at this moment, and says how sure it is.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize};

use crate::confidence::{Confidence, InvalidConfidence};

/// The maximum number of metadata entries in one classification. Further entries are ignored.
pub const MAX_METADATA_ENTRIES: usize = 8;

/// The maximum length in bytes of each text in a classification: of the reason, of each metadata
/// key and of each metadata value. Longer texts are cut.
const MAX_NOTE_BYTES: usize = 200;

/// The result of a classifier: whether guidance applies now, and how sure the classifier is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassificationResult {
    relevant: bool,
    confidence: Confidence,
    #[serde(default, deserialize_with = "cut_reason")]
    reason: Option<CompactString>,
    #[serde(default, deserialize_with = "cut_metadata")]
    metadata: BTreeMap<CompactString, CompactString>,
}

fn cut_reason<'de, D: Deserializer<'de>>(reason: D) -> Result<Option<CompactString>, D::Error> {
    Ok(Option::<CompactString>::deserialize(reason)?.map(|reason| cut(&reason)))
}

fn cut_metadata<'de, D: Deserializer<'de>>(
    metadata: D,
) -> Result<BTreeMap<CompactString, CompactString>, D::Error> {
    let metadata = BTreeMap::<CompactString, CompactString>::deserialize(metadata)?;
    let first = metadata.iter().take(MAX_METADATA_ENTRIES);
    Ok(first.map(|(key, value)| (cut(key), cut(value))).collect())
}

impl ClassificationResult {
    /// A result with this confidence, from 0 to 1. Any other number is an error.
    ///
    /// ```
    /// use midcourse_core::ClassificationResult;
    ///
    /// let result = ClassificationResult::new(false, 0.8)?.with_reason("one failure only");
    /// assert!(!result.relevant());
    /// # Ok::<(), midcourse_core::InvalidConfidence>(())
    /// ```
    pub fn new(relevant: bool, confidence: f64) -> Result<Self, InvalidConfidence> {
        Ok(Self::with_confidence(relevant, confidence.try_into()?))
    }

    pub(crate) const fn with_confidence(relevant: bool, confidence: Confidence) -> Self {
        Self { relevant, confidence, reason: None, metadata: BTreeMap::new() }
    }

    /// Guidance applies, with full confidence.
    pub const fn yes() -> Self {
        Self::with_confidence(true, Confidence::ONE)
    }

    /// Guidance does not apply, with full confidence.
    pub const fn no() -> Self {
        Self::with_confidence(false, Confidence::ONE)
    }

    /// Guidance applies, with this confidence.
    pub const fn maybe(confidence: Confidence) -> Self {
        Self::with_confidence(true, confidence)
    }

    /// Sets the reason for the result, cut to 200 bytes. The reason is recorded, but the agent does
    /// not see it.
    #[must_use]
    pub fn with_reason(mut self, reason: impl AsRef<str>) -> Self {
        self.reason = Some(cut(reason.as_ref()));
        self
    }

    /// Adds a named value that is recorded, but that the agent does not see. Key and value are each
    /// cut to 200 bytes. Does nothing if there are already [`MAX_METADATA_ENTRIES`] values.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl ToString) -> Self {
        if self.metadata.len() < MAX_METADATA_ENTRIES {
            self.metadata.insert(cut(key), cut(&value.to_string()));
        }
        self
    }

    /// Whether guidance applies.
    pub const fn relevant(&self) -> bool {
        self.relevant
    }

    /// How sure the classifier is that guidance applies or, if `relevant` is false, that it does
    /// not apply.
    pub const fn confidence(&self) -> Confidence {
        self.confidence
    }

    /// The reason for the result; `None` if the classifier gave none. The agent does not see it.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Named values that the classifier added. They are recorded, but the agent does not see them.
    pub const fn metadata(&self) -> &BTreeMap<CompactString, CompactString> {
        &self.metadata
    }
}

fn cut(text: &str) -> CompactString {
    text.get(..text.floor_char_boundary(MAX_NOTE_BYTES)).unwrap_or_default().into()
}
