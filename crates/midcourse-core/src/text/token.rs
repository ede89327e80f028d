//! Normalizes one token, that is, a name, number or path without spaces: replaces the parts that a
//! machine generated (ids, addresses, clock times) and keeps the meaningful parts.
//!
//! Replacing too much is as bad as replacing too little. A short number stays, so that "12 errors"
//! and "7 errors" differ.

use super::byte::{ByteKinds, prefix_len};

/// The byte that replaces an id, a time or another value that differs each time.
pub(super) const PLACEHOLDER: u8 = b'#';

/// The shortest hexadecimal word that counts as an id; a short commit hash has 7 characters.
const MIN_ID_LEN: usize = 7;

/// The prefix of generated names of temporary files.
const TEMPORARY_PREFIX: &[u8] = b"tmp";

/// Fewest characters after the prefix in a generated temporary name.
const MIN_TEMPORARY_SUFFIX_LEN: usize = 5;

/// Length of the random word that container platforms put after an id in a generated name.
const GENERATED_SUFFIX_LEN: usize = 5;

const HEX: ByteKinds = ByteKinds::DIGIT.union(ByteKinds::HEX_LETTER);

/// The kind of text that a token is from. It determines which values are replaced by a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// The arguments of a call. Durations and positions in a file stay, because they are part of
    /// what the call asks for.
    Arguments,
    /// The result of a call. Durations are replaced, because they differ each time.
    Result,
    /// The text of an error. Durations are replaced, and positions in a file and directories are
    /// left out, because all of them can differ although the error is the same.
    Error,
}

/// Splits a token from the punctuation at its end.
pub(super) fn split_punctuation(token: &[u8]) -> (&[u8], &[u8]) {
    let end = token
        .iter()
        .rposition(|byte| !matches!(byte, b'.' | b':' | b'-' | b'/' | b'\\'))
        .map_or(0, |last| last + 1);
    token.split_at(end)
}

/// The kinds of bytes in a token, and its longest run of hexadecimal digits.
pub(super) struct Shape {
    kinds: ByteKinds,
    longest_hex_run: usize,
}

/// The length of the token at the beginning of a text, and its shape.
pub(super) fn token_shape(text: &[u8]) -> (usize, Shape) {
    let mut shape = Shape { kinds: ByteKinds::NONE, longest_hex_run: 0 };
    let mut run = 0;
    for (at, byte) in text.iter().enumerate() {
        let kind = ByteKinds::of(*byte);
        if kind == ByteKinds::NONE {
            return (at, shape);
        }
        shape.kinds = shape.kinds.union(kind);
        run = if kind.intersects(HEX) { run + 1 } else { 0 };
        shape.longest_hex_run = shape.longest_hex_run.max(run);
    }
    (text.len(), shape)
}

impl Shape {
    /// Whether a token that contains a digit may contain an id, a time or the like. This is a cheap
    /// first test; most tokens are short numbers and names and do not pass it.
    pub(super) fn may_be_volatile(&self, token: &[u8]) -> bool {
        self.longest_hex_run >= MIN_ID_LEN
            || self.kinds.intersects(ByteKinds::COLON)
            || matches!(token, [b'0'..=b'9', .., b's' | b'm' | b'h' | b'n' | b'c'])
            || matches!(token, [b'0', b'x' | b'X', ..])
            || is_date(token)
            || token.windows(TEMPORARY_PREFIX.len()).any(|word| word == TEMPORARY_PREFIX)
    }
}

/// Appends a token to `out`, with ids, times and the like replaced by a placeholder.
pub(super) fn write_token(token: &[u8], kinds: ByteKinds, text_kind: TextKind, out: &mut Vec<u8>) {
    if !kinds.intersects(ByteKinds::SLASH) {
        return write_component(token, kinds, text_kind, out);
    }
    // `3/10` is a count, not a path.
    if kinds.is_subset_of(ByteKinds::DIGIT.union(ByteKinds::SLASH)) {
        out.extend_from_slice(token);
        return;
    }
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let is_url = token.windows(3).any(|three| three == b"://");
    if text_kind == TextKind::Error && !is_url {
        let name = token.rsplit(is_slash).next().unwrap_or(token);
        return write_component(name, ByteKinds::of_all(name), text_kind, out);
    }
    for (index, component) in token.split(is_slash).enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        write_component(component, ByteKinds::of_all(component), text_kind, out);
    }
}

