//! Classifies bytes for the scanners in `scan` and `token`: digit, letter, slash and so on.
//!
//! The scanners read every result, so a byte must be classified fast: by a lookup table, which is
//! built at compile time.

/// A set of kinds of bytes (digit, letter, slash and so on), as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteKinds(u8);

impl ByteKinds {
    pub(super) const NONE: Self = Self(0);
    pub(super) const DIGIT: Self = Self(1);
    /// One of the letters a to f and A to F, which are also hexadecimal digits.
    pub(super) const HEX_LETTER: Self = Self(1 << 1);
    /// Any other letter, and every byte of a non-ASCII character.
    pub(super) const LETTER: Self = Self(1 << 2);
    pub(super) const SLASH: Self = Self(1 << 3);
    pub(super) const COLON: Self = Self(1 << 4);
    /// A dash, dot or underscore, which joins the words of a name.
    pub(super) const JOINER: Self = Self(1 << 5);
    /// Any other byte that can be part of a token.
    pub(super) const OTHER: Self = Self(1 << 6);

    /// The kind of one byte; `NONE` for a byte that separates tokens.
    pub(super) fn of(byte: u8) -> Self {
        // The table has an entry for every byte, so the default is never used.
        TABLE.get(usize::from(byte)).copied().unwrap_or(Self::NONE)
    }

    /// The set of the kinds that occur in `bytes`.
    pub(super) fn of_all(bytes: &[u8]) -> Self {
        bytes.iter().fold(Self::NONE, |kinds, byte| kinds.union(Self::of(*byte)))
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

static TABLE: [ByteKinds; 256] = {
    let mut table = [ByteKinds::NONE; 256];
    let mut at = 0;
    while at < table.len() {
        #[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
        let byte = at as u8;
        #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
        {
            table[at] = match byte {
                b'0'..=b'9' => ByteKinds::DIGIT,
                b'a'..=b'f' | b'A'..=b'F' => ByteKinds::HEX_LETTER,
                b'g'..=b'z' | b'G'..=b'Z' | 0x80.. => ByteKinds::LETTER,
                b'/' | b'\\' => ByteKinds::SLASH,
                b':' => ByteKinds::COLON,
                b'-' | b'.' | b'_' => ByteKinds::JOINER,
                b'+' | b'~' | b'@' => ByteKinds::OTHER,
                _ => ByteKinds::NONE,
            };
        }
        at += 1;
    }
    table
};

/// Whether a byte can be part of a token; every other byte separates tokens.
pub(super) fn is_token_byte(byte: u8) -> bool {
    ByteKinds::of(byte) != ByteKinds::NONE
}

/// The number of bytes at the beginning of `bytes` that match.
pub(super) fn prefix_len(bytes: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !matches(*byte)).unwrap_or(bytes.len())
}
