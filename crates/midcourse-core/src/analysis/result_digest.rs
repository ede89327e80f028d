//! Computes the digests by which results are compared: without ids and times, and for some results
//! without their order, their first line or their numbers.

use memchr::memchr2_iter;

use crate::digest::Digest;
use crate::text::{is_time_unit, strip_volatile};

/// If a result is at most this many bytes long, it is compared without the ids and times in it.
const MAX_NORMALIZED_RESULT_BYTES: usize = 2048;

/// In a result longer than `MAX_NORMALIZED_RESULT_BYTES`, ids and times are ignored only in the
/// first 512 and the last 512 bytes; the rest is compared exactly.
const RESULT_HEAD_BYTES: usize = 512;
const RESULT_TAIL_BYTES: usize = 512;

/// If the result of an action on a page is at most this many bytes long, it only confirms the
/// action and does not show the page.
pub(super) const MAX_CONFIRMATION_BYTES: usize = 60;

/// The digest of a result without ids and times.
pub(super) fn normalized_digest(text: &[u8], scratch: &mut Vec<u8>) -> Digest {
    if text.len() <= MAX_NORMALIZED_RESULT_BYTES {
        return Digest::of(without_volatile(text, scratch));
    }
    let (head, rest) = text.split_at(RESULT_HEAD_BYTES);
    let (middle, tail) = rest.split_at(rest.len() - RESULT_TAIL_BYTES);
    let mut digest = Digest::of(middle);
    for end in [head, tail] {
        digest = digest.then(without_volatile(end, scratch));
    }
    digest
}

/// The result of an action on a page, without its first line if that line is short: it only says
/// what was done.
pub(super) fn page_of(result: &[u8]) -> &[u8] {
    match result.iter().position(|byte| *byte == b'\n') {
        Some(end) if end <= MAX_CONFIRMATION_BYTES && result.first() != Some(&b'[') => {
            result.get(end + 1..).unwrap_or(result)
        }
        _ => result,
    }
}

/// The digest of the matches of a search: the same matches in another order tell nothing new.
pub(super) fn unordered_digest(text: &[u8], scratch: &mut Vec<u8>) -> Digest {
    if text.len() > MAX_NORMALIZED_RESULT_BYTES {
        return normalized_digest(text, scratch);
    }
    let is_separator = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';');
    let words = without_volatile(text, scratch).split(is_separator).filter(|word| !word.is_empty());
    let sum = words.fold(0_u64, |sum, word| sum.wrapping_add(Digest::of(word).value()));
    Digest::of(&sum.to_le_bytes())
}

/// The text without ids and times.
fn without_volatile<'a>(text: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    scratch.clear();
    if strip_volatile(text, true, scratch) { scratch } else { text }
}

/// A result with more bytes than this is not examined for measurements, unless it is of a benchmark.
const MAX_MEASURED_BYTES: usize = 600;

/// A result of one line with at most this many bytes that ends with a measurement consists of little
/// else.
const MAX_PLAIN_MEASUREMENT_BYTES: usize = 80;

/// The measurements in a result.
pub(super) struct Measured {
    /// Digest of the text without the measured numbers.
    pub(super) text: Digest,
    /// The sum of the logarithms of the numbers. If one number grows by 3%, the sum grows by about
    /// 0.03.
    pub(super) sum: f32,
    /// Whether the numbers are what the call was made for.
    pub(super) is_main: bool,
}

/// Whether a text begins with a number, or has one after a label. Most results have none, so this
/// quick test saves time.
fn may_have_measurement(text: &[u8]) -> bool {
    let begins_with_number = |text: &[u8]| {
        let number = text.trim_ascii_start();
        let number = number.strip_prefix(b"[").unwrap_or(number);
        let digits =
            number.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let (number, rest) = number.split_at_checked(digits).unwrap_or_default();
        let unit = rest.strip_prefix(b" ").unwrap_or(rest).first();
        number.first().is_some_and(u8::is_ascii_digit)
            && (number.contains(&b'.') || unit.is_some_and(|byte| b"smhun\xc2".contains(byte)))
    };
    begins_with_number(text)
        || memchr2_iter(b':', b'=', text)
            .any(|at| text.get(at + 1..).is_some_and(begins_with_number))
}

/// The measurements in a result; `None` if it has none. In the output of a benchmark, every number is
/// one. In other results, a number is one if it has a label or is the whole result (`init: 41 s`,
/// `time=4.2`), and it is a duration or has decimals. Times in the columns of a table are ages.
/// Differences in percent, and decimals in brackets, are remarks on a measurement.
pub(super) fn measured_by(text: &str, is_benchmark: bool) -> Option<Measured> {
    let text = text.trim();
    let max = if is_benchmark { MAX_NORMALIZED_RESULT_BYTES } else { MAX_MEASURED_BYTES };
    if !is_benchmark && (text.len() > max || !may_have_measurement(text.as_bytes())) {
        return None;
    }
    let text = text.get(..text.floor_char_boundary(max))?;
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let is_separator = |c: char| c.is_whitespace() || matches!(c, ',' | '|');
    let mut words = text.split(is_separator).filter(|word| !word.is_empty()).peekable();
    let (mut digest, mut sum, mut is_last) = (Digest::default(), None, false);
    let (mut is_labelled, mut is_remark) = (true, false);
    while let Some(word) = words.next() {
        is_remark |= word.contains('(');
        let value = match word.rsplit_once([':', '=']) {
            Some((label, value)) => {
                digest = digest.then(label.as_bytes());
                is_labelled = true;
                value
            }
            None => word,
        };
        let value = value.trim_start_matches(['[', '(']);
        let unit = value.trim_start_matches(is_number);
        let digits = value.get(..value.len() - unit.len()).unwrap_or_default();
        let unit = unit.trim_end_matches([']', ')', '.']);
        let is_time = |unit: &str| is_time_unit(unit.as_bytes());
        let is_duration =
            is_time(unit) || (unit.is_empty() && words.peek().is_some_and(|next| is_time(next)));
        let is_decimal = digits.contains('.');
        let number = digits.parse::<f32>().ok().filter(|_| {
            is_benchmark || (is_labelled && (is_duration || (is_decimal && unit.is_empty())))
        });
        let is_difference =
            value.starts_with(['+', '-']) && value.trim_end_matches(']').ends_with('%');
        match number {
            Some(_) if is_remark && is_decimal => {}
            Some(number) => {
                sum = Some(sum.unwrap_or(0.0) + number.ln_1p());
                digest = digest.then(unit.as_bytes());
                is_last = true;
            }
            None if is_difference => {}
            None => {
                let is_unit = is_last && is_time(value.trim_end_matches([']', ')', '.']));
                digest = digest.then(value.as_bytes());
                is_last &= is_unit;
                is_labelled = is_unit || value.is_empty();
            }
        }
        is_remark &= !word.contains(')');
    }
    let is_plain = is_last && text.len() <= MAX_PLAIN_MEASUREMENT_BYTES && !text.contains('\n');
    Some(Measured { text: digest, sum: sum?, is_main: is_benchmark || is_plain })
}