/// Appends one component: the text between two slashes of a path, or a whole token without slashes.
/// A component can be a name, a name with a line number (`main.rs:10`), a number or a time.
fn write_component(component: &[u8], kinds: ByteKinds, text_kind: TextKind, out: &mut Vec<u8>) {
    // `+0x2c` in a stack trace is an offset in a function; its `+` is kept.
    let component = match component {
        [b'+', address @ ..] if address.starts_with(b"0x") => {
            out.push(b'+');
            address
        }
        other => other,
    };
    if !kinds.intersects(ByteKinds::DIGIT) {
        out.extend_from_slice(component);
        return;
    }
    // A date in arguments may be a day that the call asks for, and stays. A date with a time (more
    // than 10 bytes) is a clock time, and is replaced in every kind of text.
    if is_date(component) && (text_kind != TextKind::Arguments || component.len() > 10) {
        out.push(PLACEHOLDER);
        return;
    }
    if !kinds.intersects(ByteKinds::COLON) {
        return write_part(component, kinds, text_kind, out);
    }
    if is_clock(component, kinds, text_kind) {
        out.push(PLACEHOLDER);
        return;
    }
    let mut is_file = false;
    for (index, part) in component.split(|byte| *byte == b':').enumerate() {
        let kinds = ByteKinds::of_all(part);
        if index == 0 {
            is_file = text_kind == TextKind::Error && is_file_name(part);
        } else if is_file && kinds == ByteKinds::DIGIT {
            continue;
        } else {
            out.push(b':');
        }
        write_part(part, kinds, text_kind, out);
    }
}

fn write_part(part: &[u8], kinds: ByteKinds, text_kind: TextKind, out: &mut Vec<u8>) {
    let min_temporary_len = TEMPORARY_PREFIX.len() + MIN_TEMPORARY_SUFFIX_LEN;
    if part.starts_with(TEMPORARY_PREFIX) && part.len() >= min_temporary_len {
        out.push(PLACEHOLDER);
        return;
    }
    if !kinds.intersects(ByteKinds::JOINER) {
        let is_volatile =
            is_generated(part, kinds) || (text_kind != TextKind::Arguments && is_duration(part));
        if is_volatile {
            out.push(PLACEHOLDER)
        } else {
            out.extend_from_slice(part)
        }
        return;
    }
    if is_uuid(part) || (text_kind != TextKind::Arguments && is_duration(part)) {
        out.push(PLACEHOLDER);
        return;
    }
    if part.len() < MIN_ID_LEN {
        out.extend_from_slice(part);
        return;
    }
    // A name such as `job-1a2b3c4d5e.log` may contain an id between its dashes and dots.
    // In `worker-58c7d9b6c-x8k2p`, the word after the id is generated, too.
    let mut follows_id = false;
    let is_joiner = |byte: &u8| ByteKinds::of(*byte) == ByteKinds::JOINER;
    for piece in part.split_inclusive(is_joiner) {
        let word = piece.strip_suffix(b"-").or_else(|| piece.strip_suffix(b"."));
        let word = word.or_else(|| piece.strip_suffix(b"_")).unwrap_or(piece);
        let is_id = word.len() >= MIN_ID_LEN && is_generated(word, ByteKinds::of_all(word));
        let is_suffix = std::mem::replace(&mut follows_id, is_id)
            && word.len() == GENERATED_SUFFIX_LEN
            && word.iter().any(u8::is_ascii_digit);
        if is_id || is_suffix {
            out.push(PLACEHOLDER);
            out.extend_from_slice(piece.get(word.len()..).unwrap_or_default());
        } else {
            out.extend_from_slice(piece);
        }
    }
}

/// Whether a name is a file name, so that numbers after it are a line and column: it has an
/// extension, or is a name such as `Makefile`.
pub(super) fn is_file_name(part: &[u8]) -> bool {
    let extension = part.iter().rposition(|byte| *byte == b'.').and_then(|at| part.get(at + 1..));
    extension.is_some_and(|extension| extension.first().is_some_and(u8::is_ascii_alphabetic))
        || part.ends_with(b"file")
}

