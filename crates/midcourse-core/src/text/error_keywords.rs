//! Finds keywords such as "denied" in error texts, and derives the error class from all keywords of
//! a line.
//!
//! The scanner looks up every word of every error in a hash table that is built at compile time.
//! The table is hand-written for speed: a word is packed into one `u128`, so that hashing,
//! comparing and lowercasing it take a few instructions each. The crate `phf` would hash byte by
//! byte and need a lowercase copy.

use std::ops::BitOrAssign;

use super::failure_kind::FailureKind;

const KEYWORDS: &[(&str, Keywords)] = &[
    ("error", Keywords::ERROR),
    ("errors", Keywords::ERROR),
    ("fatal", Keywords::ERROR),
    ("failed", Keywords::ERROR),
    ("failure", Keywords::ERROR),
    ("fails", Keywords::ERROR),
    ("cannot", Keywords::ERROR),
    ("unable", Keywords::ERROR),
    ("exception", Keywords::ERROR),
    ("panicked", Keywords::ERROR),
    ("panic", Keywords::ERROR),
    ("aborted", Keywords::ERROR),
    ("undefined", Keywords::ERROR),
    ("traceback", Keywords::ERROR),
    ("denied", Keywords::DENIED),
    ("forbidden", Keywords::DENIED),
    ("permission", Keywords::DENIED),
    ("unauthorized", Keywords::DENIED),
    ("eacces", Keywords::DENIED),
    ("eperm", Keywords::DENIED),
    ("refusing", Keywords::DENIED),
    ("disallowed", Keywords::DENIED),
    ("read-only", Keywords::DENIED),
    ("erofs", Keywords::DENIED),
    ("enoent", Keywords::NO_SUCH),
    ("missing", Keywords::NO_SUCH),
    ("such", Keywords::NO_SUCH),
    ("not", Keywords::NOT),
    ("found", Keywords::FOUND),
    ("exist", Keywords::FOUND),
    ("unknown", Keywords::UNKNOWN),
    ("unsupported", Keywords::UNKNOWN),
    ("unrecognized", Keywords::UNKNOWN),
    ("tool", Keywords::TOOL),
    ("invalid", Keywords::INVALID),
    ("required", Keywords::INVALID),
    ("expected", Keywords::INVALID),
    ("unexpected", Keywords::INVALID),
    ("malformed", Keywords::INVALID),
    ("validation", Keywords::INVALID),
    ("argument", Keywords::ARGUMENT),
    ("arguments", Keywords::ARGUMENT),
    ("parameter", Keywords::ARGUMENT),
    ("parameters", Keywords::ARGUMENT),
    ("schema", Keywords::ARGUMENT),
    ("input", Keywords::ARGUMENT),
    ("option", Keywords::ARGUMENT),
    ("property", Keywords::ARGUMENT),
    ("timeout", Keywords::TIMEOUT),
    ("timed", Keywords::TIMEOUT),
    ("deadline", Keywords::TIMEOUT),
    ("etimedout", Keywords::OUTAGE),
    ("space", Keywords::SPACE),
    ("memory", Keywords::SPACE),
    ("disk", Keywords::SPACE),
    ("left", Keywords::FULL),
    ("full", Keywords::FULL),
    ("exhausted", Keywords::FULL),
    ("allocate", Keywords::FULL),
    ("enospc", Keywords::RESOURCE),
    ("enomem", Keywords::RESOURCE),
    ("connection", Keywords::NETWORK),
    ("network", Keywords::NETWORK),
    ("dns", Keywords::NETWORK),
    ("resolve", Keywords::NETWORK),
    ("socket", Keywords::NETWORK),
    ("gateway", Keywords::NETWORK),
    ("upstream", Keywords::NETWORK),
    ("server", Keywords::NETWORK),
    ("service", Keywords::NETWORK),
    ("refused", Keywords::DOWN),
    ("reset", Keywords::DOWN),
    ("unavailable", Keywords::DOWN),
    ("overloaded", Keywords::DOWN),
    ("throttled", Keywords::DOWN),
    ("quota", Keywords::DOWN),
    ("econnrefused", Keywords::OUTAGE),
    ("econnreset", Keywords::OUTAGE),
    ("enotfound", Keywords::OUTAGE),
    ("unreachable", Keywords::OUTAGE),
    ("http", Keywords::HTTP),
    ("https", Keywords::HTTP),
    ("status", Keywords::HTTP),
    ("code", Keywords::HTTP),
    ("response", Keywords::HTTP),
    ("401", Keywords::CODE_DENIED),
    ("403", Keywords::CODE_DENIED),
    ("404", Keywords::CODE_MISSING),
    ("429", Keywords::CODE_DOWN),
    ("502", Keywords::CODE_DOWN),
    ("503", Keywords::CODE_DOWN),
    ("504", Keywords::CODE_DOWN),
    ("529", Keywords::CODE_DOWN),
    ("assert", Keywords::CHECK),
    ("assertion", Keywords::CHECK),
    ("assertionerror", Keywords::CHECK),
    ("test", Keywords::CHECK),
    ("tests", Keywords::CHECK),
    ("syntax", Keywords::SYNTAX),
    ("syntaxerror", Keywords::SYNTAX),
    ("parse", Keywords::SYNTAX),
    ("parser", Keywords::SYNTAX),
    ("separator", Keywords::SYNTAX),
    ("indentationerror", Keywords::SYNTAX),
];

