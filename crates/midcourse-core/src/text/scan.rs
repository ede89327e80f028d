//! Going through a text once: the stripped form of arguments and results, and the plain form of
//! an error with the words that tell its class.

use super::byte::{Kinds, count, in_token};
use super::error::{ErrorClass, Words};
use super::token::{Form, HOLE, is_decimal, is_unit, may_be_volatile, split_tail, write_token};

/// The longest stretch one token is looked for in, backwards: longer ones are data, not tokens.
const TOKEN_REACH: usize = 128;

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
        let begun = span(seen, digit).iter().rev().take(TOKEN_REACH);
        let start = digit - begun.take_while(|byte| in_token(**byte)).count();
        let end = digit + count(span(digit, text.len()), in_token);
        seen = end;
        let (token, tail) = split_tail(span(start, end));
        let (before, behind) = (span(0, start), span(end, text.len()));
        if tail.is_empty() && is_volatile_number(token, form, before, behind) {
            out.extend_from_slice(span(written, start));
            out.push(HOLE);
            written = end;
        } else if may_be_volatile(token) {
            out.extend_from_slice(span(written, start));
            write_token(token, Kinds::of_all(token), form, out);
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
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let digits = digits_in(u64::from_le_bytes(*word));
        if digits != 0 {
            return Some(index * 8 + digits.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(u8::is_ascii_digit).map(|at| words.len() * 8 + at)
}

/// The top bit of every byte that is a digit: eight bytes in five operations.
const fn digits_in(word: u64) -> u64 {
    const TOPS: u64 = 0x8080_8080_8080_8080;
    // Digits become 0 to 9, and with 0x76 added only they stay below 0x80.
    let value = word ^ 0x3030_3030_3030_3030;
    !(((value & !TOPS) + 0x7676_7676_7676_7676) | value) & TOPS
}

/// Whether a token is a number that the words around it make a clock or a process.
fn is_volatile_number(token: &[u8], form: Form, before: &[u8], behind: &[u8]) -> bool {
    let is_candidate = match (before.last(), behind.first()) {
        (_, Some(b' ' | b']')) if form != Form::Question => true,
        (Some(b' ' | b'=' | b':' | b'"'), _) => true,
        _ => false,
    };
    if !is_candidate || !is_decimal(token) {
        return false;
    }
    // `nginx[1234]`
    let bracketed = behind.first() == Some(&b']')
        && matches!(before, [.., name, b'['] if name.is_ascii_alphanumeric());
    if bracketed && form != Form::Question && token.len() >= 3 {
        return true;
    }
    // `0.3 seconds`
    if form != Form::Question && behind.first() == Some(&b' ') {
        let word = behind.get(1..).unwrap_or_default();
        let word = word.get(..count(word, |byte| byte.is_ascii_alphabetic())).unwrap_or_default();
        if is_unit(word) {
            return true;
        }
    }
    // `pid 1234`, `pid=1234`, and in an error `line 12`; but `process 12 files` is a count
    let mut word = [0_u8; 8];
    let letters = before
        .iter()
        .rev()
        .take(16)
        .skip_while(|byte| matches!(byte, b' ' | b'=' | b':' | b'"'))
        .take_while(|byte| byte.is_ascii_alphabetic());
    let mut length = 0;
    for letter in letters {
        let Some(place) = word.get_mut(length) else { return false };
        *place = letter.to_ascii_lowercase();
        length += 1;
    }
    // The letters were collected backwards.
    match word.get(..length).unwrap_or_default() {
        b"dip" => true,
        b"enil" | b"loc" | b"nmuloc" => form == Form::Error,
        _ => false,
    }
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
        rest = rest.get(length..).unwrap_or_default();
        let class = words.class();
        scan.class = scan.class.or(class);
        if !words.is_telling() {
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

/// Writes the first line of a text; returns its telling words and its length.
fn plain_line(text: &[u8], out: &mut Vec<u8>) -> (Words, usize) {
    const NOT_PLAIN: Kinds = Kinds::DIGIT.and(Kinds::SLASH);
    let span = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let start = out.len();
    let mut words = Words::default();
    // Everything before `written` is written: what is plain is copied in long stretches.
    let (mut written, mut at) = (0, 0);
    while let Some(byte) = text.get(at) {
        let mut kinds = Kinds::of(*byte);
        let from = at;
        at += 1;
        if kinds != Kinds::NONE {
            while let Some(kind) = text.get(at).map(|byte| Kinds::of(*byte)) {
                if kind == Kinds::NONE {
                    break;
                }
                kinds = kinds.and(kind);
                at += 1;
            }
            let (token, tail) = split_tail(span(from, at));
            words |= Words::at_start_of(span(from, text.len()), token.len());
            if kinds.has(NOT_PLAIN) {
                out.extend_from_slice(span(written, from));
                written = at;
                let (before, behind) = (span(0, from), span(at, text.len()));
                if tail.is_empty() && is_volatile_number(token, Form::Error, before, behind) {
                    out.push(HOLE);
                } else {
                    write_token(token, Kinds::of_all(token), Form::Error, out);
                }
                out.extend_from_slice(tail);
            }
        } else if *byte == b'\n' {
            out.extend_from_slice(span(written, from));
            written = at;
            break;
        } else if byte.is_ascii_whitespace() {
            at += count(span(at, text.len()), |next| next != b'\n' && next.is_ascii_whitespace());
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

/// How much of a terminal's colour code follows its first byte.
fn escape_length(behind: &[u8]) -> usize {
    match behind.strip_prefix(b"[") {
        Some(code) => {
            let parameters = count(code, |byte| byte.is_ascii_digit() || byte == b';');
            behind.len().min(parameters + 2)
        }
        None => 0,
    }
}
