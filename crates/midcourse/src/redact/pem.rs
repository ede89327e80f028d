//! Private key blocks: PEM, OpenSSH and PGP.
//!
//! In tool output a block rarely has its standard form: line ends are escaped, lines are numbered,
//! quoted, indented or marked by a diff, and the `END` line may be missing. The block is therefore
//! read word by word, and ends where words that look like Base64 become rare.

use super::bytes::{contains, count_distinct, is_base64_byte, last_bytes, prefix_len, suffix_len};
use super::kind::SecretKind::PrivateKey;
use super::view::{SecretSpan, View};

const DASHES: &[u8] = b"-----";

/// The longest name in a line `-----BEGIN NAME-----`, in bytes.
const MAX_NAME_LEN: usize = 48;

/// The most text that may come between the `BEGIN` line and the first word of the key. Headers such
/// as `Proc-Type: …` may be there.
const HEADERS: Gap = Gap { bytes: 1024, words: 32 };

/// The most text that may come between two words of the key, such as line numbers, quotes or
/// indentation.
const BETWEEN_WORDS: Gap = Gap { bytes: 160, words: 4 };

/// The minimum length of the key's first word, in bytes. The first word usually fills a line.
const MIN_FIRST_WORD_LEN: usize = 24;
/// The minimum length of every other word of the key, in bytes.
const MIN_WORD_LEN: usize = 16;

/// How many bytes of a word are examined to see whether it is part of the key.
const WORD_SAMPLE_LEN: usize = 128;

/// How much text may be skipped between two words of a key.
#[derive(Debug, Clone, Copy)]
struct Gap {
    bytes: usize,
    words: usize,
}

/// The private key block whose `BEGIN` is at `begin`.
pub(super) fn find_block(view: View<'_>, begin: usize) -> Option<SecretSpan> {
    let dashes = suffix_len(view.before(begin), |byte| byte == b'-').min(DASHES.len());
    let name = view.ahead(begin).strip_prefix(b"BEGIN ")?;
    let name = name.get(..MAX_NAME_LEN).unwrap_or(name);
    let name = name.get(..prefix_len(name, is_name_byte))?;
    let name_end = begin + b"BEGIN ".len() + name.len();
    let is_private = name.ends_with(b"PRIVATE KEY") || name.ends_with(b"PRIVATE KEY BLOCK");
    if !is_private || dashes < DASHES.len() || !view.ahead(name_end).starts_with(DASHES) {
        return None;
    }
    let end = end_of_key(view, name_end + DASHES.len())?;
    Some(SecretSpan { start: begin - dashes, end, kind: PrivateKey })
}

/// The end of a private key block whose beginning is missing; `end` is the position of its `END`.
#[inline(never)]
pub(super) fn find_block_end(view: View<'_>, end: usize) -> Option<SecretSpan> {
    let last = end_of_end_line(view, end)?;
    let is_private = contains(view.ahead_up_to(end, MAX_NAME_LEN), b"PRIVATE KEY");
    let before = view.before(end).strip_suffix(DASHES).filter(|_| is_private)?;
    let (mut rest, mut start) = (before, None);
    let mut gap = BETWEEN_WORDS;
    // Reads the words of the key backwards, until too much text between them is not part of it.
    while gap.words > 0 {
        let skipped = suffix_len(last_bytes(rest, gap.bytes), |byte| !is_base64_byte(byte));
        rest = rest.get(..rest.len() - skipped)?;
        let len = suffix_len(rest, is_base64_byte);
        let (before_word, word) = rest.split_at_checked(rest.len() - len)?;
        if word.is_empty() {
            break;
        }
        let escape_len = usize::from(starts_with_escape(before_word, word));
        let sample = word.get(escape_len..).unwrap_or_default();
        if is_key_word(sample.get(..WORD_SAMPLE_LEN).unwrap_or(sample), false) {
            start = Some(before_word.len() + escape_len);
            gap = BETWEEN_WORDS;
        } else {
            gap.words -= 1;
        }
        rest = before_word;
    }
    let at = start?;
    let is_key = before.len() - at >= MIN_FIRST_WORD_LEN;
    let floor = end - view.before(end).len();
    is_key.then_some(SecretSpan { start: floor + at, end: last, kind: PrivateKey })
}

/// The end of the key that starts at `start`, including its `END` line if there is one.
fn end_of_key(view: View<'_>, start: usize) -> Option<usize> {
    let (mut at, mut key_end) = (start, None);
    let (mut gap, mut gap_start) = (HEADERS, start);
    loop {
        let ahead = view.ahead_up_to(at, gap.bytes.saturating_sub(at - gap_start));
        let skipped =
            prefix_len(ahead, |byte| !is_base64_byte(byte) && !matches!(byte, b'-' | b'['));
        at += skipped;
        let ahead = ahead.get(skipped..).unwrap_or_default();
        // A `[` may start the marker of a secret that was redacted before. The key ends there.
        if ahead.is_empty() || ahead.starts_with(b"[") {
            return key_end;
        }
        if ahead.starts_with(b"-") {
            let dashes = prefix_len(ahead, |byte| byte == b'-');
            at += dashes;
            if dashes >= DASHES.len() {
                return key_end.map(|end| end_of_end_line(view, at).unwrap_or(end));
            }
            continue;
        }
        let len = prefix_len(view.ahead(at), is_base64_byte);
        let word = view.ahead_up_to(at, len.min(WORD_SAMPLE_LEN));
        let escape_len = usize::from(starts_with_escape(view.before(at), word));
        at += len;
        if is_key_word(word.get(escape_len..).unwrap_or_default(), key_end.is_none()) {
            (key_end, gap, gap_start) = (Some(at), BETWEEN_WORDS, at);
        } else {
            gap.words -= 1;
            if gap.words == 0 {
                return key_end;
            }
        }
    }
}

