//! The hash chain of a run: every record commits to all before it.
//!
//! A link is the BLAKE3 of the link before it and of what was stored, each field with its length
//! in front (8 bytes, little endian; numbers as decimal text; what is absent as an empty field
//! behind an empty one). Anybody with the database and BLAKE3 can check it without midcourse.

/// What one stored thing commits to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link([u8; 32]);

impl Link {
    /// The link before a run's first record.
    pub(super) fn genesis(run_id: &str) -> Self {
        Self::of(&[b"midcourse run 1", run_id.as_bytes()])
    }

    /// The link of the next stored thing, from its fields.
    pub(super) fn next(&self, fields: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        absorb(&mut hasher, fields);
        Self(*hasher.finalize().as_bytes())
    }

    fn of(fields: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        absorb(&mut hasher, fields);
        Self(*hasher.finalize().as_bytes())
    }

    /// The link as stored.
    pub(super) const fn as_bytes(&self) -> &[u8; 32] {
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

#[cfg(test)]
mod tests {
    use super::Link;

    #[test]
    fn fields_do_not_run_into_each_other() {
        let start = Link::genesis("r");
        assert_ne!(start.next(&[b"ab", b"c"]), start.next(&[b"a", b"bc"]));
        assert_ne!(start.next(&[b"a", b""]), start.next(&[b"a"]));
        assert_ne!(start, Link::genesis("s"));
    }
}
