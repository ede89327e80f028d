//! Values after a label such as `password:`. Finds where a value ends, and decides whether it looks
//! like a secret.
//!
//! Much of the text is source code, where the value after `password` is mostly a variable, a call,
//! a type or an example. The decision depends only on a sample, the first bytes of the value, so
//! that rejecting a long value is cheap. If the value is a secret, all of it is redacted.

use super::bytes::{count_distinct, is_token_byte, prefix_len};
use super::false_positives::{
    contains_descriptive_word, contains_placeholder, is_date, is_digest, is_path, is_variable,
};
use super::marker::{MARKER_START, contains_marker_start};
use super::passphrase::{is_passphrase, is_password_word};
use super::view::View;

const MAX_SAMPLE_LEN: usize = 64;

const MIN_SECRET_LEN: usize = 8;
const MIN_LONG_TOKEN_LEN: usize = 16;

/// A limit that is used twice. At most this many spaces before a value are skipped. The opening
/// quote is then looked for in the next bytes, at most this many, because a prefix (`r#"…"#`) or
/// backslashes may come before the quote.
const MAX_GAP_LEN: usize = 8;

/// How to read a value that is not in quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// The bytes are the value itself, as in an environment variable or a header.
    Literal,
    /// The bytes may be an expression of a programming language.
    MaybeExpression,
}

/// What the label says about the value after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// A password, chosen by a person.
    Password,
    /// A generated token.
    Token,
    /// A generated token that has to be long, because a label such as `key` often precedes other
    /// values.
    LongToken,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    view: View<'a>,
    pub(super) start: usize,
    delimiter: Delimiter,
}

/// What ends a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delimiter {
    Quote {
        quote: u8,
        is_escaped: bool,
    },
    /// Whitespace or punctuation.
    Unquoted,
    /// The end of the text, because the whole text is the value of a field.
    EndOfText,
}

impl<'a> Value<'a> {
    /// The value at `at`, without the spaces and the opening quote before it.
    pub(super) fn at(view: View<'a>, at: usize) -> Self {
        let is_space = |byte| matches!(byte, b' ' | b'\t');
        let start = at + prefix_len(view.ahead_up_to(at, MAX_GAP_LEN), is_space);
        let ahead = view.ahead_up_to(start, MAX_GAP_LEN);
        // The prefix of a string literal: `b"…"`, `r#"…"#`, `@"…"`.
        let prefix = prefix_len(ahead, |byte| matches!(byte, b'b' | b'r' | b'u' | b'#' | b'@'));
        let escapes = prefix_len(ahead.get(prefix..).unwrap_or_default(), |byte| byte == b'\\');
        match ahead.get(prefix + escapes) {
            Some(quote @ (b'"' | b'\'' | b'`')) => {
                let delimiter = Delimiter::Quote { quote: *quote, is_escaped: escapes > 0 };
                Self { view, start: start + prefix + escapes + 1, delimiter }
            }
            _ => Self { view, start, delimiter: Delimiter::Unquoted },
        }
    }

    /// The whole text as the value of a field, without surrounding whitespace.
    pub(super) fn of_field(view: View<'a>) -> Self {
        let start = prefix_len(view.ahead(0), |byte| byte.is_ascii_whitespace());
        Self { view, start, delimiter: Delimiter::EndOfText }
    }

    /// Whether the end of the value is certain, because of a closing quote or the end of the text.
    pub(super) fn is_delimited(&self) -> bool {
        self.delimiter != Delimiter::Unquoted
    }

