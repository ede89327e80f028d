//! Finds the few places in a text where a secret may start.
//!
//! Each rule has trigrams: three bytes in a row that must occur for the rule to match. One pass
//! looks for the trigrams of all rules at once. For each byte a table has three bit masks, one per
//! position in a trigram, with one bit per rule. If three bytes in a row have the bit of a rule in
//! their first, second and third mask, the place is a candidate, which the rule then checks. The
//! masks are computed at compile time, so a new process spends no time on them.

use super::positional::COMMANDS;
use super::prefixed_tokens::PREFIXED_TOKENS;
use super::recovery::HEADINGS;

/// How many bits of a mask, from the lowest, are for tokens with a known prefix. There are more
/// prefixes than bits. Several prefixes may share a bit, because the rule compares the whole prefix
/// anyway.
pub(super) const PREFIXED_TOKEN_BITS: u32 = 43;

/// The bits of the other rules, one each.
pub(super) const RECOVERY: u32 = 43;
pub(super) const AZURE_SECRET: u32 = 44;
pub(super) const MAILCHIMP: u32 = 45;
pub(super) const COMMA: u32 = 46;
pub(super) const CALL: u32 = 47;
pub(super) const PIPE: u32 = 48;
pub(super) const SQL: u32 = 49;
pub(super) const END_OF_KEY: u32 = 50;
pub(super) const BASE64_JSON: u32 = 51;
pub(super) const BASE64_PEM: u32 = 52;
pub(super) const MANIFEST_DATA: u32 = 53;
pub(super) const SPACED_LABEL: u32 = 54;
pub(super) const SENDGRID: u32 = 55;
pub(super) const MARKER: u32 = 56;
pub(super) const CUSTOM_PREFIX: u32 = 57;
pub(super) const ASSIGNMENT: u32 = 58;
pub(super) const COLON: u32 = 59;
pub(super) const FLAG: u32 = 60;
pub(super) const PRIVATE_KEY: u32 = 61;
pub(super) const JWT: u32 = 62;
pub(super) const DISCORD: u32 = 63;

/// The rules whose trigram is the start of a token. They apply only where a token can start.
pub(super) const TOKEN_RULES: u64 = ((1 << PREFIXED_TOKEN_BITS) - 1)
    | (1 << SENDGRID)
    | (1 << CUSTOM_PREFIX)
    | (1 << JWT)
    | (1 << BASE64_JSON)
    | (1 << BASE64_PEM)
    | (1 << DISCORD);

/// For one byte: the rules whose trigram has this byte in first, second or third place, one bit per
/// rule.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct ByteMasks {
    first: u64,
    second: u64,
    third: u64,
}

impl ByteMasks {
    const NONE: Self = Self { first: 0, second: 0, third: 0 };
}

/// A place where the prefilter found the trigram of at least one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The position of the trigram's third byte.
    pub(super) last: usize,
    /// The rules to check, one bit each.
    pub(super) rules: u64,
}

/// How far a text has been searched, and which trigrams have partly matched there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    at: usize,
    /// The rules whose trigram begins with the last byte read.
    one_matched: u64,
    /// The rules whose trigram begins with the last two bytes read.
    two_matched: u64,
}

impl Progress {
    /// Starts a search at `at`; trigrams that begin earlier are not found.
    pub(super) const fn from(at: usize) -> Self {
        Self { at, one_matched: 0, two_matched: 0 }
    }
}

/// The rules with fixed trigrams, which the table [`Trigrams`] contains.
const FIXED_RULES: u64 = ((1 << PREFIXED_TOKEN_BITS) - 1)
    | (1 << RECOVERY)
    | (1 << MAILCHIMP)
    | (1 << END_OF_KEY)
    | (1 << BASE64_PEM)
    | (1 << SENDGRID)
    | (1 << MARKER)
    | (1 << CUSTOM_PREFIX)
    | (1 << PRIVATE_KEY)
    | (1 << JWT);

/// The fixed trigrams, as bits at their hashes. Rules that share a bit of the masks have many false
/// candidates, such as one with the first byte of one rule and the second of another. This table
/// removes nearly all of them.
#[derive(Debug, Clone)]
struct Trigrams([u64; TRIGRAM_WORDS]);

const TRIGRAM_WORDS: usize = 256;

impl Trigrams {
    /// The word and the bit of a trigram.
    const fn place([a, b, c]: [u8; 3]) -> (usize, u32) {
        let trigram = (a as u32) << 16 | (b as u32) << 8 | c as u32;
        let hash = trigram.wrapping_mul(0x9e37_79b1);
        ((hash >> 24) as usize, hash >> 18 & 63)
    }

    #[expect(clippy::indexing_slicing, reason = "a place has eight bits, and there are 256 words")]
    const fn add(&mut self, trigram: [u8; 3]) {
        let (word, bit) = Self::place(trigram);
        self.0[word] |= 1 << bit;
    }

