//! Finds the few places in a text where a secret may start.
//!
//! Each rule has trigrams: three bytes in a row that must occur for the rule to match. One pass
//! looks for the trigrams of all rules at once. For each byte a table has three bit masks, one per
//! position in a trigram, with one bit per rule. If three bytes in a row have the bit of a rule in
//! their first, second and third mask, the place is a candidate, which the rule then checks. The
//! masks are computed at compile time, so a new process spends no time on them.

use super::prefixed_tokens::PREFIXED_TOKENS;

/// How many bits of a mask, from the lowest, are for tokens with a known prefix. There are more
/// prefixes than bits. Several prefixes may share a bit, because the rule compares the whole prefix
/// anyway.
pub(super) const PREFIXED_TOKEN_BITS: u32 = 54;

/// The bits of the other rules, one each.
pub(super) const NETRC: u32 = 54;
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

#[derive(Debug, Clone)]
pub(super) struct Prefilter([ByteMasks; 256]);

/// The prefilter of all rules except custom prefixes.
pub(super) static BUILT_IN: Prefilter = Prefilter::built_in();

impl Prefilter {
    #[inline]
    pub(super) fn next(&self, text: &[u8], progress: &mut Progress) -> Option<Candidate> {
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

    pub(super) const fn add_custom_prefix(&mut self, prefix: &[u8]) {
        if let [a, b, c, ..] = prefix {
            self.add(CUSTOM_PREFIX, [*a, *b, *c]);
        }
    }

    fn masks(&self, byte: u8) -> ByteMasks {
        // The table has 256 entries, so the lookup always succeeds.
        self.0.get(usize::from(byte)).copied().unwrap_or(ByteMasks::NONE)
    }

    const fn built_in() -> Self {
        let mut prefilter = Self([ByteMasks::NONE; 256]);
        let (mut rest, mut bit) = (PREFIXED_TOKENS.as_slice(), 0);
        while let [token, others @ ..] = rest {
            if let [a, b, c, ..] = token.prefix.as_bytes() {
                prefilter.add(bit, [*a, *b, *c]);
            }
            (rest, bit) = (others, (bit + 1) % PREFIXED_TOKEN_BITS);
        }
        prefilter.add(SENDGRID, *b"SG.");
        prefilter.add(MARKER, *b"[re");
        prefilter.add(FLAG, *b" --");
        prefilter.add(FLAG, *b" -p");
        prefilter.add(NETRC, *b"rd ");
        prefilter.add(PRIVATE_KEY, *b"BEG");
        prefilter.add(JWT, *b"eyJ");
        prefilter.add_byte_classes();
        prefilter
    }

    const fn add(&mut self, bit: u32, [first, second, third]: [u8; 3]) {
        self.masks_mut(first).first |= 1 << bit;
        self.masks_mut(second).second |= 1 << bit;
        self.masks_mut(third).third |= 1 << bit;
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
            if matches!(byte | 0x20, b'd' | b'e' | b'g' | b'l' | b'n' | b's' | b't' | b'y')
                && byte.is_ascii_alphabetic()
                || matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b']' | b':')
            {
                masks.second |= 1 << ASSIGNMENT;
            }
            if matches!(byte, b'=' | b':' | b'>') {
                masks.third |= 1 << ASSIGNMENT;
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
        &mut self.0[byte as usize]
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
        assert!(candidates.count() < 4);
    }
}
