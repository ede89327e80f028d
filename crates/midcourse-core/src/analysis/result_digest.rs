//! Computes the digests by which results are compared: without ids and times, and for some results
//! without their order, their first line or their numbers.

use crate::digest::Digest;
use crate::text::strip_volatile;

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

/// The digest of a text without its numbers, and the sum of the logarithms of its numbers. If one
/// number grows by 3%, the sum grows by about 0.03.
pub(super) fn measured_by(text: &str) -> Option<(Digest, f32)> {
    let text = text.get(..text.floor_char_boundary(MAX_NORMALIZED_RESULT_BYTES))?;
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let words = || text.split(|c: char| c.is_whitespace() || matches!(c, ':' | '=' | ',' | '|'));
    let (mut digest, mut sum) = (Digest::default(), None);
    for word in words() {
        let unit = word.trim_start_matches(is_number);
        let digits = word.get(..word.len() - unit.len()).unwrap_or_default();
        match digits.parse::<f32>() {
            Ok(number) => sum = Some(sum.unwrap_or(0.0) + number.ln_1p()),
            Err(_) => digest = digest.then(word.as_bytes()),
        }
    }
    Some((digest, sum?))
}
