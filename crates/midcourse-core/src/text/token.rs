//! One token of a text: what of it changes from run to run, and what carries meaning.
//!
//! Over-normalising is as bad as not normalising: a bare number always stays, so "12 errors" and
//! "7 errors" are different. What goes is what a machine made up: ids, addresses, clocks.

use super::byte::{ByteKinds, prefix_len};

/// Stands where something volatile stood.
pub(super) const HOLE: u8 = b'#';

/// The shortest hexadecimal word that is taken for an id: a short commit hash.
const ID_MIN: usize = 7;

/// How names begin that a system makes up for files nobody keeps.
const TEMPORARY: &[u8] = b"tmp";

/// ByteKinds of hexadecimal digits.
const HEX: ByteKinds = ByteKinds::DIGIT.union(ByteKinds::HEX_LETTER);

/// Which text is being stripped; they differ in what is volatile in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Arguments: a duration or a position is part of the question.
    Question,
    /// A result: how long it took is not part of the answer.
    Answer,
    /// An error: where exactly it happened is not part of what it is.
    Error,
}

/// The token without the punctuation behind it, and that punctuation.
pub(super) fn split_tail(token: &[u8]) -> (&[u8], &[u8]) {
    let end = token
        .iter()
        .rposition(|byte| !matches!(byte, b'.' | b':' | b'-' | b'/' | b'\\'))
        .map_or(0, |last| last + 1);
    token.split_at(end)
}

/// What one pass over a token tells about it.
pub(super) struct Shape {
    kinds: ByteKinds,
    longest_hex_run: usize,
}

/// The length of the token with which a text begins, and its shape.
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
    /// Whether a token with a digit is worth a closer look: most are short numbers and names.
    pub(super) fn may_be_volatile(&self, token: &[u8]) -> bool {
        self.longest_hex_run >= ID_MIN
            || self.kinds.intersects(ByteKinds::COLON)
            || matches!(token, [b'0'..=b'9', .., b's' | b'm' | b'h' | b'n' | b'c'])
            || matches!(token, [b'0', b'x' | b'X', ..])
            || is_date(token)
            || token.windows(TEMPORARY.len()).any(|word| word == TEMPORARY)
    }
}

/// Writes a token as it looks without what is volatile in it.
pub(super) fn write_token(token: &[u8], kinds: ByteKinds, form: Form, out: &mut Vec<u8>) {
    if !kinds.intersects(ByteKinds::SLASH) {
        return write_component(token, kinds, form, out);
    }
    // `3/10` is a count, not a path.
    if kinds.is_subset_of(ByteKinds::DIGIT.union(ByteKinds::SLASH)) {
        out.extend_from_slice(token);
        return;
    }
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let is_url = token.windows(3).any(|three| three == b"://");
    if form == Form::Error && !is_url {
        let name = token.rsplit(is_slash).next().unwrap_or(token);
        return write_component(name, ByteKinds::of_all(name), form, out);
    }
    for (index, component) in token.split(is_slash).enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        write_component(component, ByteKinds::of_all(component), form, out);
    }
}

/// Writes what stands between two slashes: a name, perhaps with a position behind it.
fn write_component(component: &[u8], kinds: ByteKinds, form: Form, out: &mut Vec<u8>) {
    // `+0x2c` is where in a function, `0x2c` an address.
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
    // A day may be what is asked for; a day and a time is a clock.
    if is_date(component) && (form != Form::Question || component.len() > 10) {
        out.push(HOLE);
        return;
    }
    if !kinds.intersects(ByteKinds::COLON) {
        return write_part(component, kinds, form, out);
    }
    if is_clock(component, kinds, form) {
        out.push(HOLE);
        return;
    }
    let mut is_file = false;
    for (index, part) in component.split(|byte| *byte == b':').enumerate() {
        let kinds = ByteKinds::of_all(part);
        if index == 0 {
            is_file = form == Form::Error && is_file_name(part);
        } else if is_file && kinds == ByteKinds::DIGIT {
            continue;
        } else {
            out.push(b':');
        }
        write_part(part, kinds, form, out);
    }
}

