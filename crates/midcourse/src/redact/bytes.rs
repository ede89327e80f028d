//! Byte classes and searches in byte strings, which several rules use.
//!
//! All functions accept any bytes, also invalid UTF-8.

/// Whether a byte can be part of a token. `-` counts, so that no token starts in the middle of a
/// name with dashes, such as at the `sk-` in `my-sk-theme`.
pub(super) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether a byte can be part of a credential in an HTTP header.
pub(super) const fn is_credential_byte(byte: u8) -> bool {
    is_token_byte(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

/// Whether a byte can be part of standard Base64, padding included.
pub(super) const fn is_base64_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

#[cfg(test)]
thread_local! {
    /// How many bytes the rules have examined on this thread.
    static EXAMINED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that a rule examines, for the tests of linear time. Does nothing in a release.
pub(super) fn examine(bytes: usize) {
    #[cfg(test)]
    EXAMINED.set(EXAMINED.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

/// Returns the number of bytes examined since the last call.
#[cfg(test)]
pub(super) fn take_examined() -> usize {
    EXAMINED.replace(0)
}

/// The length of the longest prefix whose bytes all match.
pub(super) fn prefix_len(bytes: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    let len = bytes.iter().position(|byte| !matches(*byte)).unwrap_or(bytes.len());
    examine(len + 1);
    len
}

/// The length of the longest suffix whose bytes all match.
pub(super) fn suffix_len(bytes: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    let len = bytes.iter().rev().position(|byte| !matches(*byte)).unwrap_or(bytes.len());
    examine(len + 1);
    len
}

/// The last `max_len` bytes, or all if there are fewer.
pub(super) fn last_bytes(bytes: &[u8], max_len: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(max_len)..).unwrap_or_default()
}

/// The longest suffix within the last `max_len` bytes whose bytes all match.
pub(super) fn matching_suffix(bytes: &[u8], max_len: usize, matches: impl Fn(u8) -> bool) -> &[u8] {
    let bytes = last_bytes(bytes, max_len);
    last_bytes(bytes, suffix_len(bytes, matches))
}

pub(super) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    examine(bytes.len());
    memchr::memmem::find(bytes, part).is_some()
}

pub(super) fn contains_any(bytes: &[u8], parts: &[&[u8]]) -> bool {
    parts.iter().any(|part| contains(bytes, part))
}

/// Whether `bytes` end with `end`, regardless of case.
pub(super) fn ends_with_ignore_case(bytes: &[u8], end: &[u8]) -> bool {
    last_bytes(bytes, end.len()).eq_ignore_ascii_case(end)
}

/// The number of different bytes. Only the lower seven bits of each byte are compared, so the
/// number is exact for ASCII and may be too low for other text.
pub(super) fn count_distinct(bytes: &[u8]) -> u32 {
    examine(bytes.len());
    let set = bytes.iter().fold(0_u128, |set, byte| set | 1 << (byte & 0x7f));
    set.count_ones()
}
