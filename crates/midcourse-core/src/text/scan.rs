//! Going through a text once: the stripped form of arguments and results, and the plain form of
//! an error with the words that tell its class.

use super::byte::{ByteKinds, is_token_byte, prefix_len};
use super::error::ErrorClass;
use super::error_keywords::Keywords;
use super::token::{
    Form, HOLE, is_decimal, is_file_name, is_unit, split_tail, token_shape, write_token,
};

/// The longest stretch one token is looked for in, backwards: longer ones are data, not tokens.
const TOKEN_REACH: usize = 128;

/// Names of values that are another one each time.
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

/// Writes `text` without ids, clocks and process numbers; of a result also without durations.
///
/// Everything volatile holds a digit, so the scan leaps from digit to digit. Most texts hold
/// nothing volatile; then nothing is written, and the answer is `false`.
pub(crate) fn strip_volatile(text: &[u8], is_result: bool, out: &mut Vec<u8>) -> bool {
    let form = if is_result { Form::Answer } else { Form::Question };
    let span = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    // Everything before `written` is written, everything before `seen` is looked at.
    let (mut written, mut seen) = (0, 0);
    while let Some(ahead) = first_digit(span(seen, text.len())) {
        let digit = seen + ahead;
        let begun = span(seen.max(digit.saturating_sub(TOKEN_REACH)), digit);
        let before_token = begun.iter().rposition(|byte| !is_token_byte(*byte));
        let start = digit - begun.len() + before_token.map_or(0, |at| at + 1);
        let (length, shape) = token_shape(span(start, text.len()));
        let end = start + length;
        seen = end;
        let (token, tail) = split_tail(span(start, end));
        let (before, behind) = (span(0, start), span(end, text.len()));
        if is_volatile_number(token, form, before, tail, behind)
            || (is_result && is_named_volatile(before))
        {
            out.extend_from_slice(span(written, start));
            out.push(HOLE);
            out.extend_from_slice(tail);
            written = end;
        } else if shape.may_be_volatile(token) {
            out.extend_from_slice(span(written, start));
            write_token(token, ByteKinds::of_all(token), form, out);
            out.extend_from_slice(tail);
            written = end;
        }
    }
    let is_stripped = written > 0;
    if is_stripped {
        out.extend_from_slice(span(written, text.len()));
    }
    is_stripped
}

fn first_digit(bytes: &[u8]) -> Option<usize> {
    // Most stretches hold no digit, and asking for thirty-two bytes at once vectorises.
    let (stretches, _) = bytes.as_chunks::<32>();
    let is_plain =
        |stretch: &&[u8; 32]| !stretch.iter().fold(false, |any, byte| any | byte.is_ascii_digit());
    let skipped = 32 * stretches.iter().take_while(is_plain).count();
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

/// The top bit of every byte that is a digit: eight bytes in five operations.
const fn digits_in(word: u64) -> u64 {
    const TOPS: u64 = 0x8080_8080_8080_8080;
    // Digits become 0 to 9, and with 0x76 added only they stay below 0x80.
    let value = word ^ 0x3030_3030_3030_3030;
    !(((value & !TOPS) + 0x7676_7676_7676_7676) | value) & TOPS
}

/// Whether a token is a number that the words around it make a clock or a process.
fn is_volatile_number(token: &[u8], form: Form, before: &[u8], tail: &[u8], behind: &[u8]) -> bool {
    if !token.first().is_some_and(u8::is_ascii_digit) || !is_decimal(token) {
        return false;
    }
    if form != Form::Question && tail.is_empty() {
        match behind {
            // `nginx[1234]`
            [b']', ..] if token.len() >= 3 => {
                if matches!(before, [.., name, b'['] if name.is_ascii_alphanumeric()) {
                    return true;
                }
            }
            // `0.3 seconds`
            [b' ', b's' | b'm' | b'h' | b'u' | b'n' | 0xc2, ..] => {
                let word = behind.get(1..).unwrap_or_default();
                let length = prefix_len(word, |byte| byte.is_ascii_alphabetic() || byte >= 0x80);
                if is_unit(word.get(..length).unwrap_or_default()) {
                    return true;
                }
            }
            _ => {}
        }
    }
    if form == Form::Error && is_position(before, tail, behind) {
        return true;
    }
    // `pid 1234`, `pid=1234`, and in an error `line 12`; but `process 12 files` is a count
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
        Some(b'e') => form == Form::Error && ends_in(b"line"),
        Some(b'l') => form == Form::Error && ends_in(b"col"),
        Some(b'n') => form == Form::Error && ends_in(b"column"),
        _ => false,
    }
}