    /// The end of the value, or of its first `max_len` bytes if it is longer.
    fn end_within(&self, max_len: usize) -> usize {
        let ahead = self.view.ahead_up_to(self.start, max_len);
        let mut len = 0;
        while let Some(byte) = ahead.get(len) {
            let next = ahead.get(len + 1).copied();
            match (self.delimiter, *byte) {
                (_, 0..=b' ' | 0x7f) => break,
                (Delimiter::Quote { quote, .. }, byte) if byte == quote => break,
                (Delimiter::Quote { is_escaped: true, .. }, b'\\') => break,
                // Skips both bytes of an escape sequence.
                (Delimiter::Quote { .. }, b'\\')
                    if next.is_some_and(|next| next.is_ascii_graphic()) =>
                {
                    len += 1;
                }
                (
                    Delimiter::Unquoted,
                    b'"' | b'\'' | b'`' | b',' | b';' | b'(' | b')' | b'{' | b'}' | b'[',
                ) => {
                    break;
                }
                (Delimiter::Unquoted, b']' | b'<' | b'>' | b'|' | b'&' | b'\\') => break,
                // `=` is Base64 padding only at the end of a value; before a letter it ends the
                // value.
                (Delimiter::Unquoted, b'=') if next.is_some_and(is_token_byte) => break,
                _ => {}
            }
            len += 1;
        }
        self.start + len.min(ahead.len())
    }

    /// The end of the whole value.
    pub(super) fn end(&self) -> usize {
        self.end_within(usize::MAX)
    }

    /// The first bytes of the value, at most 64. They decide whether the value is a secret.
    pub(super) fn sample(&self) -> &'a [u8] {
        self.view.ahead_up_to(self.start, self.end_within(MAX_SAMPLE_LEN) - self.start)
    }

    pub(super) fn is_secret(&self, expected: Expected, syntax: Syntax) -> bool {
        let sample = self.sample();
        let after = self.view.ahead(self.start + sample.len());
        let is_prose = match self.delimiter {
            Delimiter::Quote { .. } => matches!(after, [b' ' | b'\t', ..]),
            Delimiter::Unquoted => false,
            Delimiter::EndOfText => !self.view.ahead(self.end()).trim_ascii_start().is_empty(),
        };
        let is_expression = !self.is_delimited() && matches!(after, [b'(' | b'[' | b'{', ..]);
        let syntax = if self.is_delimited() { Syntax::Literal } else { syntax };
        // Look a little further than the sample, because a marker may start at the sample's end.
        let around = self.view.ahead_up_to(self.start, sample.len() + MARKER_START.len());
        !is_prose
            && !is_expression
            && looks_secret(sample, expected, syntax)
            && !contains_marker_start(around)
            && !contains_placeholder(sample)
    }

    /// The end of the value if it is a passphrase, which may contain spaces.
    pub(super) fn end_of_passphrase(&self) -> Option<usize> {
        let ahead = self.view.ahead_up_to(self.start, MAX_SAMPLE_LEN);
        let is_closing = |byte: u8| match self.delimiter {
            Delimiter::Quote { quote, is_escaped } => byte == quote || is_escaped && byte == b'\\',
            Delimiter::Unquoted | Delimiter::EndOfText => false,
        };
        let len = prefix_len(ahead, |byte| byte >= b' ' && !is_closing(byte));
        let text = ahead.get(..len)?;
        let is_closed = match self.delimiter {
            Delimiter::Quote { .. } => ahead.get(len).is_some_and(|byte| is_closing(*byte)),
            Delimiter::Unquoted => false,
            Delimiter::EndOfText => self.view.ahead(self.start + len).trim_ascii().is_empty(),
        };
        let is_field = self.delimiter == Delimiter::EndOfText;
        let text = if is_field { text.trim_ascii_end() } else { text };
        (is_closed && is_passphrase(text) && !contains_placeholder(text))
            .then_some(self.start + text.len())
    }

    /// Whether the value is a password made of words. The text after the value must be one that can
    /// follow a value in a shell command: a value before `,` or `)` is probably an argument of a
    /// function.
    pub(super) fn is_password_word(&self) -> bool {
        let sample = self.sample();
        let after = self.view.ahead(self.start + sample.len());
        let is_ended = match (self.delimiter, after) {
            (Delimiter::Quote { is_escaped: true, .. }, [b'\\', _, after @ ..])
            | (Delimiter::Quote { is_escaped: false, .. }, [_, after @ ..]) => {
                !matches!(after, [b',' | b')' | b'.' | b'[', ..])
            }
            (_, []) => true,
            (_, [next, ..]) => next.is_ascii_whitespace() || b";&|\"'`\\".contains(next),
        };
        let is_whole = self.delimiter != Delimiter::EndOfText || after.trim_ascii().is_empty();
        let is_prose =
            matches!((self.delimiter, after), (Delimiter::Quote { .. }, [b' ' | b'\t', ..]));
        is_ended
            && is_whole
            && !is_prose
            && sample.len() < MAX_SAMPLE_LEN
            && is_password_word(sample)
    }
}

