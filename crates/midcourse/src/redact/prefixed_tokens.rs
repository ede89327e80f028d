//! Tokens that have a known prefix.
//!
//! Each row of the table in `table.rs` gives the prefix, the alphabet and minimum length of the
//! rest, and what else the rest must contain, so that ordinary identifiers with the same prefix are
//! not redacted.

mod table;

use super::bytes::{count_distinct, is_credential_byte, is_token_byte, prefix_len, suffix_len};
use super::encoded::is_encoded_login;
use super::kind::SecretKind::{self, CustomPrefix};
use super::prefilter::PREFIXED_TOKEN_BITS;
use super::view::{SecretSpan, View};

pub(super) use table::PREFIXED_TOKENS;

/// How many bytes after the prefix are examined to see whether the text is a token.
const SAMPLE_LEN: usize = 64;

/// The minimum number of bytes after a custom prefix.
const MIN_CUSTOM_BODY_LEN: usize = 8;

/// The start of a token that was cut off is redacted if its prefix and what follows have at least
/// these lengths.
const MIN_CUT_PREFIX_LEN: usize = 4;
const MIN_CUT_BODY_LEN: usize = 6;

/// The bytes that may follow a prefix in a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    Alphanumeric,
    /// Capital letters and digits.
    Capitals,
    Hex,
    Token,
    /// Letters, digits, `_`, `-` and dots.
    Dotted,
    /// Letters, digits, `_`, `-` and slashes.
    Path,
    /// The bytes of a credential in an HTTP header.
    Credential,
    /// The bytes of a token in a URL.
    Percent,
    /// Everything but spaces, quotes and backslashes.
    Graphic,
}

impl Alphabet {
    const fn contains(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Token => is_token_byte(byte),
            Self::Dotted => is_token_byte(byte) || byte == b'.',
            Self::Path => is_token_byte(byte) || byte == b'/',
            Self::Credential => is_credential_byte(byte),
            Self::Percent => is_token_byte(byte) || byte == b'%',
            Self::Graphic => byte > b' ' && !matches!(byte, b'"' | b'\'' | b'\\' | 0x7f..),
        }
    }
}

/// What the bytes after a prefix must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Required {
    /// Nothing: only tokens have this prefix.
    Nothing,
    /// A digit, or upper and lower case, because lower-case identifiers have this prefix too.
    DigitOrMixedCase,
    /// A digit, because ordinary words have this prefix too.
    Digit,
    /// `user:password` in Base64.
    EncodedLogin,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixedToken {
    pub(super) prefix: &'static str,
    kind: SecretKind,
    alphabet: Alphabet,
    /// The minimum number of bytes after the prefix.
    min_len: usize,
    required: Required,
    /// Whether there must be exactly `min_len` bytes after the prefix.
    is_fixed_len: bool,
    /// Whether the prefix stays in the text, because it is not part of the secret.
    keeps_prefix: bool,
}

const fn token(
    prefix: &'static str,
    kind: SecretKind,
    alphabet: Alphabet,
    min_len: usize,
) -> PrefixedToken {
    let required = Required::Nothing;
    PrefixedToken {
        prefix,
        kind,
        alphabet,
        min_len,
        required,
        is_fixed_len: false,
        keeps_prefix: false,
    }
}

impl PrefixedToken {
    /// Requires a digit, or both upper and lower case, after the prefix.
    const fn mixed(self) -> Self {
        Self { required: Required::DigitOrMixedCase, ..self }
    }

    const fn with_digit(self) -> Self {
        Self { required: Required::Digit, ..self }
    }

    const fn with_encoded_login(self) -> Self {
        Self { required: Required::EncodedLogin, ..self }
    }

    const fn fixed_len(self) -> Self {
        Self { is_fixed_len: true, ..self }
    }

    const fn keeping_prefix(self) -> Self {
        Self { keeps_prefix: true, ..self }
    }

    /// Whether the start of a token is followed by the place where the text was cut off. What is
    /// left of the token has to look generated.
    fn is_cut_off(&self, view: View<'_>, body_start: usize, body: &[u8]) -> bool {
        self.prefix.len() >= MIN_CUT_PREFIX_LEN
            && !self.keeps_prefix
            && body.len() >= MIN_CUT_BODY_LEN
            && view.is_cut(body_start + body.len())
            && count_digit_changes(body) >= 3
            && looks_generated(body, Required::Digit)
    }

    fn find(&self, view: View<'_>, start: usize) -> Option<SecretSpan> {
        if !view.ahead(start).starts_with(self.prefix.as_bytes()) {
            return None;
        }
        let body_start = start + self.prefix.len();
        let sample = view.ahead_up_to(body_start, self.min_len.max(SAMPLE_LEN));
        let sample_len = prefix_len(sample, |byte| self.alphabet.contains(byte));
        let sample = sample.get(..sample_len).unwrap_or_default();
        if sample_len < self.min_len && self.is_cut_off(view, body_start, sample) {
            return Some(SecretSpan { start, end: body_start + sample_len, kind: self.kind });
        }
        if sample_len < self.min_len || !looks_generated(sample, self.required) {
            return None;
        }
        let mut len = prefix_len(view.ahead(body_start), |byte| self.alphabet.contains(byte));
        if self.is_fixed_len {
            let is_longer = view.byte(body_start + len).is_some_and(is_token_byte);
            if len != self.min_len || is_longer {
                return None;
            }
        } else if self.alphabet != Alphabet::Path {
            // If token bytes that the alphabet lacks, such as `_` or `-`, follow directly, they are
            // redacted too.
            len += prefix_len(view.ahead(body_start + len), is_token_byte);
        }
        let start = if self.keeps_prefix { body_start } else { start };
        // Dots at the end are punctuation.
        let body = view.ahead_up_to(body_start, len);
        let end = body_start + len - suffix_len(body, |byte| byte == b'.');
        Some(SecretSpan { start, end, kind: self.kind })
    }
}

