//! 64-bit digests of texts. The state of a run has a bounded size, so it keeps the digest of a text
//! in place of the text, and two texts count as equal if their digests are equal. The digests are
//! not meant for security.
//!
//! The algorithm, XXH3, has a fixed published definition, so a stored digest stays valid in later
//! releases and on other machines.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A 64-bit XXH3 digest; in JSON, sixteen hexadecimal digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }

    /// The digest of `bytes` seeded with this digest: `a.then(b).then(c)` differs from
    /// `a.then(c).then(b)`.
    #[must_use]
    pub fn then(self, bytes: &[u8]) -> Self {
        Self(xxh3_64_with_seed(bytes, self.0))
    }

    /// Combines this digest with another one; `a.with(b)` differs from `b.with(a)`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        self.then(&other.0.to_le_bytes())
    }

    pub(crate) const fn from_value(value: u64) -> Self {
        Self(value)
    }

    /// The digest as an integer.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            // Written as eight bytes: postcard, the binary format of checkpoints, would write a
            // `u64` as up to ten bytes.
            self.0.to_le_bytes().serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            u64::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
        } else {
            <[u8; 8]>::deserialize(deserializer).map(|bytes| Self(u64::from_le_bytes(bytes)))
        }
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
