//! Finding the few places of a text where a secret may begin.
//!
//! An anchor is three bytes in a row. All anchors are looked for at once: every byte has a row of
//! bit sets, one for each of the three places, and a bit that survives three bytes is a place to
//! look at. The rows of the known anchors are built by the compiler.

use super::known::KNOWN;

/// Known prefixes share these bits; two with the same bit are told apart where they are looked at.
pub(super) const KNOWN_BITS: u32 = 54;

/// Anchors that are not prefixes of tokens, by bit.
pub(super) const NETRC: u32 = 54;
pub(super) const SENDGRID: u32 = 55;
pub(super) const PLACEHOLDER: u32 = 56;
pub(super) const OWN: u32 = 57;
pub(super) const OPERATOR: u32 = 58;
pub(super) const COLON: u32 = 59;
pub(super) const FLAG: u32 = 60;
pub(super) const PEM: u32 = 61;
pub(super) const JWT: u32 = 62;
pub(super) const DISCORD: u32 = 63;

/// The anchors with which a token begins: they count only where no other token goes on.
pub(super) const TOKENS: u64 =
    ((1 << KNOWN_BITS) - 1) | (1 << SENDGRID) | (1 << OWN) | (1 << JWT) | (1 << DISCORD);

/// The bits of one byte: of the anchors that have it in the first, second and third place.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Row {
    first: u64,
    second: u64,
    third: u64,
}

/// The anchors that are looked for.
#[derive(Debug, Clone)]
pub(super) struct Anchors([Row; 256]);

/// The anchors of all known shapes.
pub(super) static KNOWN_ANCHORS: Anchors = Anchors::known();

/// How far a text has been looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    pub(super) at: usize,
    one: u64,
    two: u64,
}

impl Progress {
    /// Nothing before `at` counts.
    pub(super) const fn from(at: usize) -> Self {
        Self { at, one: 0, two: 0 }
    }
}

impl Anchors {
    /// The last byte of the next anchor, and the bits of the anchors it may be.
    #[inline]
    pub(super) fn next(&self, text: &[u8], progress: &mut Progress) -> Option<(usize, u64)> {
        let Progress { at, mut one, mut two } = *progress;
        for (index, byte) in text.get(at..).unwrap_or_default().iter().enumerate() {
            let row = self.row(*byte);
            let found = two & row.third;
            two = one & row.second;
            one = row.first;
            if found != 0 {
                *progress = Progress { at: at + index + 1, one, two };
                return Some((at + index, found));
            }
        }
        progress.at = text.len();
        None
    }

    /// Looks for a person's own prefix too.
    pub(super) const fn add_own(&mut self, prefix: &[u8]) {
        if let [a, b, c, ..] = prefix {
            self.add(OWN, [*a, *b, *c]);
        }
    }

    fn row(&self, byte: u8) -> Row {
        // The table has a place for every byte.
        const NONE: Row = Row { first: 0, second: 0, third: 0 };
        self.0.get(usize::from(byte)).copied().unwrap_or(NONE)
    }

    const fn known() -> Self {
        let mut anchors = Self([Row { first: 0, second: 0, third: 0 }; 256]);
        let (mut rest, mut bit) = (KNOWN.as_slice(), 0);
        while let [known, others @ ..] = rest {
            if let [a, b, c, ..] = known.prefix.as_bytes() {
                anchors.add(bit, [*a, *b, *c]);
            }
            (rest, bit) = (others, (bit + 1) % KNOWN_BITS);
        }
        anchors.add(SENDGRID, *b"SG.");
        anchors.add(PLACEHOLDER, *b"[re");
        anchors.add(FLAG, *b" --");
        anchors.add(FLAG, *b" -p");
        anchors.add(NETRC, *b"rd ");
        anchors.add(PEM, *b"BEG");
        anchors.add(JWT, *b"eyJ");
        anchors.add_kinds();
        anchors
    }

    const fn add(&mut self, bit: u32, [first, second, third]: [u8; 3]) {
        self.at(first).first |= 1 << bit;
        self.at(second).second |= 1 << bit;
        self.at(third).third |= 1 << bit;
    }

    /// The anchors that are kinds of bytes rather than bytes.
    const fn add_kinds(&mut self) {
        let mut byte = 0_u8;
        loop {
            let row = self.at(byte);
            // Behind a label: `password=`, `"token" :`, `<secret>`.
            row.first |= 1 << OPERATOR;
            if matches!(byte | 0x20, b'd' | b'e' | b'g' | b'l' | b'n' | b's' | b't' | b'y')
                && byte.is_ascii_alphabetic()
                || matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b']' | b':')
            {
                row.second |= 1 << OPERATOR;
            }
            if matches!(byte, b'=' | b':' | b'>') {
                row.third |= 1 << OPERATOR;
            }
            // Between two parts: `user:password`, `123456:token`.
            if byte > b' ' && !matches!(byte, b'"' | b'\'' | b'`' | b':') {
                row.first |= 1 << COLON;
                if byte != b'/' {
                    row.third |= 1 << COLON;
                }
            }
            if byte == b':' {
                row.second |= 1 << COLON;
            }
            // The first three digits of a number, encoded.
            if matches!(byte, b'M' | b'N' | b'O') {
                row.first |= 1 << DISCORD;
            }
            if matches!(byte, b'D' | b'T' | b'j' | b'z') {
                row.second |= 1 << DISCORD;
            }
            if matches!(byte, b'A' | b'E' | b'I' | b'M' | b'Q' | b'U' | b'Y' | b'c' | b'g' | b'k') {
                row.third |= 1 << DISCORD;
            }
            if byte == u8::MAX {
                return;
            }
            byte += 1;
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the table has a place for every byte")]
    const fn at(&mut self, byte: u8) -> &mut Row {
        &mut self.0[byte as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str, bit: u32) -> Vec<usize> {
        let mut progress = Progress::default();
        std::iter::from_fn(|| KNOWN_ANCHORS.next(text.as_bytes(), &mut progress))
            .filter(|(_, bits)| bits & (1 << bit) != 0)
            .map(|(at, _)| at)
            .collect()
    }

    #[test]
    fn an_anchor_is_found_where_it_ends() {
        assert_eq!(bits("eyJ eyeyJ ey J", JWT), [2, 8]);
        assert_eq!(bits("a=b password=b token := c", OPERATOR), [12, 21, 22]);
        assert_eq!(bits("redis://:pw@h a:b c::d 12:30", COLON), [9, 16, 26]);
    }

    #[test]
    fn every_known_prefix_is_an_anchor() {
        for (index, known) in KNOWN.iter().enumerate() {
            let bit = u32::try_from(index).unwrap() % KNOWN_BITS;
            assert_eq!(bits(known.prefix, bit).first(), Some(&2), "{}", known.prefix);
        }
    }

    #[test]
    fn prose_has_few() {
        let mut progress = Progress::default();
        let text =
            b"The quick brown fox jumps over the lazy dog while nobody looks, and on it goes";
        let anchors = std::iter::from_fn(|| KNOWN_ANCHORS.next(text, &mut progress));
        assert!(anchors.count() < 4);
    }
}
