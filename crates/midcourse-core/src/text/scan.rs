//! Replaces volatile values, which differ each time a call is made (ids, clock times, durations),
//! in arguments and results. Also normalizes error texts.
//!
//! These functions are called for every argument and every result, so the loops are written to skip
//! text that needs no change quickly.

use super::byte::{ByteKinds, is_token_byte, prefix_len};
use super::error_words::is_error_word;
use super::token::{
    PLACEHOLDER, TextKind, is_decimal, is_file_name, is_time_unit, split_punctuation, token_shape,
    write_token,
};

/// The scan finds a digit and then looks for the start of the token that contains the digit, at
/// most this many bytes before it. A longer token is data, not an id or a time.
const MAX_TOKEN_LOOKBACK_BYTES: usize = 128;

/// Names of fields whose values differ each time the same call is made.
const VOLATILE_NAMES: [&[u8]; 18] = [
    b"service-time",
    b"response_time",
    b"response-time",
    b"elapsed",
    b"duration",
    b"duration_ms",
    b"latency_ms",
    b"uptime",
    b"request_id",
    b"requestid",
    b"request-id",
    b"trace_id",
    b"traceid",
    b"span_id",
    b"correlation_id",
    b"nonce",
    b"elapsed_ms",
    b"wall time",
];

/// Appends `text` to `out` with `#` in place of ids, clock times and process ids; in a result
/// (`is_result`) also in place of durations and values of fields such as `request_id`.
///
/// Returns `false`, and appends nothing, if the text contains no such value, which is the usual
/// case. All these values contain a digit, so the scan jumps from digit to digit.
pub(crate) fn strip_volatile(text: &[u8], is_result: bool, out: &mut Vec<u8>) -> bool {
    let text_kind = if is_result { TextKind::Result } else { TextKind::Arguments };
    let span = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    // Bytes before `written` are in `out`; bytes before `scanned` have been examined.
    let (mut written, mut scanned) = (0, 0);
    while let Some(ahead) = first_digit(span(scanned, text.len())) {
        let digit = scanned + ahead;
        let lookback = span(scanned.max(digit.saturating_sub(MAX_TOKEN_LOOKBACK_BYTES)), digit);
        let separator = lookback.iter().rposition(|byte| !is_token_byte(*byte));
        let start = digit - lookback.len() + separator.map_or(0, |at| at + 1);
        let (length, shape) = token_shape(span(start, text.len()));
        let end = start + length;
        scanned = end;
        let (token, punctuation) = split_punctuation(span(start, end));
        let (before, after) = (span(0, start), span(end, text.len()));
        if is_volatile_number(token, text_kind, before, punctuation, after)
            || (is_result && (has_volatile_name(before) || before.ends_with(b"[ref=")))
        {
            out.extend_from_slice(span(written, start));
            out.push(PLACEHOLDER);
            out.extend_from_slice(punctuation);
            written = end;
        } else if shape.may_be_volatile(token) {
            out.extend_from_slice(span(written, start));
            write_token(token, ByteKinds::of_all(token), text_kind, out);
            out.extend_from_slice(punctuation);
            written = end;
        }
    }
    let is_stripped = written > 0;
    if is_stripped {
        out.extend_from_slice(span(written, text.len()));
    }
    is_stripped
}

