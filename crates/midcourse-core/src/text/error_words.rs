//! Finds words such as "failed" in error texts. A line with such a word reports a failure, so it is
//! part of the error's signature.
//!
//! The scanner looks up every word of every error in a hash table that is built at compile time.
//! The table is hand-written for speed: a word is packed into one `u128`, so that hashing,
//! comparing and lowercasing it take a few instructions each. The crate `phf` would hash byte by
//! byte and need a lowercase copy.

const ERROR_WORDS: &[&str] = &[
    "error",
    "errors",
    "fatal",
    "failed",
    "failure",
    "fails",
    "cannot",
    "unable",
    "exception",
    "panicked",
    "panic",
    "aborted",
    "undefined",
    "traceback",
    "denied",
    "forbidden",
    "permission",
    "unauthorized",
    "eacces",
    "eperm",
    "refusing",
    "disallowed",
    "read-only",
    "erofs",
    "timeout",
    "timed",
];

/// The bit 0x20 in each of 16 bytes. Setting it makes an uppercase ASCII letter lowercase. Setting
/// it in other characters does no harm, because no two words of the table differ only in that bit.
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

/// Number of slots in the hash table: several times the number of words, so that few collide.
const SLOTS: usize = 256;

/// The slot of the hash table at which the search for a packed word begins.
const fn slot_of(word: u128) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are combined")]
    let mixed = word as u64 ^ (word >> 64) as u64;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize % SLOTS
}

/// The hash table of the words. A word whose slot is taken is in the next free slot; 0 is an empty
/// slot.
static WORD_TABLE: [u128; SLOTS] = {
    let mut table = [0; SLOTS];
    let mut at = 0;
    while at < ERROR_WORDS.len() {
        #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
        {
            let word = packed(ERROR_WORDS[at].as_bytes());
            let mut slot = slot_of(word);
            while table[slot] != 0 {
                slot = (slot + 1) % SLOTS;
            }
            table[slot] = word;
        }
        at += 1;
    }
    table
};

/// Whether the first `length` bytes of a text are a word that means a failure.
pub(super) fn is_error_word(text: &[u8], length: usize) -> bool {
    let token = text.get(..length).unwrap_or_default();
    if length < 3 {
        return false;
    }
    if length > 16 {
        return is_exception_name(token);
    }
    let word = packed_start(text, length);
    let mut slot = slot_of(word);
    loop {
        match WORD_TABLE.get(slot) {
            Some(known) if *known == word => return true,
            Some(0) | None => return is_exception_name(token),
            Some(_) => slot = (slot + 1) % SLOTS,
        }
    }
}

/// Whether a word ends like the name of an exception, such as `FileNotFoundError`.
fn is_exception_name(token: &[u8]) -> bool {
    matches!(token.last(), Some(b'r' | b'n'))
        && (token.ends_with(b"rror") || token.ends_with(b"xception"))
}
