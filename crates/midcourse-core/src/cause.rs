//! Causes: what a word is about.
//!
//! Whoever notices a loop, an error or a deadline, it is one cause with one ladder. A cause is a
//! kind and a digest of what makes this one different from the next of its kind.

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::digest::Digest;
use crate::text::SafeName;

/// The most records that are named as evidence.
pub const MAX_EVIDENCE_SEQS: usize = 16;

/// What a word is about. In JSON it is `kind:digest`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    kind: CompactString,
    id: Digest,
}

impl Cause {
    /// The cause of this kind that `id` tells from others. The kind is kept in its plain form.
    pub fn new(kind: &str, id: Digest) -> Self {
        Self { kind: SafeName::of(kind).as_str().into(), id: Digest::of(kind.as_bytes()).with(id) }
    }

    /// The only cause of its kind in a run.
    pub fn only(kind: &str) -> Self {
        Self::new(kind, Digest::default())
    }

    /// The kind, such as `doom_loop`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What tells it from all others.
    pub const fn id(&self) -> Digest {
        self.id
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            (&self.kind, self.id).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Cause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            let (kind, id) = Deserialize::deserialize(deserializer)?;
            return Ok(Self { kind, id });
        }
        let text = Cow::<str>::deserialize(deserializer)?;
        let (kind, id) = text.rsplit_once(':').ok_or_else(|| {
            D::Error::custom("a cause is written as its kind, a colon and its digest")
        })?;
        let id = u64::from_str_radix(id, 16).map_err(D::Error::custom)?;
        Ok(Self { kind: SafeName::of(kind).as_str().into(), id: Digest::from_value(id) })
    }
}

/// How far up its ladder a cause is when it is spoken of: 1 for the first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rung(pub u8);

impl Rung {
    /// The first word about a cause.
    pub const FIRST: Self = Self(1);
}

/// Why something is said: the cause, how often it was spoken of, and the records that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// What it is about.
    pub cause: Cause,
    /// The place on the cause's ladder.
    pub rung: Rung,
    /// The records that show it.
    #[serde(default, deserialize_with = "newest")]
    pub evidence: Vec<u64>,
}

/// As much evidence as is ever given; a stored word may claim more.
fn newest<'de, D: Deserializer<'de>>(evidence: D) -> Result<Vec<u64>, D::Error> {
    let mut evidence = Vec::deserialize(evidence)?;
    evidence.drain(..evidence.len().saturating_sub(MAX_EVIDENCE_SEQS));
    Ok(evidence)
}