/// Counts of character classes in a value.
#[derive(Debug, Clone, Copy, Default)]
struct CharCounts {
    lowercase: usize,
    uppercase: usize,
    digits: usize,
    /// The number of symbols such as `$` or `!`, which names and paths do not contain. A symbol in
    /// the last place does not count, because it may be punctuation after the value.
    symbols: usize,
    /// How often a digit is next to a letter.
    digit_changes: usize,
    /// How often an upper-case letter is next to a lower-case one.
    case_changes: usize,
    /// Whether all bytes are letters, digits, `_`, `-` or `.`.
    is_name: bool,
    has_dot: bool,
}

impl CharCounts {
    fn of(value: &[u8]) -> Self {
        let mut counts = Self { is_name: true, ..Self::default() };
        let mut previous = 0_u8;
        for (at, byte) in value.iter().enumerate() {
            match byte {
                b'a'..=b'z' => counts.lowercase += 1,
                b'A'..=b'Z' => counts.uppercase += 1,
                b'0'..=b'9' => counts.digits += 1,
                b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'~' | b'?' | b'+'
                | b'=' => {
                    counts.symbols += usize::from(at + 1 < value.len());
                    counts.is_name = false;
                }
                b'.' => counts.has_dot = true,
                b'_' | b'-' => {}
                _ => counts.is_name = false,
            }
            let is_digit_change = byte.is_ascii_digit() && previous.is_ascii_alphabetic()
                || byte.is_ascii_alphabetic() && previous.is_ascii_digit();
            counts.digit_changes += usize::from(is_digit_change);
            let is_case_change = byte.is_ascii_uppercase() && previous.is_ascii_lowercase()
                || byte.is_ascii_lowercase() && previous.is_ascii_uppercase();
            counts.case_changes += usize::from(is_case_change);
            previous = *byte;
        }
        counts
    }

    const fn letters(&self) -> usize {
        self.lowercase + self.uppercase
    }

    /// Whether upper-case letters are scattered as in random text: there are at least 16 letters,
    /// at least 30 % of them are upper case, and case changes at least 40 times per 100 letters.
    const fn has_scattered_capitals(&self) -> bool {
        let letters = self.letters();
        letters >= 16 && self.uppercase * 10 >= letters * 3 && self.case_changes * 5 >= letters * 2
    }
}

/// Whether the bytes of a value look like a secret, regardless of the text around it.
pub(super) fn looks_secret(value: &[u8], expected: Expected, syntax: Syntax) -> bool {
    let min_len = if expected == Expected::LongToken { MIN_LONG_TOKEN_LEN } else { MIN_SECRET_LEN };
    if value.len() < min_len || count_distinct(value) < 5 || is_code_or_path(value, syntax) {
        return false;
    }
    if expected != Expected::Password && is_digest(value) {
        return false;
    }
    let counts = CharCounts::of(value);
    let looks_generated = |min_digit_changes: usize| {
        counts.digits > 0 && counts.letters() > 0 && counts.digit_changes >= min_digit_changes
            || syntax == Syntax::Literal && counts.has_scattered_capitals()
    };
    match (expected, syntax) {
        (Expected::Password, Syntax::Literal) => {
            let is_plain = counts.digits == 0 && counts.symbols == 0 || counts.letters() == 0;
            let is_description =
                counts.is_name && counts.digit_changes < 2 && contains_descriptive_word(value);
            !is_plain && !is_description
        }
        // A member of an object or module: `config.password2`, `v2.token_1`.
        (_, Syntax::MaybeExpression) if counts.is_name && counts.has_dot => false,
        (Expected::Password, Syntax::MaybeExpression) => {
            looks_generated(3) || counts.symbols > 0 && counts.digits > 0 && counts.letters() > 0
        }
        (Expected::Token | Expected::LongToken, Syntax::Literal) => looks_generated(2),
        (Expected::Token | Expected::LongToken, Syntax::MaybeExpression) => looks_generated(3),
    }
}