/// The end of the line `END … KEY-----` that starts at `at`.
fn end_of_end_line(view: View<'_>, at: usize) -> Option<usize> {
    let name = view.ahead_up_to(at, MAX_NAME_LEN).strip_prefix(b"END ")?;
    let name_end = at + b"END ".len() + prefix_len(name, is_name_byte);
    view.ahead(name_end).starts_with(DASHES).then_some(name_end + DASHES.len())
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b' '
}

/// Whether the first letter of a word is part of an escaped line end: `\nMIIE…`.
fn starts_with_escape(before: &[u8], word: &[u8]) -> bool {
    before.ends_with(b"\\") && matches!(word.first(), Some(b'n' | b'r' | b't'))
}

fn is_key_word(word: &[u8], is_first: bool) -> bool {
    let has = |class: fn(&u8) -> bool| word.iter().any(class);
    let has_both_cases = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let min_len = if is_first { MIN_FIRST_WORD_LEN } else { MIN_WORD_LEN };
    word.len() >= min_len
        && has_both_cases
        && (has(u8::is_ascii_digit) || word.len() >= 40)
        && count_distinct(word) > 8
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    /// Random lines that look like those of a key.
    const LINES: [&str; 3] = [
        "MIIEpAIBAAKCAQEA7bq4Zk1vXoJ8yTgq2mR5sW9dLfHc3uNxPz6aYtVb0eKjIrQw",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz",
        "c2gtZWQyNTUxOQAAACBq0x7Xk==",
    ];

    fn block(name: &str, line_end: &str) -> String {
        let lines = LINES.join(line_end);
        format!("-----BEGIN {name}-----{line_end}{lines}{line_end}-----END {name}-----")
    }

    #[test]
    fn a_private_key_block_becomes_one_marker() {
        for name in [
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "PGP PRIVATE KEY BLOCK",
        ] {
            for line_end in ["\n", "\r\n", "\\n", "\\\\n", " ", "\n+", "\n   12\t", "\\n\" +\n \""]
            {
                let text = format!("key: {} end", block(name, line_end));
                assert_eq!(
                    redacted(&text),
                    "key: [redacted:private_key] end",
                    "{name} {line_end:?}"
                );
            }
        }
    }

    #[test]
    fn the_headers_of_a_block_are_redacted_with_its_key() {
        let headers =
            "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F1E2D3C4B5A69788796A5B4C3D2E1F0";
        let key = block("RSA PRIVATE KEY", "\n");
        let key = key.replacen("KEY-----\n", &format!("KEY-----\n{headers}\n\n"), 1);
        assert_eq!(redacted(&key), "[redacted:private_key]");
    }

    #[test]
    fn a_block_without_end_is_redacted_up_to_the_last_key_word() {
        let [first, second, _] = LINES;
        let text = format!(
            "-----BEGIN PRIVATE KEY-----\n{first}\n{second}\nand this is what the log says next."
        );
        assert_eq!(redacted(&text), "[redacted:private_key]\nand this is what the log says next.");
    }

    #[test]
    fn a_block_without_beginning_is_redacted_from_its_first_key_word() {
        let [first, second, third] = LINES;
        for line_end in ["\n", "\\n", "\n   12\t"] {
            let text = format!(
                "the log says\n{second}{line_end}{first}{line_end}{third}{line_end}-----END PRIVATE KEY----- end"
            );
            assert_eq!(redacted(&text), "the log says\n[redacted:private_key] end");
        }
        assert_no_secret("-----END PRIVATE KEY-----");
        assert_no_secret(&format!("{first}\n-----END CERTIFICATE-----"));
    }

    #[test]
    fn public_keys_and_empty_blocks_are_kept() {
        assert_no_secret(&block("PUBLIC KEY", "\n"));
        assert_no_secret(&block("CERTIFICATE", "\n"));
        assert_no_secret(&block("PGP PUBLIC KEY BLOCK", "\n"));
        assert_no_secret(
            "if text.startswith('-----BEGIN PRIVATE KEY-----') and '-----END PRIVATE KEY-----' in text:",
        );
        assert_no_secret("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----");
        assert_no_secret(
            "BEGIN PRIVATE KEY, then MIIEpAIBAAKCAQEA7bq4Zk1vXoJ8yTgq2mR5sW9dLfHc3uNxPz6aY",
        );
    }
}
