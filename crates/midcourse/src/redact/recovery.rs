//! Recovery codes, recovery keys and seed phrases.
//!
//! Codes come as a list after a heading such as `Recovery codes:`. Each of them is returned as a
//! secret of its own.

use super::bytes::{contains, examine, prefix_len};
use super::kind::SecretKind::LabelledSecret;
use super::view::{SecretSpan, View};

/// How many bytes of the heading are read.
const MAX_HEADING_LEN: usize = 32;

/// How many bytes after the heading are searched for codes.
const MAX_LIST_LEN: usize = 512;

const MAX_CODES: usize = 16;

/// The fewest words of a seed phrase.
const MIN_PHRASE_WORDS: usize = 8;

/// Starts of the headings. Case does not matter.
pub(super) const HEADINGS: [&str; 8] = [
    "recovery code",
    "recovery_code",
    "recovery key",
    "scratch code",
    "backup_code",
    "backup code",
    "seed phrase",
    "mnemonic",
];

/// The codes after the heading at `start`, first to last.
#[inline(never)]
pub(super) fn find_codes(view: View<'_>, start: usize) -> Vec<SecretSpan> {
    let ahead = view.ahead_up_to(start, MAX_HEADING_LEN);
    let is_heading = |heading: &&&str| {
        ahead.get(..heading.len()).is_some_and(|text| text.eq_ignore_ascii_case(heading.as_bytes()))
    };
    let Some(heading) = HEADINGS.iter().find(is_heading) else { return Vec::new() };
    let is_phrase = heading.contains("phrase") || heading.contains("mnemonic");
    let list = view.ahead_up_to(start + heading.len(), MAX_LIST_LEN);
    // The heading ends with a colon, an equals sign or its line.
    let heading_len = prefix_len(list, |byte| byte >= b' ' && !matches!(byte, b':' | b'='));
    if heading_len > 8 || contains(list.get(..heading_len).unwrap_or_default(), b".") {
        return Vec::new();
    }
    examine(list.len());
    let first = start + heading.len() + heading_len;
    if is_phrase { find_phrase(view, first).into_iter().collect() } else { find_list(view, first) }
}

fn find_list(view: View<'_>, first: usize) -> Vec<SecretSpan> {
    let mut codes = Vec::new();
    let (mut at, end) = (first, first + MAX_LIST_LEN);
    while at < end && codes.len() < MAX_CODES {
        let is_gap = |byte: u8| byte <= b' ' || b":=[]\"',.*\\".contains(&byte);
        at += prefix_len(view.ahead_up_to(at, end - at), is_gap);
        // In JSON, the `n` after a backslash is part of a line end.
        if view.before(at).ends_with(b"\\") && view.byte(at) == Some(b'n') {
            at += 1;
            continue;
        }
        let len = prefix_len(view.ahead_up_to(at, end - at), |byte| {
            byte.is_ascii_alphanumeric() || byte == b'-'
        });
        let word = view.ahead_up_to(at, len);
        let is_number = len < 3 && len > 0 && word.iter().all(u8::is_ascii_digit);
        if is_code(word) {
            codes.push(SecretSpan { start: at, end: at + len, kind: LabelledSecret });
        } else if !is_number {
            break;
        }
        at += len;
    }
    codes
}

/// Whether a word is a code: at least 8 characters with a digit, or groups of 4 or more.
fn is_code(word: &[u8]) -> bool {
    let has_digit = word.iter().any(u8::is_ascii_digit);
    let mut groups = word.split(|byte| *byte == b'-');
    let is_grouped = word.contains(&b'-') && groups.all(|group| group.len() >= 4);
    word.len() >= 8 && has_digit && (is_grouped || !word.contains(&b'-'))
}

fn find_phrase(view: View<'_>, first: usize) -> Option<SecretSpan> {
    let is_gap = |byte: u8| matches!(byte, b' ' | b':' | b'=' | b'"' | b'\'' | b'\\');
    let start = first + prefix_len(view.ahead_up_to(first, 8), is_gap);
    let text = view.ahead_up_to(start, MAX_LIST_LEN);
    let text = text.get(..prefix_len(text, |byte| byte.is_ascii_lowercase() || byte == b' '))?;
    let text = text.trim_ascii_end();
    let is_word = |word: &[u8]| (3..9).contains(&word.len());
    let words = || text.split(|byte| *byte == b' ');
    (words().count() >= MIN_PHRASE_WORDS && words().all(is_word)).then(|| SecretSpan {
        start,
        end: start + text.len(),
        kind: LabelledSecret,
    })
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn recovery_codes_are_redacted() {
        for text in [
            "Recovery codes:\n  CODE\n  CODE\nthe end",
            "GitHub recovery codes\n1. CODE\n2. CODE\n",
            "\"recovery_codes\": [\n  \"CODE\",\n  \"CODE\"\n]",
            "One-time recovery code: CODE",
        ] {
            let expected = text.replace("CODE", "[redacted:labelled_secret]");
            assert_eq!(redacted(&text.replace("CODE", "cbcec-9d87b")), expected);
        }
    }

    #[test]
    fn a_seed_phrase_is_redacted() {
        let phrase = "raven candy alley cousin cricket silver rabbit enrich";
        assert_eq!(
            redacted(&format!("Seed phrase: {phrase}\n")),
            "Seed phrase: [redacted:labelled_secret]\n"
        );
    }

    #[test]
    fn text_about_recovery_is_kept() {
        for text in [
            "recovery codes are shown once",
            "the recovery key of the user",
            "recovery code path: src/recovery2.rs",
            "a mnemonic is easy to remember for everybody who wants to",
        ] {
            assert_no_secret(text);
        }
    }
}