fn is_code_or_path(value: &[u8], syntax: Syntax) -> bool {
    let is_pattern = matches!(value, [b'^' | b'(' | b'[' | b'{' | b'<', ..]);
    let is_operator = syntax == Syntax::MaybeExpression
        && matches!(value, [b'&' | b'*' | b'@' | b'!' | b'-', ..]);
    is_path(value) || is_variable(value) || is_pattern || is_date(value) || is_operator
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_secret(text: &str, expected: Expected) -> bool {
        Value::at(View::new(text.as_bytes(), 0), 0).is_secret(expected, Syntax::MaybeExpression)
    }

    #[test]
    fn a_password_is_distinguished_from_examples_names_and_expressions() {
        for text in [
            "\"hunter2abc\"",
            "'Tr0ub4dor&3'",
            "\"sunshine2024\"",
            "s3cr3tPassw0rd",
            r#"\"p@sswOrd!x\""#,
        ] {
            assert!(is_secret(text, Expected::Password), "{text}");
        }
        for text in [
            "\"password123\"",
            "\"changeme\"",
            "\"correct horse 1\"",
            "string",
            "hashedPassword",
            "get_password1()",
            "user.password2",
            "\"${DB_PASSWORD}\"",
            "$PASSWORD1",
            "\"xxxxxxxx1\"",
            "os.environ[\"PW1\"]",
            "null",
            "\"\"",
            "\"{password1}\"",
            "/etc/passwd1",
            "********",
            "\"<password-1>\"",
            "password1",
            "\"12345678\"",
        ] {
            assert!(!is_secret(text, Expected::Password), "{text}");
        }
    }

    #[test]
    fn a_token_is_distinguished_from_names_dates_and_expressions() {
        for text in [
            "\"a1b2c3d4e5\"",
            "\"QwErTyUiOpAsDfGhJkLz\"",
            "9f8e7d6c5b4a3210",
            "\"550e8400-e29b-41d4\"",
        ] {
            assert!(is_secret(text, Expected::Token), "{text}");
        }
        for text in [
            "next_token()",
            "\"gpt-4-turbo-2024-04-09\"",
            "\"2024-01-01T00:00:00Z\"",
            "\"accessTokenOfTheUser\"",
            "PKCS7PrivateKeyTypes",
            "\"SSHCertPrivateKeyTypes\"",
            "Token2022",
            "\"YOUR_API_KEY_1a2b\"",
            "\"text-embedding-ada-002\"",
            "12345678",
            "config.v1.token2",
        ] {
            assert!(!is_secret(text, Expected::Token), "{text}");
        }
    }

    #[test]
    fn a_value_ends_at_its_quote_or_at_punctuation() {
        let value = |text: &str| {
            let found = Value::at(View::new(text.as_bytes(), 0), 0);
            text.get(found.start..found.end()).unwrap().to_owned()
        };
        assert_eq!(value("  'a\"b' c"), "a\"b");
        assert_eq!(value(r#"\"ab\", c"#), "ab");
        assert_eq!(value(r#""a\"b" c"#), r#"a\"b"#);
        assert_eq!(value(r##"r#"ab"# c"##), "ab");
        assert_eq!(value("ab==, c"), "ab==");
        assert_eq!(value("ab=c"), "ab");
        assert_eq!(value("\"ab\\"), "ab\\");
        assert_eq!(value("\"ab\\é\""), "ab\\é");
    }
}
