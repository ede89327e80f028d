//! Causes: what a message is about.
//!
//! Several providers (the parts of midcourse that make messages) may report the same loop, error or
//! deadline. Their messages then have the same cause and form one series, in which the messages are
//! numbered and spaced out. A cause consists of a kind, such as `doom_loop`, and a digest that
//! tells it apart from other causes of that kind.

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::digest::Digest;
use crate::text::SafeName;

/// The maximum number of records that a pattern or message names as evidence.
pub const MAX_EVIDENCE_SEQS: usize = 16;

/// What a message is about, such as one certain loop or error. In JSON it is the string
/// `kind:digest`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    kind: CompactString,
    id: Digest,
}

impl Cause {
    /// A cause of this kind; `id` tells it apart from other causes of that kind. Characters of
    /// `kind` that are not safe to show to an agent are left out of the stored name.
    pub fn new(kind: &str, id: Digest) -> Self {
        Self { kind: SafeName::of(kind).as_str().into(), id: Digest::of(kind.as_bytes()).with(id) }
    }

    /// A cause that can occur once per run, such as the deadline: the kind alone identifies it.
    pub fn only(kind: &str) -> Self {
        Self::new(kind, Digest::default())
    }

    /// The kind, such as `doom_loop`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// A digest of the kind and of the `id` that was given to `new`. It identifies the cause among
    /// all causes of a run.
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
            D::Error::custom(format!("invalid cause `{text}`; expected `kind:digest`"))
        })?;
        let id = u64::from_str_radix(id, 16).map_err(D::Error::custom)?;
        Ok(Self { kind: SafeName::of(kind).as_str().into(), id: Digest::from_value(id) })
    }
}

/// The number of a message in the series of messages about one cause, from 1. A provider can give
/// each number its own text, so that a second message suggests something else than the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rung(pub u8);

impl Rung {
    /// The first message about a cause.
    pub const FIRST: Self = Self(1);
}
