//! Kinds of bytes, looked up in a table: the scanners ask for every byte of every result.

/// What a byte can be part of, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const NONE: Self = Self(0);
    pub(super) const DIGIT: Self = Self(1);
    /// A letter that is also a hexadecimal digit.
    pub(super) const HEX_LETTER: Self = Self(1 << 1);
    /// Any other letter, and the bytes of other scripts.
    pub(super) const LETTER: Self = Self(1 << 2);
    pub(super) const SLASH: Self = Self(1 << 3);
    pub(super) const COLON: Self = Self(1 << 4);
    /// What joins the words of a name: dash, dot, underscore.
    pub(super) const JOINT: Self = Self(1 << 5);
    /// Other bytes of tokens.
    pub(super) const OTHER: Self = Self(1 << 6);

    /// The kinds of one byte; none, if it separates tokens.
    pub(super) fn of(byte: u8) -> Self {
        // The table has a place for every byte.
        TABLE.get(usize::from(byte)).copied().unwrap_or(Self::NONE)
    }

    /// The kinds of all bytes.
    pub(super) fn of_all(bytes: &[u8]) -> Self {
        bytes.iter().fold(Self::NONE, |kinds, byte| kinds.and(Self::of(*byte)))
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has(self, any_of: Self) -> bool {
        self.0 & any_of.0 != 0
    }

    pub(super) const fn is_within(self, all: Self) -> bool {
        self.0 & !all.0 == 0
    }
}

static TABLE: [Kinds; 256] = {
    let mut table = [Kinds::NONE; 256];
    let mut at = 0;
    while at < table.len() {
        #[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
        let byte = at as u8;
        #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
        {
            table[at] = match byte {
                b'0'..=b'9' => Kinds::DIGIT,
                b'a'..=b'f' | b'A'..=b'F' => Kinds::HEX_LETTER,
                b'g'..=b'z' | b'G'..=b'Z' | 0x80.. => Kinds::LETTER,
                b'/' | b'\\' => Kinds::SLASH,
                b':' => Kinds::COLON,
                b'-' | b'.' | b'_' => Kinds::JOINT,
                b'+' | b'~' | b'@' => Kinds::OTHER,
                _ => Kinds::NONE,
            };
        }
        at += 1;
    }
    table
};

/// Whether a byte is part of a token; everything else separates two.
pub(super) fn in_token(byte: u8) -> bool {
    Kinds::of(byte) != Kinds::NONE
}

/// How many bytes at the beginning are of a kind.
pub(super) fn count(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !kind(*byte)).unwrap_or(bytes.len())
}
