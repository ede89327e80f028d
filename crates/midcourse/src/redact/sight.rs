//! What a rule sees of a text: everything ahead, and behind only what was left in it.
//!
//! A rule never looks back past the last secret. What it decides is then the same whether it sees
//! the secret or what was written in its place, so that redacting twice is redacting once.

use super::shape::SecretShape;

/// A secret: where it is, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) shape: SecretShape,
}

/// A text, with the end of the last secret in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight<'a> {
    bytes: &'a [u8],
    floor: usize,
}

impl<'a> Sight<'a> {
    pub(super) const fn new(bytes: &'a [u8], floor: usize) -> Self {
        Self { bytes, floor }
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// Everything from `at` on.
    pub(super) fn ahead(&self, at: usize) -> &'a [u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// The first bytes from `at` on, at most `reach` of them.
    pub(super) fn head(&self, at: usize, reach: usize) -> &'a [u8] {
        let ahead = self.ahead(at);
        ahead.get(..reach).unwrap_or(ahead)
    }

    /// What was left in the text before `at`.
    pub(super) fn behind(&self, at: usize) -> &'a [u8] {
        self.bytes.get(self.floor..at).unwrap_or_default()
    }

    /// Whether a token may begin at `at`: no other one goes on there.
    pub(super) fn is_boundary(&self, at: usize) -> bool {
        match self.behind(at) {
            // Escapes: `\n` in a text within a text, `%3D` in an address, the colours of a terminal.
            [.., b'\\', b'n' | b't' | b'r'] => true,
            [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
            [rest @ .., b'm' | b'K'] => is_colour(rest),
            [.., last] => !in_token(*last),
            [] => true,
        }
    }
}

/// Whether a text ends in the beginning of a terminal's colour: `[01;31`.
fn is_colour(text: &[u8]) -> bool {
    let last = text.iter().rev().take(8).find(|byte| !matches!(byte, b'0'..=b'9' | b';'));
    last == Some(&b'[')
}

/// Whether a byte is part of a token; `sk-` in `task-force` and in `a-sk-b` begins none.
pub(super) const fn in_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// How many bytes at the beginning are of a kind.
pub(super) fn count(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !kind(*byte)).unwrap_or(bytes.len())
}

/// How many bytes at the end are of a kind.
pub(super) fn count_back(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    bytes.iter().rev().position(|byte| !kind(*byte)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_begins_behind_what_is_not_one() {
        let begins = |text: &str| Sight::new(text.as_bytes(), 0).is_boundary(text.len());
        for behind in ["", " ", "\"", "=", "/", "é", r"\n", r"a\t", "%3D", "\x1b[01;31m"] {
            assert!(begins(behind), "{behind:?}");
        }
        for behind in ["a", "9", "_", "-", "n", "m", "3D", "item", "farm"] {
            assert!(!begins(behind), "{behind:?}");
        }
    }

    #[test]
    fn nothing_is_seen_behind_the_floor() {
        let sight = Sight::new(b"abcdef", 3);
        assert_eq!(sight.behind(5), b"de");
        assert!(sight.is_boundary(3));
        assert_eq!(sight.behind(2), b"");
        assert_eq!(sight.head(4, 9), b"ef");
    }
}