/// Whether the name before a value says that it is another one each time: `"request_id": "req_1a"`.
fn is_named_volatile(before: &[u8]) -> bool {
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

/// Whether a number is one of `file.ts(41,22)`.
fn is_position(before: &[u8], tail: &[u8], behind: &[u8]) -> bool {
    if !tail.is_empty() || !matches!(behind, [b',' | b')', ..]) {
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

/// What a pass over an error found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ErrorScan {
    /// Some line talks of an error.
    pub(super) is_telling: bool,
    /// The class of the first telling line that has one.
    pub(super) telling_class: Option<ErrorClass>,
    /// The class of the first line that has one.
    pub(super) class: Option<ErrorClass>,
}

/// Writes the lines of an error in their plain form: paths as their last name, no positions, no
/// ids, no clocks, single spaces. If some lines talk of an error, only those are written.
pub(super) fn plain_error(text: &[u8], out: &mut Vec<u8>) -> ErrorScan {
    let mut scan = ErrorScan::default();
    let mut rest = text;
    while !rest.is_empty() {
        let start = out.len();
        let (words, length) = plain_line(rest, out);
        let (line, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        let class = words.class();
        scan.class = scan.class.or(class);
        if !(words.is_telling() || is_diagnostic(line)) {
            if scan.is_telling {
                out.truncate(start);
            }
            continue;
        }
        scan.telling_class = scan.telling_class.or(class);
        if !std::mem::replace(&mut scan.is_telling, true) {
            // What came before the first telling line is not what went wrong.
            out.drain(..start);
        }
    }
    scan
}

/// Whether a line says where something is wrong, as compilers do: `Main.kt:12:9 …` near its
/// beginning. The lines of a stack are none.
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

/// Writes the first line of a text; returns its telling words and its length.
fn plain_line(text: &[u8], out: &mut Vec<u8>) -> (Keywords, usize) {
    const NOT_PLAIN: ByteKinds = ByteKinds::DIGIT.union(ByteKinds::SLASH);
    let span = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let start = out.len();
    let mut words = Keywords::default();
    // Everything before `written` is written: what is plain is copied in long stretches.
    let skipped = step_length(text);
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
            let (token, tail) = split_tail(span(from, at));
            words |= Keywords::at_start_of(span(from, text.len()), token.len());
            if kinds.intersects(NOT_PLAIN) {
                out.extend_from_slice(span(written, from));
                written = at;
                let (before, behind) = (span(0, from), span(at, text.len()));
                if is_volatile_number(token, Form::Error, before, tail, behind) {
                    out.push(HOLE);
                } else {
                    write_token(token, ByteKinds::of_all(token), Form::Error, out);
                }
                out.extend_from_slice(tail);
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
            at += escape_length(span(at, text.len()));
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
    (words, at)
}

/// The length of the step and clock with which builds of images begin their lines: `#11 2.114 `.
fn step_length(line: &[u8]) -> usize {
    let Some(rest) = line.strip_prefix(b"#") else { return 0 };
    let step = prefix_len(rest, |byte| byte.is_ascii_digit());
    let behind = rest.get(step..).unwrap_or_default();
    let clock =
        prefix_len(behind.get(1..).unwrap_or_default(), |b| b.is_ascii_digit() || b == b'.');
    let is_clock = behind.get(1..=clock).is_some_and(|clock| clock.contains(&b'.'));
    if step > 0 && is_clock && behind.first() == Some(&b' ') { 1 + step + 1 + clock } else { 0 }
}

/// How much of a terminal's colour code follows its first byte.
fn escape_length(behind: &[u8]) -> usize {
    match behind.strip_prefix(b"[") {
        Some(code) => {
            let parameters = prefix_len(code, |byte| byte.is_ascii_digit() || byte == b';');
            behind.len().min(parameters + 2)
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
    fn what_is_volatile_in_questions_and_answers() {
        for (text, question, answer) in [
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
            assert_eq!(stripped(text, false), question, "{text} as a question");
            assert_eq!(stripped(text, true), answer, "{text} as an answer");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_scanned(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            is_result in any::<bool>(),
        ) {
            let (mut out, mut again) = (Vec::new(), Vec::new());
            let is_stripped = strip_volatile(&bytes, is_result, &mut out);
            prop_assert_eq!(is_stripped, !out.is_empty());
            out.clear();
            plain_error(&bytes, &mut out);
            plain_error(&bytes, &mut again);
            prop_assert_eq!(out, again);
        }

        #[test]
        fn the_first_digit_is_the_first_digit(text in "[ a-z0-9é]{0,100}") {
            let expected = text.bytes().position(|byte| byte.is_ascii_digit());
            prop_assert_eq!(first_digit(text.as_bytes()), expected);
        }
    }
}