/// Whether a word is an id (a hexadecimal number of at least 7 characters, with at least two
/// decimal digits), an address (`0x…`) or a Unix time (ten or thirteen digits that begin with 1).
fn is_generated(word: &[u8], kinds: ByteKinds) -> bool {
    if kinds == ByteKinds::DIGIT {
        return matches!(word.len(), 10 | 13) && word.first() == Some(&b'1');
    }
    if kinds.is_subset_of(HEX) {
        let digits = || word.iter().filter(|byte| byte.is_ascii_digit()).count();
        return word.len() >= MIN_ID_LEN && digits() >= 2;
    }
    match word {
        [b'0', b'x' | b'X', hex @ ..] => {
            !hex.is_empty() && ByteKinds::of_all(hex).is_subset_of(HEX)
        }
        _ => false,
    }
}

fn is_uuid(word: &[u8]) -> bool {
    word.len() == 36
        && word.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether a token is a date such as `2026-11-15`, alone or followed by a time.
fn is_date(token: &[u8]) -> bool {
    token.len() >= 10
        && token.get(4) == Some(&b'-')
        && token.iter().take(10).enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && token.get(10).is_none_or(|next| matches!(next, b'T' | b'_' | b'-' | b':'))
}

/// Whether a component (a word, or one name in a path) is a clock time such as `08:12:34`, with or
/// without a fraction or time zone. In an error, `12:34` counts as a time: it may be a line and a
/// column there, which are replaced just like a time.
fn is_clock(component: &[u8], kinds: ByteKinds, text_kind: TextKind) -> bool {
    const CLOCK: ByteKinds = ByteKinds::DIGIT
        .union(ByteKinds::COLON)
        .union(ByteKinds::JOINER)
        .union(ByteKinds::OTHER)
        .union(ByteKinds::LETTER);
    if !kinds.is_subset_of(CLOCK) || !component.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let min_parts = if text_kind == TextKind::Error { 2 } else { 3 };
    let parts = component.iter().filter(|byte| **byte == b':').count() + 1;
    let is_part = |(index, part): (usize, &[u8])| {
        // Only the last part can have a fraction or a time zone.
        let is_last = index + 1 == parts;
        let end = prefix_len(part, |byte| byte.is_ascii_digit());
        (end == part.len() || (is_last && matches!(part.get(end), Some(b'.' | b'Z' | b'+'))))
            && (end == 2 || (text_kind == TextKind::Error && end > 0))
    };
    parts >= min_parts && component.split(|byte| *byte == b':').enumerate().all(is_part)
}

/// Whether a text is a duration, such as `0.03s`, `12ms` or `1h2m3s`.
fn is_duration(part: &[u8]) -> bool {
    let ends_in_unit = matches!(part.last(), Some(b's' | b'm' | b'h' | b'n' | b'c'));
    if !ends_in_unit || !part.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let mut rest = part;
    while !rest.is_empty() {
        let number = prefix_len(rest, |byte| byte.is_ascii_digit() || byte == b'.');
        let (_, after) = rest.split_at(number);
        let (unit, after) = after.split_at(prefix_len(after, |byte| !byte.is_ascii_digit()));
        if number == 0 || !is_time_unit(unit) {
            return false;
        }
        rest = after;
    }
    true
}

pub(crate) fn is_time_unit(word: &[u8]) -> bool {
    matches!(
        word,
        b"s" | b"ms"
            | b"us"
            | b"\xc2\xb5s"
            | b"ns"
            | b"m"
            | b"h"
            | b"min"
            | b"mins"
            | b"sec"
            | b"secs"
            | b"second"
            | b"seconds"
            | b"minute"
            | b"minutes"
            | b"hour"
            | b"hours"
            | b"milliseconds"
    )
}

/// Whether a token is a number: digits and dots, beginning with a digit.
pub(super) fn is_decimal(token: &[u8]) -> bool {
    token.first().is_some_and(u8::is_ascii_digit)
        && token.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}
