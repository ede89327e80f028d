//! Values after a label such as `password:`. Finds where a value ends, and decides whether it looks
//! like a secret.
//!
//! Much of the text is source code, where the value after `password` is mostly a variable, a call,
//! a type or an example. The decision depends only on a sample, the first bytes of the value, so
//! that rejecting a long value is cheap. If the value is a secret, all of it is redacted.

use super::bytes::{count_distinct, examine, is_token_byte, prefix_len};
use super::false_positives::{contains_placeholder, is_date, is_digest, is_path, is_variable};
use super::marker::{MARKER_START, contains_marker_start};
use super::passphrase::{is_passphrase, is_password_word};
use super::view::View;
use super::words::is_made_of_words;

const MAX_SAMPLE_LEN: usize = 64;

const MIN_PASSWORD_LEN: usize = 4;
/// The minimum length of a password that may be part of an expression.
const MIN_PASSWORD_LEN_IN_CODE: usize = 8;
/// The minimum length of a password that has only digits.
const MIN_NUMBER_LEN: usize = 6;
const MIN_TOKEN_LEN: usize = 8;
const MIN_LONG_TOKEN_LEN: usize = 16;
/// A token of this length may have all its digits in one place.
const MIN_PLAIN_TOKEN_LEN: usize = 20;

/// A limit that is used twice. At most this many spaces before a value are skipped. The opening
/// quote is then looked for in the next bytes, at most this many, because a prefix (`r#"…"#`) or
/// backslashes may come before the quote.
const MAX_GAP_LEN: usize = 8;

/// Settings in columns have more spaces before the value.
const MAX_SPACES: usize = 32;

/// The longest value of a line, in bytes.
const MAX_LINE_LEN: usize = 1024;

/// How to read a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// The bytes are the value itself, as in quotes or in a header.
    Literal,
    /// The same, where only a value can be: after a shell variable or a flag, or on a line of a
    /// configuration file.
    Argument,
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
    /// Whitespace or a special character of a shell.
    Word,
    /// Whitespace, a quote or a backslash, because the value is the rest of its line.
    EndOfLine,
    /// This byte or what ends a line: `;` in a connection string, `<` in an XML element.
    Byte(u8),
    /// The end of the text, because the whole text is the value of a field.
    EndOfText,
}

impl<'a> Value<'a> {
    /// The value at `at`, without the spaces and the opening quote before it.
    pub(super) fn at(view: View<'a>, at: usize) -> Self {
        let is_space = |byte| matches!(byte, b' ' | b'\t');
        let start = at + prefix_len(view.ahead_up_to(at, MAX_SPACES), is_space);
        let start = start + view.colour_len(start);
        let ahead = view.ahead_up_to(start, MAX_GAP_LEN);
        // The prefix of a string literal: `b"…"`, `r#"…"#`, `@"…"`.
        let prefix = prefix_len(ahead, |byte| matches!(byte, b'b' | b'r' | b'u' | b'#' | b'@'));
        let escapes = prefix_len(ahead.get(prefix..).unwrap_or_default(), |byte| byte == b'\\');
        match ahead.get(prefix + escapes) {
            Some(quote @ (b'"' | b'\'' | b'`')) => {
                let delimiter = Delimiter::Quote { quote: *quote, is_escaped: escapes > 0 };
                let start = start + prefix + escapes + 1;
                // Three quotes start a string of several lines.
                let is_triple = view.ahead_up_to(start, 2) == [*quote, *quote];
                let start = start + if is_triple { 2 } else { 0 };
                Self { view, start: start + view.colour_len(start), delimiter }
            }
            _ => Self { view, start, delimiter: Delimiter::Unquoted },
        }
    }

    /// The whole text as the value of a field, without surrounding whitespace.
    pub(super) fn of_field(view: View<'a>) -> Self {
        let start = prefix_len(view.ahead(0), |byte| byte.is_ascii_whitespace());
        Self { view, start, delimiter: Delimiter::EndOfText }
    }

    /// This value, read to the next such byte if it is not in quotes.
    pub(super) const fn to_byte(self, byte: u8) -> Self {
        match self.delimiter {
            Delimiter::Unquoted => Self { delimiter: Delimiter::Byte(byte), ..self },
            _ => self,
        }
    }

    /// This value, read to the end of its line; `None` if more than a comment follows it there, or
    /// if it looks like code.
    pub(super) fn to_end_of_line(self) -> Option<Self> {
        let value = Self { delimiter: Delimiter::EndOfLine, ..self };
        let sample = value.sample();
        let after = self.view.ahead_up_to(value.end_within(MAX_LINE_LEN), MAX_GAP_LEN);
        let is_last = match after {
            [] | [b'\n' | b'\r' | b'\\' | b'"' | b'\'' | b'`' | b'\x1b', ..] => true,
            [b' ' | b'\t', ..] => matches!(
                after.get(prefix_len(after, |byte| matches!(byte, b' ' | b'\t'))),
                None | Some(b'\n' | b'\r' | b'#' | b'\\')
            ),
            _ => false,
        };
        let name_len = prefix_len(sample, |byte| is_token_byte(byte) || byte == b'.');
        let is_code = matches!(sample.get(name_len), Some(b'(' | b'[' | b'<' | b'{'))
            && name_len > 0
            || matches!(sample, [.., b',' | b';' | b'{' | b'(' | b'|'])
            || matches!(sample, [b'&' | b'*' | b'(' | b'[' | b'|', ..]);
        // A generated key may look like a call: `mj(bmx57)6^+…`.
        let symbols = sample.iter().filter(|byte| b"^%!+*@#".contains(byte)).count();
        let is_code = is_code && (sample.len() < 40 || symbols < 3);
        (self.delimiter == Delimiter::Unquoted && is_last && !is_code).then_some(value)
    }