/// The number of times that a digit is next to a letter.
fn count_digit_changes(body: &[u8]) -> usize {
    let is_change = |pair: &&[u8]| match pair {
        [a, b] => a.is_ascii_digit() != b.is_ascii_digit(),
        _ => false,
    };
    body.windows(2).filter(is_change).count()
}

/// Whether the bytes after a prefix look generated, unlike `xxxx` or the rest of an identifier.
fn looks_generated(body: &[u8], required: Required) -> bool {
    let has = |class: fn(&u8) -> bool| body.iter().any(class);
    if required == Required::EncodedLogin {
        return is_encoded_login(body);
    }
    let has_digit = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let has_required = match required {
        Required::Nothing => true,
        Required::DigitOrMixedCase => {
            has_digit || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
        }
        Required::Digit | Required::EncodedLogin => has_digit,
    };
    has_required && count_distinct(body) > 4
}

/// The token at `start`, if it begins with one of the prefixes that have this bit in the prefilter.
pub(super) fn find_prefixed_token(view: View<'_>, start: usize, bit: u32) -> Option<SecretSpan> {
    PREFIXED_TOKENS
        .iter()
        .skip(bit as usize)
        .step_by(PREFIXED_TOKEN_BITS as usize)
        .find_map(|token| token.find(view, start))
}

/// The token at `start` that begins with a prefix which the user configured.
pub(super) fn find_custom_token(
    view: View<'_>,
    start: usize,
    prefixes: &[String],
) -> Option<SecretSpan> {
    let is_token = |prefix: &&String| {
        let body = view.ahead_up_to(start + prefix.len(), MIN_CUSTOM_BODY_LEN);
        view.ahead(start).starts_with(prefix.as_bytes())
            && prefix_len(body, is_token_byte) == MIN_CUSTOM_BODY_LEN
    };
    prefixes.iter().find(is_token)?;
    let end = start + prefix_len(view.ahead(start), is_token_byte);
    Some(SecretSpan { start, end, kind: CustomPrefix })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::testing::{assert_no_secret, redacted};

    /// The shortest text after this token's prefix that looks generated.
    fn body(token: &PrefixedToken) -> String {
        if token.required == Required::EncodedLogin {
            return "bWU6Y29ycmVjdGhvcnNl".to_owned();
        }
        let bytes = if token.alphabet == Alphabet::Capitals { "A2B3C4D5E6" } else { "a2b3c4d5e6" };
        bytes.repeat(10).chars().take(token.min_len).collect()
    }

    #[test]
    fn every_prefixed_token_is_redacted() {
        for token in &PREFIXED_TOKENS {
            let text = format!("{}{}", token.prefix, body(token));
            let kept = if token.keeps_prefix { token.prefix } else { "" };
            let kind = token.kind;
            let after = if token.alphabet == Alphabet::Graphic { " b" } else { ".)" };
            assert_eq!(
                redacted(&format!("(see {text}{after}")),
                format!("(see {kept}[redacted:{kind}]{after}")
            );
            assert_eq!(
                redacted(&format!(r#"{{\"a\":\"\\n{text}\"}}"#)),
                format!(r#"{{\"a\":\"\\n{kept}[redacted:{kind}]\"}}"#)
            );
        }
    }

    #[test]
    fn text_that_is_too_short_or_not_generated_or_inside_a_word_is_no_token() {
        for token in &PREFIXED_TOKENS {
            let body = body(token);
            if token.required != Required::EncodedLogin {
                assert_no_secret(&format!("see {}{} b", token.prefix, &body.get(1..).unwrap()));
            }
            assert_no_secret(&format!("see {}{}", token.prefix, "x".repeat(token.min_len)));
            assert_no_secret(&format!("see {}{}", token.prefix, "some_word_".repeat(7)));
            if !token.keeps_prefix && !token.prefix.contains('.') {
                assert_no_secret(&format!("see ab{}{body}", token.prefix));
            }
        }
    }

    #[test]
    fn a_token_that_was_cut_off_is_redacted() {
        for after in ["", "...", "…"] {
            let text = concat!("see ghp_", "a2b3c4d5");
            assert_eq!(
                redacted(&format!("{text}{after}")),
                format!("see [redacted:github_token]{after}")
            );
        }
        assert_no_secret("see ghp_a2b3c4d5 and more");
        assert_no_secret("npm_lifecycle2");
    }

    #[test]
    fn a_token_of_fixed_length_is_not_found_in_longer_text() {
        for token in PREFIXED_TOKENS.iter().filter(|token| token.is_fixed_len) {
            let body = body(token);
            assert_no_secret(&format!("see {}{body}A", token.prefix));
            assert_no_secret(&format!("see {}{body}_", token.prefix));
        }
    }

    #[test]
    fn no_prefix_comes_before_a_longer_one_that_starts_with_it() {
        for (at, token) in PREFIXED_TOKENS.iter().enumerate() {
            let mut later = PREFIXED_TOKENS.iter().skip(at + 1);
            let longer = later.find(|other| other.prefix.starts_with(token.prefix));
            assert!(longer.is_none(), "{} comes before {longer:?}", token.prefix);
        }
    }
}