fn write_part(part: &[u8], kinds: ByteKinds, form: Form, out: &mut Vec<u8>) {
    if part.starts_with(TEMPORARY) && part.len() >= TEMPORARY.len() + 5 {
        out.push(HOLE);
        return;
    }
    if !kinds.intersects(ByteKinds::JOINER) {
        let is_hole = is_made_up(part, kinds) || (form != Form::Question && is_duration(part));
        if is_hole {
            out.push(HOLE)
        } else {
            out.extend_from_slice(part)
        }
        return;
    }
    if is_uuid(part) || (form != Form::Question && is_duration(part)) {
        out.push(HOLE);
        return;
    }
    if part.len() < ID_MIN {
        out.extend_from_slice(part);
        return;
    }
    // A name such as `job-1a2b3c4d5e.log` may hold an id between its dashes and dots.
    let is_joint = |byte: &u8| ByteKinds::of(*byte) == ByteKinds::JOINER;
    for piece in part.split_inclusive(is_joint) {
        let word = piece.strip_suffix(b"-").or_else(|| piece.strip_suffix(b"."));
        let word = word.or_else(|| piece.strip_suffix(b"_")).unwrap_or(piece);
        if word.len() >= ID_MIN && is_made_up(word, ByteKinds::of_all(word)) {
            out.push(HOLE);
            out.extend_from_slice(piece.get(word.len()..).unwrap_or_default());
        } else {
            out.extend_from_slice(piece);
        }
    }
}

/// Whether numbers behind this name are a position in it: it has an ending, or a usual name.
pub(super) fn is_file_name(part: &[u8]) -> bool {
    let ending = part.iter().rposition(|byte| *byte == b'.').and_then(|at| part.get(at + 1..));
    ending.is_some_and(|ending| ending.first().is_some_and(u8::is_ascii_alphabetic))
        || part.ends_with(b"file")
}

/// Ids and addresses: hexadecimal with both letters and digits, `0x…`, seconds since the epoch.
fn is_made_up(word: &[u8], kinds: ByteKinds) -> bool {
    if kinds == ByteKinds::DIGIT {
        return matches!(word.len(), 10 | 13) && word.first() == Some(&b'1');
    }
    if kinds.is_subset_of(HEX) {
        let digits = || word.iter().filter(|byte| byte.is_ascii_digit()).count();
        return word.len() >= ID_MIN && digits() >= 2;
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

/// `2026-11-15`, alone or with a time behind it.
fn is_date(token: &[u8]) -> bool {
    token.len() >= 10
        && token.get(4) == Some(&b'-')
        && token.iter().take(10).enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && token.get(10).is_none_or(|next| matches!(next, b'T' | b'_' | b'-' | b':'))
}

/// `08:12:34`, with or without a fraction; in an error also `12:34`, which may be a position.
fn is_clock(component: &[u8], kinds: ByteKinds, form: Form) -> bool {
    const CLOCK: ByteKinds = ByteKinds::DIGIT
        .union(ByteKinds::COLON)
        .union(ByteKinds::JOINER)
        .union(ByteKinds::OTHER)
        .union(ByteKinds::LETTER);
    if !kinds.is_subset_of(CLOCK) || !component.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let least = if form == Form::Error { 2 } else { 3 };
    let parts = component.iter().filter(|byte| **byte == b':').count() + 1;
    let is_part = |(index, part): (usize, &[u8])| {
        // Only the last part can have a fraction or a zone behind it.
        let is_last = index + 1 == parts;
        let end = prefix_len(part, |byte| byte.is_ascii_digit());
        (end == part.len() || (is_last && matches!(part.get(end), Some(b'.' | b'Z' | b'+'))))
            && (end == 2 || (form == Form::Error && end > 0))
    };
    parts >= least && component.split(|byte| *byte == b':').enumerate().all(is_part)
}

/// `0.03s`, `12ms`, `1h2m3s`.
fn is_duration(part: &[u8]) -> bool {
    let ends_in_unit = matches!(part.last(), Some(b's' | b'm' | b'h' | b'n' | b'c'));
    if !ends_in_unit || !part.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let mut rest = part;
    while !rest.is_empty() {
        let number = prefix_len(rest, |byte| byte.is_ascii_digit() || byte == b'.');
        let (_, behind) = rest.split_at(number);
        let (unit, behind) = behind.split_at(prefix_len(behind, |byte| !byte.is_ascii_digit()));
        if number == 0 || !is_unit(unit) {
            return false;
        }
        rest = behind;
    }
    true
}

/// Whether this word is a unit of time.
pub(super) fn is_unit(word: &[u8]) -> bool {
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

/// Whether these bytes are a whole or decimal number.
pub(super) fn is_decimal(token: &[u8]) -> bool {
    token.first().is_some_and(u8::is_ascii_digit)
        && token.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}
