//! The text as a rule sees it.
//!
//! A rule may look ahead to the end of the text, but never back past the end of the last secret or
//! marker. What the rule finds therefore does not depend on whether the last secret is still in the
//! text or is already replaced by a marker, so redacting a redacted text changes nothing.

use super::bytes::{is_token_byte, prefix_len};
use super::kind::SecretKind;

/// The position of a secret in a text: the bytes `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SecretSpan {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: SecretKind,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    bytes: &'a [u8],
    /// The end of the last secret or marker. Rules do not see the text before it.
    floor: usize,
}

impl<'a> View<'a> {
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

    /// At most `max_len` bytes from `at` on.
    pub(super) fn ahead_up_to(&self, at: usize, max_len: usize) -> &'a [u8] {
        let ahead = self.ahead(at);
        ahead.get(..max_len).unwrap_or(ahead)
    }

    /// The bytes before `at`, back to the end of the last secret or marker.
    pub(super) fn before(&self, at: usize) -> &'a [u8] {
        self.bytes.get(self.floor..at).unwrap_or_default()
    }

    /// The length of the escape sequence for a terminal colour at `at`, or 0.
    pub(super) fn colour_len(&self, at: usize) -> usize {
        let Some(sequence) = self.ahead_up_to(at, 16).strip_prefix(b"\x1b[") else { return 0 };
        let len = prefix_len(sequence, |byte| matches!(byte, b'0'..=b'9' | b';'));
        if sequence.get(len) == Some(&b'm') { len + 3 } else { 0 }
    }

    /// Whether the text was cut off at `at`: it ends there, or an ellipsis or a note follows.
    pub(super) fn is_cut(&self, at: usize) -> bool {
        let ahead = self.ahead_up_to(at, 4);
        ahead.is_empty()
            || ahead.starts_with(b"...")
            || ahead.starts_with("…".as_bytes())
            || matches!(ahead, [b'\n', b'[', b'0'..=b'9', ..])
            || ahead.starts_with(b"[...")
    }

    /// Whether a token can start at `at`: the byte before it cannot be part of a token, or is the
    /// end of an escape sequence.
    pub(super) fn is_token_boundary(&self, at: usize) -> bool {
        match self.before(at) {
            // An escape sequence ends here: `\n` in a JSON string, `%3D` in a URL, or a terminal
            // colour.
            [.., b'\\', b'n' | b't' | b'r'] => true,
            [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
            [rest @ .., b'm' | b'K'] => ends_in_colour_parameters(rest),
            [.., last] => !is_token_byte(*last),
            [] => true,
        }
    }
}

/// Whether a text ends like the escape sequence for a terminal colour without its final letter:
/// `[01;31`.
fn ends_in_colour_parameters(text: &[u8]) -> bool {
    let last = text.iter().rev().take(8).find(|byte| !matches!(byte, b'0'..=b'9' | b';'));
    last == Some(&b'[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_starts_after_a_separator_or_an_escape_sequence() {
        let starts_after = |text: &str| View::new(text.as_bytes(), 0).is_token_boundary(text.len());
        for before in ["", " ", "\"", "=", "/", "é", r"\n", r"a\t", "%3D", "\x1b[01;31m"] {
            assert!(starts_after(before), "{before:?}");
        }
        for before in ["a", "9", "_", "-", "n", "m", "3D", "item", "farm"] {
            assert!(!starts_after(before), "{before:?}");
        }
    }

    #[test]
    fn nothing_before_the_floor_is_visible() {
        let view = View::new(b"abcdef", 3);
        assert_eq!(view.before(5), b"de");
        assert!(view.is_token_boundary(3));
        assert_eq!(view.before(2), b"");
        assert_eq!(view.ahead_up_to(4, 9), b"ef");
    }
}