/// The bit 0x20 in each of 16 bytes. Setting it makes an uppercase ASCII letter lowercase. Setting
/// it in other characters does no harm, because no two keywords differ only in that bit.
const LOWERCASE_BITS: u128 = u128::from_le_bytes([0x20; 16]);

/// A word of up to 16 bytes, in lowercase, as one number. Comparing two words is then comparing two
/// numbers.
const fn packed(word: &[u8]) -> u128 {
    let mut bytes = [0_u8; 16];
    let (mut at, mut rest) = (0, word);
    while let [first, following @ ..] = rest {
        if at == bytes.len() {
            break;
        }
        #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
        {
            bytes[at] = *first;
        }
        at += 1;
        rest = following;
    }
    u128::from_le_bytes(bytes) | LOWERCASE_BITS
}

/// The first `length` bytes of a text, packed into one number by reading 16 bytes at once. Near the
/// end of the text, where fewer than 16 bytes are left, `packed` does the work byte by byte.
fn packed_start(text: &[u8], length: usize) -> u128 {
    match text.first_chunk::<16>() {
        Some(bytes) if length < 16 => {
            let bits = (1_u128 << (8 * length)) - 1;
            u128::from_le_bytes(*bytes) & bits | LOWERCASE_BITS
        }
        _ => packed(text.get(..length).unwrap_or_default()),
    }
}

/// Number of slots in the hash table: several times the number of keywords, so that few collide.
const SLOTS: usize = 512;

/// The slot of the hash table at which the search for a packed word begins.
const fn slot_of(word: u128) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are combined")]
    let mixed = word as u64 ^ (word >> 64) as u64;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize % SLOTS
}

/// The hash table of the keywords. A keyword whose slot is taken is in the next free slot.
static KEYWORD_TABLE: [(u128, Keywords); SLOTS] = {
    let mut table = [(0, Keywords(0)); SLOTS];
    let mut at = 0;
    while at < KEYWORDS.len() {
        #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
        {
            let (word, bit) = KEYWORDS[at];
            let word = packed(word.as_bytes());
            let mut slot = slot_of(word);
            while table[slot].0 != 0 {
                slot = (slot + 1) % SLOTS;
            }
            table[slot] = (word, bit);
        }
        at += 1;
    }
    table
};

/// The kinds of keywords that a line of an error contains, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Keywords(u32);

