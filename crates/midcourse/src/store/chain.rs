//! The hash chain of a run: the hash of each record covers everything before it in the run.
//!
//! The chain also contains reports: an event that already has a record may be reported again, and
//! what such a report adds or contradicts is stored. A link of the chain is the BLAKE3 hash of the
//! previous link and of the stored fields of a record or report, each field preceded by its length
//! (8 bytes, little endian). Numbers are hashed as decimal text; an absent optional field is hashed
//! as an empty field. Anybody with the database and BLAKE3 can check the chain without midcourse.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One hash of a run's hash chain. It covers a stored record and everything before it in the run,
/// or a further report of an event that already has a record and everything before that report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link([u8; 32]);

/// As hexadecimal digits.
impl Serialize for Link {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for Link {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let hash = blake3::Hash::from_hex(digits).map_err(serde::de::Error::custom)?;
        Ok(Self(*hash.as_bytes()))
    }
}

/// Writes the link in hexadecimal digits.
impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl Link {
    /// The first link of a run's hash chain, before any record.
    pub(super) fn genesis(run_id: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        absorb(&mut hasher, &[b"midcourse run 1", run_id.as_bytes()]);
        Self(*hasher.finalize().as_bytes())
    }

    /// The next link of the hash chain, for a record or report with these fields.
    pub(super) fn next(&self, fields: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        absorb(&mut hasher, fields);
        Self(*hasher.finalize().as_bytes())
    }

    /// The 32 bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Link {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

fn absorb(hasher: &mut blake3::Hasher, fields: &[&[u8]]) {
    for field in fields {
        let length = u64::try_from(field.len()).unwrap_or(u64::MAX);
        hasher.update(&length.to_le_bytes());
        hasher.update(field);
    }
}

/// The fields of a record that its link covers.
pub(super) struct RecordFields<'a> {
    pub(super) seq: u64,
    pub(super) at: u64,
    pub(super) kind: &'a str,
    pub(super) fact: Option<&'a str>,
    pub(super) host: &'a str,
    pub(super) channel: &'a str,
    pub(super) decision_point: Option<&'a str>,
    pub(super) schema_version: u32,
    pub(super) redactions: u32,
    pub(super) payload: &'a str,
}

/// The link of a record: the hash of the previous link, of the record's fields, and of the position
/// and hash of each of its long texts (`bodies`), sorted by position.
pub(super) fn record_link<'a>(
    head: &Link,
    record: &RecordFields<'_>,
    bodies: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Link {
    let numbers = [
        record.seq.to_string(),
        record.at.to_string(),
        record.schema_version.to_string(),
        record.redactions.to_string(),
    ];
    let mut fields: Vec<&[u8]> = vec![b"record"];
    fields.extend(numbers.iter().map(String::as_bytes));
    fields.push(record.kind.as_bytes());
    // Distinguishes an empty fact key from an absent one.
    fields.push(if record.fact.is_some() { b"fact" } else { b"" });
    fields.push(record.fact.unwrap_or_default().as_bytes());
    fields.push(record.host.as_bytes());
    fields.push(record.channel.as_bytes());
    fields.push(record.decision_point.unwrap_or_default().as_bytes());
    fields.push(record.payload.as_bytes());
    let mut bodies: Vec<_> = bodies.collect();
    bodies.sort_unstable();
    for (pointer, hash) in &bodies {
        fields.push(pointer.as_bytes());
        fields.push(hash);
    }
    head.next(&fields)
}

/// The link of a further report of an event that already has a record. The link covers a hash of
/// what was reported, instead of the text itself.
pub(super) fn report_link(
    head: &Link,
    seq: u64,
    at: u64,
    host: &str,
    channel: &str,
    status: &str,
    hash: &[u8],
) -> Link {
    head.next(&[
        b"report",
        seq.to_string().as_bytes(),
        at.to_string().as_bytes(),
        host.as_bytes(),
        channel.as_bytes(),
        status.as_bytes(),
        hash,
    ])
}

#[cfg(test)]
mod tests {
    use super::Link;

    #[test]
    fn a_field_boundary_changes_the_link() {
        let start = Link::genesis("r");
        assert_ne!(start.next(&[b"ab", b"c"]), start.next(&[b"a", b"bc"]));
        assert_ne!(start.next(&[b"a", b""]), start.next(&[b"a"]));
        assert_ne!(start, Link::genesis("s"));
    }
}