    fn contains(&self, trigram: [u8; 3]) -> bool {
        let (word, bit) = Self::place(trigram);
        self.0.get(word).is_some_and(|bits| bits & (1 << bit) != 0)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Prefilter {
    masks: [ByteMasks; 256],
    fixed: Trigrams,
}

/// The prefilter of all rules except custom prefixes.
pub(super) static BUILT_IN: Prefilter = Prefilter::built_in();

impl Prefilter {
    pub(super) fn next(&self, text: &[u8], progress: &mut Progress) -> Option<Candidate> {
        loop {
            let Candidate { last, rules } = self.next_unconfirmed(text, progress)?;
            let rules = self.confirm(rules, text, last);
            if rules != 0 {
                return Some(Candidate { last, rules });
            }
        }
    }

    #[inline]
    fn next_unconfirmed(&self, text: &[u8], progress: &mut Progress) -> Option<Candidate> {
        let Progress { at, mut one_matched, mut two_matched } = *progress;
        for (index, byte) in text.get(at..).unwrap_or_default().iter().enumerate() {
            let masks = self.masks(*byte);
            let rules = two_matched & masks.third;
            two_matched = one_matched & masks.second;
            one_matched = masks.first;
            if rules != 0 {
                *progress = Progress { at: at + index + 1, one_matched, two_matched };
                return Some(Candidate { last: at + index, rules });
            }
        }
        progress.at = text.len();
        None
    }

    /// The rules of a candidate without those whose trigram is not there.
    #[inline]
    fn confirm(&self, rules: u64, text: &[u8], last: usize) -> u64 {
        if rules & FIXED_RULES == 0 {
            return rules;
        }
        let trigram = last.checked_sub(2).and_then(|first| text.get(first..=last));
        match trigram {
            Some([a, b, c]) if self.fixed.contains([*a, *b, *c]) => rules,
            _ => rules & !FIXED_RULES,
        }
    }

    pub(super) const fn add_custom_prefix(&mut self, prefix: &[u8]) {
        if let [a, b, c, ..] = prefix {
            self.add(CUSTOM_PREFIX, [*a, *b, *c]);
        }
    }

    fn masks(&self, byte: u8) -> ByteMasks {
        // The table has 256 entries, so the lookup always succeeds.
        self.masks.get(usize::from(byte)).copied().unwrap_or(ByteMasks::NONE)
    }

    const fn built_in() -> Self {
        let mut prefilter =
            Self { masks: [ByteMasks::NONE; 256], fixed: Trigrams([0; TRIGRAM_WORDS]) };
        let (mut rest, mut bit) = (PREFIXED_TOKENS.as_slice(), 0);
        while let [token, others @ ..] = rest {
            if let [a, b, c, ..] = token.prefix.as_bytes() {
                prefilter.add(bit, [*a, *b, *c]);
            }
            (rest, bit) = (others, (bit + 1) % PREFIXED_TOKEN_BITS);
        }
        let (mut rest, mut bit) = (COMMANDS.as_slice(), 0);
        while let [(name, _), others @ ..] = rest {
            if let [a, b, c, ..] = name.as_bytes() {
                prefilter.add(bit, [*a, *b, *c]);
            }
            (rest, bit) = (others, (bit + 1) % PREFIXED_TOKEN_BITS);
        }
        prefilter.add(SENDGRID, *b"SG.");
        prefilter.add(MARKER, *b"[re");
        prefilter.add_all(FLAG, b" \"", b"-", b"-pPawskdN");
        prefilter.add_all(CALL, b"DdPpt", b"(", b"\"'b");
        prefilter.add_all(PIPE, b" ", b"|", b" ");
        prefilter.add_all(SPACED_LABEL, b"rR", b"dD", b" ");
        prefilter.add_all(SQL, b"yYdDsS", b" ", b"'\"");
        prefilter.add(PRIVATE_KEY, *b"BEG");
        prefilter.add(END_OF_KEY, *b"END");
        prefilter.add(MAILCHIMP, *b"-us");
        prefilter.add_all(AZURE_SECRET, b"0123456789", b"Q", b"~");
        let mut rest = HEADINGS.as_slice();
        while let [heading, others @ ..] = rest {
            if let [a, b, c, ..] = heading.as_bytes() {
                prefilter.add(RECOVERY, [*a, *b, *c]);
                prefilter.add(RECOVERY, [a.to_ascii_uppercase(), *b, *c]);
            }
            rest = others;
        }
        prefilter.add(BASE64_PEM, *b"LS0");
        prefilter.add_all(BASE64_JSON, b"e", b"wy", b"o0A");
        prefilter.add_all(MANIFEST_DATA, b"t", b"a", b":\"");
        prefilter.add(JWT, *b"eyJ");
        prefilter.add_byte_classes();
        prefilter
    }

    const fn add(&mut self, bit: u32, trigram: [u8; 3]) {
        self.fixed.add(trigram);
        let [first, second, third] = trigram;
        self.masks_mut(first).first |= 1 << bit;
        self.masks_mut(second).second |= 1 << bit;
        self.masks_mut(third).third |= 1 << bit;
    }

    /// Adds a rule whose trigrams have one of several bytes in each place.
    const fn add_all(&mut self, bit: u32, first: &[u8], second: &[u8], third: &[u8]) {
        let (mut first, mut second, mut third) = (first, second, third);
        while let [byte, rest @ ..] = first {
            self.masks_mut(*byte).first |= 1 << bit;
            first = rest;
        }
        while let [byte, rest @ ..] = second {
            self.masks_mut(*byte).second |= 1 << bit;
            second = rest;
        }
        while let [byte, rest @ ..] = third {
            self.masks_mut(*byte).third |= 1 << bit;
            third = rest;
        }
    }

    /// Adds the rules whose trigrams have classes of bytes, such as "any digit", instead of fixed
    /// bytes.
    const fn add_byte_classes(&mut self) {
        let mut byte = 0_u8;
        loop {
            let masks = self.masks_mut(byte);
            // The trigrams of assignments, such as `password=`, `"token" :` and `<secret>`. The
            // first byte is any byte. The second is the last byte of a label, or a byte that may
            // come between label and operator, such as a quote or a space. The third is an
            // operator.
            masks.first |= 1 << ASSIGNMENT;
            if matches!(byte | 0x20, b'd' | b'e' | b'g' | b'l' | b'n' | b's' | b't' | b'w' | b'y')
                && byte.is_ascii_alphabetic()
                || matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b']' | b':' | b'*' | b'4')
                || matches!(byte, b'k' | b'h')
            {
                masks.second |= 1 << ASSIGNMENT;
            }
            if matches!(byte, b'=' | b':' | b'>') {
                masks.third |= 1 << ASSIGNMENT;
            }
            // Trigrams at the end of a string in a list: `",`.
            masks.first |= 1 << COMMA;
            if matches!(byte, b'"' | b'\'') {
                masks.second |= 1 << COMMA;
            }
            if byte == b',' {
                masks.third |= 1 << COMMA;
            }
            // Trigrams with a colon between two parts: `user:password`, `123456:token`.
            if byte > b' ' && !matches!(byte, b'"' | b'\'' | b'`' | b':') {
                masks.first |= 1 << COLON;
                if byte != b'/' {
                    masks.third |= 1 << COLON;
                }
            }
            if byte == b':' {
                masks.second |= 1 << COLON;
            }
            // A Discord token begins with a user id, which is a number, in Base64. These are the
            // bytes that Base64 of digits can have in its first three places.
            if matches!(byte, b'M' | b'N' | b'O') {
                masks.first |= 1 << DISCORD;
            }
            if matches!(byte, b'D' | b'T' | b'j' | b'z') {
                masks.second |= 1 << DISCORD;
            }
            if matches!(byte, b'A' | b'E' | b'I' | b'M' | b'Q' | b'U' | b'Y' | b'c' | b'g' | b'k') {
                masks.third |= 1 << DISCORD;
            }
            if byte == u8::MAX {
                return;
            }
            byte += 1;
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the table has an entry for every byte")]
    const fn masks_mut(&mut self, byte: u8) -> &mut ByteMasks {
        &mut self.masks[byte as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(text: &str, bit: u32) -> Vec<usize> {
        let mut progress = Progress::default();
        std::iter::from_fn(|| BUILT_IN.next(text.as_bytes(), &mut progress))
            .filter(|candidate| candidate.rules & (1 << bit) != 0)
            .map(|candidate| candidate.last)
            .collect()
    }

    #[test]
    fn a_candidate_is_at_the_third_byte_of_its_trigram() {
        assert_eq!(candidates("eyJ eyeyJ ey J", JWT), [2, 8]);
        assert_eq!(candidates("a=b password=b token := c", ASSIGNMENT), [12, 21, 22]);
        assert_eq!(candidates("redis://:pw@h a:b c::d 12:30", COLON), [9, 16, 26]);
    }

    #[test]
    fn every_token_prefix_is_a_candidate() {
        for (index, token) in PREFIXED_TOKENS.iter().enumerate() {
            let bit = u32::try_from(index).unwrap() % PREFIXED_TOKEN_BITS;
            assert_eq!(candidates(token.prefix, bit).first(), Some(&2), "{}", token.prefix);
        }
    }

    #[test]
    fn prose_has_few_candidates() {
        let mut progress = Progress::default();
        let text =
            b"The quick brown fox jumps over the lazy dog while nobody looks, and on it goes";
        let candidates = std::iter::from_fn(|| BUILT_IN.next(text, &mut progress));
        assert!(candidates.count() < 8);
    }
}
