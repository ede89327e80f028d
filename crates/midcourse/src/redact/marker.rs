//! The marker `[redacted:KIND:HASH]` that replaces a secret in a stored text.
//!
//! `HASH` is a short keyed hash of the secret; a marker made without a key is `[redacted:KIND]`. No
//! rule finds a secret inside a marker, so redacting a redacted text changes nothing.

use super::bytes::{contains, last_bytes};
use super::key::MarkerKey;
use super::kind::SecretKind;

pub(super) const MARKER_START: &str = "[redacted:";
pub(super) const MARKER_END: &str = "]";

/// The length of the hash in a marker. The engine takes hexadecimal words of seven or more letters
/// for ids that differ each time, and ignores them when it compares two calls. So the hash is
/// shorter.
const HASH_LEN: usize = 6;

/// No marker is longer than this many bytes.
const MAX_MARKER_LEN: usize = 64;

/// The first letter of a hash is one of these, so that the hash is never taken for a number.
const FIRST_LETTERS: &[u8; 4] = b"bcdf";

pub(super) fn push_marker(
    text: &mut String,
    kind: SecretKind,
    secret: &str,
    key: Option<&MarkerKey>,
) {
    text.push_str(MARKER_START);
    text.push_str(kind.name());
    if let Some(hash) = key.and_then(|key| key.hash(secret.as_bytes())) {
        text.push(':');
        let [first, ..] = hash.as_bytes();
        let letter = FIRST_LETTERS.get(usize::from(first % 4)).copied().unwrap_or(b'b');
        text.push(char::from(letter));
        text.push_str(hash.to_hex().get(2..HASH_LEN + 1).unwrap_or_default());
    }
    text.push_str(MARKER_END);
}

/// The end of the marker that starts at `start`, if there is one.
pub(super) fn end_of_marker(text: &str, start: usize) -> Option<usize> {
    let name = text.get(start..)?.strip_prefix(MARKER_START)?;
    let len = |rest: &str| text.len() - rest.len();
    SecretKind::ALL.into_iter().find_map(|kind| {
        let rest = name.strip_prefix(kind.name())?;
        rest.strip_prefix(MARKER_END).or_else(|| after_hash(rest)).map(len)
    })
}

/// The text after `:HASH]`.
fn after_hash(text: &str) -> Option<&str> {
    let (hash, rest) = text.strip_prefix(':')?.split_at_checked(HASH_LEN)?;
    let is_hash = hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then(|| rest.strip_prefix(MARKER_END))?
}

/// Whether `bytes` contain the start of a marker, even if its end is cut off.
pub(super) fn contains_marker_start(bytes: &[u8]) -> bool {
    contains(bytes, MARKER_START.as_bytes())
}

/// The last position up to `at` that is not inside a character or a marker.
pub(super) fn floor_boundary(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    marker_around(text, at).map_or(at, |(start, _)| start)
}

/// The first position from `at` on that is not inside a character or a marker.
pub(super) fn ceil_boundary(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    marker_around(text, at).map_or(at, |(_, end)| end)
}

/// The start and end of the marker that contains the position `at`, not counting its first byte.
pub(super) fn marker_around(text: &str, at: usize) -> Option<(usize, usize)> {
    let before = text.as_bytes().get(..at)?;
    let near = last_bytes(before, MAX_MARKER_LEN);
    let start = before.len() - near.len() + memchr::memrchr(b'[', near)?;
    let end = end_of_marker(text, start)?;
    (end > at).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(secret: &str, key: Option<&MarkerKey>) -> String {
        let mut text = String::new();
        push_marker(&mut text, SecretKind::Jwt, secret, key);
        text
    }

    #[test]
    fn the_marker_tells_secrets_apart() {
        let (key, other) = (MarkerKey::new([1; 32]), MarkerKey::new([2; 32]));
        assert_eq!(marker("a", Some(&key)), marker("a", Some(&key)));
        assert_ne!(marker("a", Some(&key)), marker("b", Some(&key)));
        assert_ne!(marker("a", Some(&key)), marker("a", Some(&other)));
        assert_eq!(marker("a", None), "[redacted:jwt]");
    }

    #[test]
    fn markers_with_and_without_a_hash_are_recognised() {
        let key = MarkerKey::new([1; 32]);
        for text in [marker("a", None), marker("a", Some(&key)), "[redacted:jwt:012def]".into()] {
            assert_eq!(end_of_marker(&text, 0), Some(text.len()), "{text}");
            assert_eq!(end_of_marker(&format!("{text} b"), 0), Some(text.len()), "{text}");
        }
        for text in
            ["[redacted:jw]", "[redacted:jwt:012de]", "[redacted:jwt:012deg]", "[redacted:jwt"]
        {
            assert_eq!(end_of_marker(text, 0), None, "{text}");
        }
    }

    #[test]
    fn a_boundary_is_never_inside_a_marker() {
        let text = "ab[redacted:jwt]cd";
        for at in 3..16 {
            assert_eq!((floor_boundary(text, at), ceil_boundary(text, at)), (2, 16));
        }
        for at in [0, 2, 16, 18] {
            assert_eq!((floor_boundary(text, at), ceil_boundary(text, at)), (at, at));
        }
    }
}
