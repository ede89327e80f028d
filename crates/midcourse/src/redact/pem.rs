//! Private key blocks: PEM, OpenSSH and PGP.
//!
//! A block is seldom written as its standard says: line ends are escaped, lines are numbered,
//! quoted, indented or marked by a diff, and the end is cut off. So a block is read word by word,
//! and goes on as long as words that look like a key's come often enough.

use super::known::distinct;
use super::shape::SecretShape::PrivateKey;
use super::sight::{Secret, Sight, count, count_back};

const DASHES: &[u8] = b"-----";

/// The longest name between `BEGIN` and the dashes.
const NAME_MAX: usize = 48;

/// How many bytes and words there may be before the first word of the key: its headers.
const HEADERS: Gap = Gap { bytes: 1024, words: 32 };

/// The same between two words of the key: a line's number, quotes, indentation.
const BETWEEN: Gap = Gap { bytes: 160, words: 4 };

/// The shortest word of a key: its first one is a whole line, and the last one may be short.
const FIRST_WORD_MIN: usize = 24;
const WORD_MIN: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Gap {
    bytes: usize,
    words: usize,
}

/// The block whose `BEGIN` starts at `begin`.
pub(super) fn find_block(sight: Sight<'_>, begin: usize) -> Option<Secret> {
    let dashes = count_back(sight.behind(begin), |byte| byte == b'-').min(DASHES.len());
    let name = sight.ahead(begin).strip_prefix(b"BEGIN ")?;
    let name = name.get(..NAME_MAX).unwrap_or(name);
    let name = name.get(..count(name, |byte| byte.is_ascii_uppercase() || byte == b' '))?;
    let body = begin + b"BEGIN ".len() + name.len();
    let is_private = name.ends_with(b"PRIVATE KEY") || name.ends_with(b"PRIVATE KEY BLOCK");
    if !is_private || dashes < DASHES.len() || !sight.ahead(body).starts_with(DASHES) {
        return None;
    }
    let end = end_of_key(sight, body + DASHES.len())?;
    Some(Secret { start: begin - dashes, end, shape: PrivateKey })
}

fn end_of_key(sight: Sight<'_>, start: usize) -> Option<usize> {
    let (mut at, mut key_end) = (start, None);
    let (mut gap, mut gap_start) = (HEADERS, start);
    loop {
        let ahead = sight.head(at, gap.bytes.saturating_sub(at - gap_start));
        let skipped = count(ahead, |byte| !in_word(byte) && !matches!(byte, b'-' | b'['));
        at += skipped;
        let ahead = ahead.get(skipped..).unwrap_or_default();
        // What stands for another secret ends the block, as that secret did.
        if ahead.is_empty() || ahead.starts_with(b"[") {
            return key_end;
        }
        if ahead.starts_with(b"-") {
            let dashes = count(ahead, |byte| byte == b'-');
            at += dashes;
            if dashes >= DASHES.len() {
                return key_end.map(|end| end_of_block(sight, at).unwrap_or(end));
            }
            continue;
        }
        let length = count(sight.ahead(at), in_word);
        let word = sight.head(at, length.min(128));
        let past_escape = usize::from(is_escape(sight.behind(at), word));
        at += length;
        if is_key_word(word.get(past_escape..).unwrap_or_default(), key_end.is_none()) {
            (key_end, gap, gap_start) = (Some(at), BETWEEN, at);
        } else {
            gap.words -= 1;
            if gap.words == 0 {
                return key_end;
            }
        }
    }
}

/// The end of `END … KEY-----`, which begins at `at`.
fn end_of_block(sight: Sight<'_>, at: usize) -> Option<usize> {
    let name = sight.head(at, NAME_MAX).strip_prefix(b"END ")?;
    let name_end =
        at + b"END ".len() + count(name, |byte| byte.is_ascii_uppercase() || byte == b' ');
    sight.ahead(name_end).starts_with(DASHES).then_some(name_end + DASHES.len())
}

const fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Whether a word begins with the letter of an escaped line end.
fn is_escape(behind: &[u8], word: &[u8]) -> bool {
    behind.ends_with(b"\\") && matches!(word.first(), Some(b'n' | b'r' | b't'))
}

fn is_key_word(word: &[u8], is_first: bool) -> bool {
    let has = |kind: fn(&u8) -> bool| word.iter().any(kind);
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_long = word.len() >= if is_first { FIRST_WORD_MIN } else { WORD_MIN };
    is_long && is_mixed && (has(u8::is_ascii_digit) || word.len() >= 40) && distinct(word) > 8
}

#[cfg(test)]
mod tests {
    use crate::redact::check::{gone, stays};

    /// Lines of a key that is none.
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
    fn a_private_key_goes_in_one_piece() {
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
                assert_eq!(gone(&text), "key: [redacted:private_key] end", "{name} {line_end:?}");
            }
        }
    }

    #[test]
    fn headers_go_with_the_key() {
        let headers =
            "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F1E2D3C4B5A69788796A5B4C3D2E1F0";
        let key = block("RSA PRIVATE KEY", "\n");
        let key = key.replacen("KEY-----\n", &format!("KEY-----\n{headers}\n\n"), 1);
        assert_eq!(gone(&key), "[redacted:private_key]");
    }

    #[test]
    fn a_cut_block_goes_as_far_as_it_looks_like_a_key() {
        let [first, second, _] = LINES;
        let text = format!(
            "-----BEGIN PRIVATE KEY-----\n{first}\n{second}\nand this is what the log says next."
        );
        assert_eq!(gone(&text), "[redacted:private_key]\nand this is what the log says next.");
    }

    #[test]
    fn what_is_public_or_empty_stays() {
        stays(&block("PUBLIC KEY", "\n"));
        stays(&block("CERTIFICATE", "\n"));
        stays(&block("PGP PUBLIC KEY BLOCK", "\n"));
        stays(
            "if text.startswith('-----BEGIN PRIVATE KEY-----') and '-----END PRIVATE KEY-----' in text:",
        );
        stays("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----");
        stays("BEGIN PRIVATE KEY, then MIIEpAIBAAKCAQEA7bq4Zk1vXoJ8yTgq2mR5sW9dLfHc3uNxPz6aY");
    }
}