    /// This value, read to the end of the shell word: a `=` is part of it.
    pub(super) const fn to_end_of_word(self) -> Self {
        match self.delimiter {
            Delimiter::Unquoted => Self { delimiter: Delimiter::Word, ..self },
            _ => self,
        }
    }

    /// Whether the end of the value is certain, because of a closing quote or the end of the text.
    pub(super) fn is_delimited(&self) -> bool {
        !matches!(self.delimiter, Delimiter::Unquoted | Delimiter::Word)
    }

    /// Whether the value is in quotes or is the whole text of a field.
    pub(super) const fn is_quoted(&self) -> bool {
        matches!(self.delimiter, Delimiter::Quote { .. } | Delimiter::EndOfText)
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
                (
                    Delimiter::Word,
                    b'"' | b'\'' | b'`' | b';' | b'(' | b')' | b'<' | b'>' | b'|' | b'&' | b'\\'
                    | b',',
                ) => break,
                (Delimiter::Byte(last), byte) if byte == last => break,
                (Delimiter::EndOfLine | Delimiter::Byte(_), b'"' | b'\'' | b'`' | b'\\') => break,
                _ => {}
            }
            len += 1;
        }
        examine(len);
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
            Delimiter::EndOfText => !self.view.ahead(self.end()).trim_ascii_start().is_empty(),
            _ => false,
        };
        let is_expression = !self.is_delimited() && matches!(after, [b'(' | b'[' | b'{', ..]);
        let syntax = match syntax {
            Syntax::MaybeExpression if self.is_delimited() => Syntax::Literal,
            other => other,
        };
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
            _ => false,
        };
        let len = prefix_len(ahead, |byte| byte >= b' ' && !is_closing(byte));
        let text = ahead.get(..len)?;
        let is_closed = match self.delimiter {
            Delimiter::Quote { .. } => ahead.get(len).is_some_and(|byte| is_closing(*byte)),
            Delimiter::EndOfText => self.view.ahead(self.start + len).trim_ascii().is_empty(),
            _ => false,
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
                !matches!(after, [b'.' | b'[', ..])
            }
            (_, []) => true,
            (_, [next, ..]) => next.is_ascii_whitespace() || b";&|\"'`\\<".contains(next),
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
        examine(value.len());
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
    let min_len = match (expected, syntax) {
        (Expected::Password, Syntax::MaybeExpression) => MIN_PASSWORD_LEN_IN_CODE,
        (Expected::Password, _) => MIN_PASSWORD_LEN,
        (Expected::Token, _) => MIN_TOKEN_LEN,
        (Expected::LongToken, _) => MIN_LONG_TOKEN_LEN,
    };
    let min_distinct = if value.len() < MIN_TOKEN_LEN { 3 } else { 5 };
    if value.len() < min_len
        || count_distinct(value) < min_distinct
        || is_code_or_path(value, syntax)
    {
        return false;
    }
    if expected != Expected::Password && is_digest(value) {
        return false;
    }
    let counts = CharCounts::of(value);
    if counts.is_name && is_made_of_words(value) {
        return false;
    }
    let has_both = counts.digits > 0 && counts.letters() > 0;
    let looks_generated = |min_digit_changes: usize| {
        has_both && counts.digit_changes >= min_digit_changes
            || syntax != Syntax::MaybeExpression && counts.has_scattered_capitals()
    };
    match (expected, syntax) {
        // A member of an object or module: `config.password2`, `v2.token_1`.
        (_, Syntax::MaybeExpression) if counts.is_name && counts.has_dot => false,
        (Expected::Password, Syntax::MaybeExpression) => {
            looks_generated(2) || has_both && (counts.symbols > 0 || counts.digits > 1)
        }
        (Expected::Password, _) => {
            let is_number = counts.digits == value.len() && value.len() >= MIN_NUMBER_LEN;
            // Base64 of a short password often has no digit.
            let is_base64 = value.ends_with(b"=") && value.len().is_multiple_of(4);
            has_both
                || is_base64
                || is_number
                || counts.symbols > 0 && counts.letters() + counts.digits > 0
                || counts.has_scattered_capitals()
        }
        (Expected::Token | Expected::LongToken, Syntax::Literal | Syntax::Argument) => {
            let is_plain_token = value.len() >= MIN_PLAIN_TOKEN_LEN
                && (counts.digits > 1 || counts.case_changes > 7)
                && counts.digits + counts.letters() == value.len();
            looks_generated(2) || has_both && is_plain_token
        }
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
            "\"12345\"",
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