impl Keywords {
    const ERROR: Self = Self(1);
    const DENIED: Self = Self(1 << 1);
    const NO_SUCH: Self = Self(1 << 2);
    const NOT: Self = Self(1 << 3);
    const FOUND: Self = Self(1 << 4);
    const UNKNOWN: Self = Self(1 << 5);
    const TOOL: Self = Self(1 << 6);
    const INVALID: Self = Self(1 << 7);
    const ARGUMENT: Self = Self(1 << 8);
    const TIMEOUT: Self = Self(1 << 9);
    const NETWORK: Self = Self(1 << 10);
    const DOWN: Self = Self(1 << 11);
    const HTTP: Self = Self(1 << 12);
    const CODE_DENIED: Self = Self(1 << 13);
    const CODE_MISSING: Self = Self(1 << 14);
    const CODE_DOWN: Self = Self(1 << 15);
    const CHECK: Self = Self(1 << 16);
    const SYNTAX: Self = Self(1 << 17);
    const SPACE: Self = Self(1 << 18);
    const FULL: Self = Self(1 << 19);
    const RESOURCE: Self = Self(Self::SPACE.0 | Self::FULL.0);
    const OUTAGE: Self = Self(Self::NETWORK.0 | Self::DOWN.0);

    /// The keyword bits of the word that is the first `length` bytes of a text. Most words are not
    /// keywords and have no bits.
    pub(super) fn at_start_of(text: &[u8], length: usize) -> Self {
        let token = text.get(..length).unwrap_or_default();
        if length < 3 {
            return Self::default();
        }
        if length > 16 {
            return Self::of_exception_name(token);
        }
        let word = packed_start(text, length);
        let mut slot = slot_of(word);
        loop {
            match KEYWORD_TABLE.get(slot) {
                Some((known, bit)) if *known == word => return *bit,
                Some((0, _)) | None => return Self::of_exception_name(token),
                Some(_) => slot = (slot + 1) % SLOTS,
            }
        }
    }

    /// The keyword bits of an exception's name, such as `FileNotFoundError`. A word that does not
    /// end like the name of an exception has no bits.
    fn of_exception_name(token: &[u8]) -> Self {
        if !matches!(token.last(), Some(b'r' | b'n'))
            || (!token.ends_with(b"rror") && !token.ends_with(b"xception"))
        {
            Self::default()
        } else if token.ends_with(b"NotFoundError") || token.ends_with(b"NotFoundException") {
            Self(Self::ERROR.0 | Self::NO_SUCH.0)
        } else if token.ends_with(b"TimeoutError") || token.ends_with(b"TimeoutException") {
            Self(Self::ERROR.0 | Self::TIMEOUT.0)
        } else if token.ends_with(b"RefusedError") || token.ends_with(b"ConnectionError") {
            Self(Self::ERROR.0 | Self::NETWORK.0 | Self::DOWN.0)
        } else {
            Self::ERROR
        }
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a line with these keywords reports a failure.
    pub(super) const fn mean_failure(self) -> bool {
        self.has(Self::ERROR) || self.has(Self::DENIED) || self.has(Self::TIMEOUT)
    }

    /// The error class that the keywords of one line indicate, if any.
    pub(super) const fn class(self) -> Option<FailureKind> {
        let is_missing = self.has(Self::NO_SUCH) || (self.has(Self::NOT) && self.has(Self::FOUND));
        let is_http = self.has(Self::HTTP);
        if (self.has(Self::NETWORK) && (self.has(Self::DOWN) || self.has(Self::TIMEOUT)))
            || (is_http && self.has(Self::CODE_DOWN))
        {
            Some(FailureKind::Outage)
        } else if self.has(Self::RESOURCE) {
            Some(FailureKind::Resource)
        } else if self.has(Self::TIMEOUT) {
            Some(FailureKind::Timeout)
        } else if self.has(Self::TOOL) && (self.has(Self::UNKNOWN) || is_missing) {
            Some(FailureKind::UnknownTool)
        } else if self.has(Self::DENIED) || (is_http && self.has(Self::CODE_DENIED)) {
            Some(FailureKind::Permission)
        } else if self.has(Self::SYNTAX) {
            Some(FailureKind::Syntax)
        } else if self.has(Self::ARGUMENT)
            && (self.has(Self::INVALID) || self.has(Self::UNKNOWN) || is_missing)
        {
            Some(FailureKind::BadArguments)
        } else if self.has(Self::CHECK) {
            Some(FailureKind::Check)
        } else if is_missing || (is_http && self.has(Self::CODE_MISSING)) {
            Some(FailureKind::NotFound)
        } else {
            None
        }
    }
}

impl BitOrAssign for Keywords {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