/// The offset of the first ASCII digit. Hand-written, because `memchr` can search for at most three
/// different bytes.
fn first_digit(bytes: &[u8]) -> Option<usize> {
    // Most blocks of 32 bytes contain no digit, and the compiler vectorizes the test of a block.
    let (chunks, _) = bytes.as_chunks::<32>();
    let has_no_digit =
        |chunk: &&[u8; 32]| !chunk.iter().fold(false, |any, byte| any | byte.is_ascii_digit());
    let skipped = 32 * chunks.iter().take_while(has_no_digit).count();
    let (words, rest) = bytes.get(skipped..).unwrap_or_default().as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let digits = digits_in(u64::from_le_bytes(*word));
        if digits != 0 {
            return Some(skipped + index * 8 + digits.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(u8::is_ascii_digit)?;
    Some(skipped + words.len() * 8 + at)
}

/// Returns a word with the top bit set in every byte that is an ASCII digit, and no other bit.
const fn digits_in(word: u64) -> u64 {
    const TOP_BITS: u64 = 0x8080_8080_8080_8080;
    // XOR with 0x30 maps digits, and only digits, to 0..=9. Only these values stay below 0x80 if
    // 0x76 is added.
    let value = word ^ 0x3030_3030_3030_3030;
    !(((value & !TOP_BITS) + 0x7676_7676_7676_7676) | value) & TOP_BITS
}

/// Whether the text around a number shows that it is a process id, a duration or, in an error, the
/// line or column of a file.
fn is_volatile_number(
    token: &[u8],
    text_kind: TextKind,
    before: &[u8],
    punctuation: &[u8],
    after: &[u8],
) -> bool {
    if !token.first().is_some_and(u8::is_ascii_digit) || !is_decimal(token) {
        return false;
    }
    if text_kind != TextKind::Arguments && punctuation.is_empty() {
        match after {
            // A process id: `nginx[1234]`.
            [b']', ..] if token.len() >= 3 => {
                if matches!(before, [.., name, b'['] if name.is_ascii_alphanumeric()) {
                    return true;
                }
            }
            // A duration: `0.3 seconds`.
            [b' ', b's' | b'm' | b'h' | b'u' | b'n' | 0xc2, ..] => {
                let word = after.get(1..).unwrap_or_default();
                let length = prefix_len(word, |byte| byte.is_ascii_alphabetic() || byte >= 0x80);
                if is_time_unit(word.get(..length).unwrap_or_default()) {
                    return true;
                }
            }
            _ => {}
        }
    }
    if text_kind == TextKind::Error && is_position(before, punctuation, after) {
        return true;
    }
    // A process id follows `pid`, as in `pid 1234` or `pid=1234`. In an error, a line number
    // follows `line`. After another word the number may be a count, as in `process 12 files`.
    let mut words = before;
    while let [rest @ .., b' ' | b'=' | b':' | b'"'] = words {
        if before.len() - rest.len() > 4 {
            return false;
        }
        words = rest;
    }
    if words.len() == before.len() {
        return false;
    }
    let ends_in = |word: &[u8]| {
        let start = words.len().checked_sub(word.len());
        let end = start.and_then(|start| words.get(start..)).unwrap_or_default();
        end.eq_ignore_ascii_case(word)
    };
    match words.last().map(u8::to_ascii_lowercase) {
        Some(b'd') => ends_in(b"pid"),
        Some(b'e') => text_kind == TextKind::Error && ends_in(b"line"),
        Some(b'l') => text_kind == TextKind::Error && ends_in(b"col"),
        Some(b'n') => text_kind == TextKind::Error && ends_in(b"column"),
        _ => false,
    }
}

/// Whether a value follows the name of a field whose values differ each time, as in `"request_id":
/// "req_1a"`.
fn has_volatile_name(before: &[u8]) -> bool {
    let mut name = before;
    while let [rest @ .., b'"' | b':' | b'=' | b' '] = name {
        if before.len() - name.len() > 4 {
            return false;
        }
        name = rest;
    }
    if name.len() == before.len() || !matches!(name.last(), Some(b'd' | b'D' | b'e' | b's' | b'n'))
    {
        return false;
    }
    VOLATILE_NAMES.iter().any(|known| {
        let start = name.len().checked_sub(known.len());
        let end = start.and_then(|start| name.get(start..)).unwrap_or_default();
        end.eq_ignore_ascii_case(known)
    })
}

/// Whether a number is the line or column in `file.ts(41,22)`.
fn is_position(before: &[u8], punctuation: &[u8], after: &[u8]) -> bool {
    if !punctuation.is_empty() || !matches!(after, [b',' | b')', ..]) {
        return false;
    }
    let mut name = before;
    if let [rest @ .., b','] = name {
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        name = rest.split_at(rest.len() - digits).0;
    }
    let Some(name) = name.strip_suffix(b"(") else { return false };
    let length = name.iter().rev().take_while(|byte| is_token_byte(**byte)).count();
    is_file_name(name.split_at(name.len() - length).1)
}

/// Appends the lines of an error to `out`, with paths reduced to the file name, single spaces, and
/// no positions, ids or clock times. If some lines report an error, only those are appended.
/// Returns whether at least one line reports an error.
pub(super) fn normalize_error(text: &[u8], out: &mut Vec<u8>) -> bool {
    let mut has_error_line = false;
    let (mut rest, mut is_detail) = (text, false);
    while !rest.is_empty() {
        let start = out.len();
        let (has_error_word, length) = normalize_line(rest, out);
        let (line, following) = rest.split_at(length.min(rest.len()));
        rest = following;
        if !(has_error_word || is_diagnostic(line)) {
            // The line after an error line that ends in a colon, such as `failed with generated
            // values:`, is kept, because it says what failed.
            if has_error_line && !std::mem::take(&mut is_detail) {
                out.truncate(start);
            }
            continue;
        }
        let line = line.trim_ascii();
        is_detail = line.ends_with(b":") && !line.starts_with(b"Traceback");
        if !std::mem::replace(&mut has_error_line, true) {
            // This is the first error line. The lines before it are not part of the error.
            out.drain(..start);
        }
    }
    has_error_line
}

/// Whether a line is a compiler message: one of its first two words is like `Main.kt:12:9`. A line
/// of a stack trace (`at …`) is not.
fn is_diagnostic(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    if line.starts_with(b"at ") {
        return false;
    }
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).take(2);
    words.any(|word| {
        let mut parts = word.split(|byte| *byte == b':');
        let name = parts.next().unwrap_or_default();
        let name = name.rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or(name);
        let line = parts.next().unwrap_or_default();
        !line.is_empty() && line.iter().all(u8::is_ascii_digit) && is_file_name(name)
    })
}

/// Appends the first line of a text, normalized. Returns whether the line has a word such as
/// "failed", and the length of the line in `text`.
fn normalize_line(text: &[u8], out: &mut Vec<u8>) -> (bool, usize) {
    const MAY_BE_VOLATILE: ByteKinds = ByteKinds::DIGIT.union(ByteKinds::SLASH);
    let span = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let start = out.len();
    let mut has_error_word = false;
    // Bytes before `written` are in `out`; plain text is copied in long stretches.
    let skipped = build_step_len(text);
    let (mut written, mut at) = (skipped, skipped);
    while let Some(byte) = text.get(at) {
        let mut kinds = ByteKinds::of(*byte);
        let from = at;
        at += 1;
        if kinds != ByteKinds::NONE {
            while let Some(kind) = text.get(at).map(|byte| ByteKinds::of(*byte)) {
                if kind == ByteKinds::NONE {
                    break;
                }
                kinds = kinds.union(kind);
                at += 1;
            }
            let (token, punctuation) = split_punctuation(span(from, at));
            has_error_word = has_error_word || is_error_word(span(from, text.len()), token.len());
            if kinds.intersects(MAY_BE_VOLATILE) {
                out.extend_from_slice(span(written, from));
                written = at;
                let (before, after) = (span(0, from), span(at, text.len()));
                if is_volatile_number(token, TextKind::Error, before, punctuation, after) {
                    out.push(PLACEHOLDER);
                } else {
                    write_token(token, ByteKinds::of_all(token), TextKind::Error, out);
                }
                out.extend_from_slice(punctuation);
            }
        } else if *byte == b'\n' {
            out.extend_from_slice(span(written, from));
            written = at;
            break;
        } else if byte.is_ascii_whitespace() {
            at += prefix_len(span(at, text.len()), |next| {
                next != b'\n' && next.is_ascii_whitespace()
            });
            if at - from > 1 || *byte != b' ' || out.len() + from - written == start {
                out.extend_from_slice(span(written, from));
                if out.len() > start {
                    out.push(b' ');
                }
                written = at;
            }
        } else if *byte == 0x1b {
            out.extend_from_slice(span(written, from));
            at += escape_len(span(at, text.len()));
            written = at;
        }
    }
    out.extend_from_slice(span(written, at));
    if out.len() > start && out.last() == Some(&b' ') {
        out.pop();
    }
    if out.len() > start {
        out.push(b'\n');
    }
    (has_error_word, at)
}

/// The length of the step number and time, such as `#11 2.114`, that Docker puts at the start of
/// each line of a build; 0 if the line has none.
fn build_step_len(line: &[u8]) -> usize {
    let Some(rest) = line.strip_prefix(b"#") else { return 0 };
    let step = prefix_len(rest, |byte| byte.is_ascii_digit());
    let after = rest.get(step..).unwrap_or_default();
    let clock = prefix_len(after.get(1..).unwrap_or_default(), |b| b.is_ascii_digit() || b == b'.');
    let is_clock = after.get(1..=clock).is_some_and(|clock| clock.contains(&b'.'));
    if step > 0 && is_clock && after.first() == Some(&b' ') { 1 + step + 1 + clock } else { 0 }
}

/// The length of the rest of a terminal colour code; `after` is the text after the escape byte.
fn escape_len(after: &[u8]) -> usize {
    match after.strip_prefix(b"[") {
        Some(code) => {
            let parameters = prefix_len(code, |byte| byte.is_ascii_digit() || byte == b';');
            after.len().min(parameters + 2)
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stripped(text: &str, is_result: bool) -> String {
        let mut out = Vec::new();
        if strip_volatile(text.as_bytes(), is_result, &mut out) {
            String::from_utf8(out).unwrap()
        } else {
            assert!(out.is_empty());
            text.to_owned()
        }
    }

    #[test]
    fn volatile_values_differ_between_arguments_and_results() {
        for (text, as_arguments, as_result) in [
            ("no digits at all", "no digits at all", "no digits at all"),
            ("12 errors in 3 files", "12 errors in 3 files", "12 errors in 3 files"),
            ("sleep 5s", "sleep 5s", "sleep #"),
            ("took 0.03 seconds", "took 0.03 seconds", "took # seconds"),
            ("at 08:12:34.5 today", "at # today", "at # today"),
            ("2026-11-15T08:12:34Z up", "# up", "# up"),
            ("day 2026-11-15", "day 2026-11-15", "day #"),
            ("kill pid 4711", "kill pid #", "kill pid #"),
            ("sshd[4711]: hi", "sshd[4711]: hi", "sshd[#]: hi"),
            ("at 0xdeadbeef1", "at #", "at #"),
            ("commit 1a2b3c4d5e", "commit #", "commit #"),
            ("job-1a2b3c4d.log", "job-#.log", "job-#.log"),
            ("src/main.rs:10:5", "src/main.rs:10:5", "src/main.rs:10:5"),
            ("http://localhost:8080/a/7", "http://localhost:8080/a/7", "http://localhost:8080/a/7"),
            ("t=1767225600 x", "t=# x", "t=# x"),
            (
                "\"request_id\": \"req_5b\" x",
                "\"request_id\": \"req_5b\" x",
                "\"request_id\": \"#\" x",
            ),
            ("id 3fa85f64-5717-4562-b3fc-2c963f66afa6!", "id #!", "id #!"),
        ] {
            assert_eq!(stripped(text, false), as_arguments, "{text} as arguments");
            assert_eq!(stripped(text, true), as_result, "{text} as a result");
        }
    }

    proptest! {
        #[test]
        fn scanning_never_panics_and_is_deterministic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            is_result in any::<bool>(),
        ) {
            let (mut out, mut again) = (Vec::new(), Vec::new());
            let is_stripped = strip_volatile(&bytes, is_result, &mut out);
            prop_assert_eq!(is_stripped, !out.is_empty());
            out.clear();
            normalize_error(&bytes, &mut out);
            normalize_error(&bytes, &mut again);
            prop_assert_eq!(out, again);
        }

        #[test]
        fn first_digit_agrees_with_a_byte_by_byte_search(text in "[ a-z0-9é]{0,100}") {
            let expected = text.bytes().position(|byte| byte.is_ascii_digit());
            prop_assert_eq!(first_digit(text.as_bytes()), expected);
        }
    }
}
