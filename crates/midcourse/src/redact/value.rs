//! Values behind a label: where they end, and whether they look like a secret.
//!
//! Much of what is read is source code, where most values of a `password` are variables, calls,
//! types and examples. A value is judged by its first bytes, so that a rejected one costs little
//! however long it is; one that is taken is taken whole.

use super::OPEN;
use super::known::distinct;
use super::sight::{Sight, count, in_token};
use super::words::{describes_itself, is_digest, is_passphrase, is_secret_word};

/// How much of a value is judged.
const JUDGED: usize = 64;

/// The shortest secret, and the shortest one behind a label that says little.
const MIN: usize = 8;
const SOME_KEY_MIN: usize = 16;

/// The most spaces before a value.
const SPACES_MAX: usize = 8;

/// Who may have written a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// It stands for itself: in quotes, in an environment, in a header.
    Literal,
    /// It may be an expression.
    Bare,
}

/// What a value has to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Chosen by a person.
    Password,
    /// Made by a machine.
    Token,
    /// Made by a machine, and long: the label says little.
    LongToken,
}

/// Where a value is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    sight: Sight<'a>,
    pub(super) start: usize,
    bounds: Bounds,
}

/// What ends a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bounds {
    /// A quote, which may be escaped.
    Quoted(u8, bool),
    /// What ends a word.
    Bare,
    /// The end of the text, which is all value.
    Field,
}

impl<'a> Value<'a> {
    /// The value behind `at`, behind spaces and an opening quote.
    pub(super) fn behind(sight: Sight<'a>, at: usize) -> Self {
        let is_space = |byte| matches!(byte, b' ' | b'\t');
        let start = at + count(sight.head(at, SPACES_MAX), is_space);
        let ahead = sight.head(start, SPACES_MAX);
        let marks = count(ahead, |byte| matches!(byte, b'b' | b'r' | b'u' | b'#' | b'@'));
        let escapes = count(ahead.get(marks..).unwrap_or_default(), |byte| byte == b'\\');
        let quote = ahead.get(marks + escapes).copied();
        match quote.filter(|byte| matches!(byte, b'"' | b'\'' | b'`')) {
            Some(quote) => {
                let start = start + marks + escapes + 1;
                Self { sight, start, bounds: Bounds::Quoted(quote, escapes > 0) }
            }
            None => Self { sight, start, bounds: Bounds::Bare },
        }
    }

    /// The value that is the whole text, but for the space around it.
    pub(super) fn of_field(sight: Sight<'a>) -> Self {
        let start = count(sight.ahead(0), |byte| byte.is_ascii_whitespace());
        Self { sight, start, bounds: Bounds::Field }
    }

    /// Whether something says where it begins and ends.
    pub(super) fn is_quoted(&self) -> bool {
        self.bounds != Bounds::Bare
    }

    /// The end of the value within the next `reach` bytes.
    fn end_within(&self, reach: usize) -> usize {
        let head = self.sight.head(self.start, reach);
        let mut end = 0;
        while let Some(byte) = head.get(end) {
            let next = head.get(end + 1).copied();
            match (self.bounds, *byte) {
                (_, 0..=b' ' | 0x7f) => break,
                (Bounds::Quoted(quote, _), byte) if byte == quote => break,
                (Bounds::Quoted(_, true), b'\\') => break,
                (Bounds::Quoted(..), b'\\') if next.is_some_and(|next| next.is_ascii_graphic()) => {
                    end += 1;
                }
                (
                    Bounds::Bare,
                    b'"' | b'\'' | b'`' | b',' | b';' | b'(' | b')' | b'{' | b'}' | b'[',
                ) => {
                    break;
                }
                (Bounds::Bare, b']' | b'<' | b'>' | b'|' | b'&' | b'\\') => break,
                // Only padding may follow it.
                (Bounds::Bare, b'=') if next.is_some_and(in_token) => break,
                _ => {}
            }
            end += 1;
        }
        self.start + end.min(head.len())
    }

    /// The end of the whole value.
    pub(super) fn end(&self) -> usize {
        self.end_within(usize::MAX)
    }

    /// The bytes that are judged.
    pub(super) fn judged(&self) -> &'a [u8] {
        self.sight.head(self.start, self.end_within(JUDGED) - self.start)
    }

    /// Whether the value looks like a secret.
    pub(super) fn is_secret(&self, look: Look, form: Form) -> bool {
        let judged = self.judged();
        let ahead = self.sight.ahead(self.start + judged.len());
        let is_prose = match self.bounds {
            Bounds::Quoted(..) => matches!(ahead, [b' ' | b'\t', ..]),
            Bounds::Bare => false,
            Bounds::Field => !self.sight.ahead(self.end()).trim_ascii_start().is_empty(),
        };
        let is_expression = !self.is_quoted() && matches!(ahead, [b'(' | b'[' | b'{', ..]);
        // What stands for a secret may have been cut in two.
        let around = self.sight.head(self.start, judged.len() + OPEN.len());
        let is_redacted = || around.windows(OPEN.len()).any(|part| part == OPEN.as_bytes());
        !is_prose
            && !is_expression
            && looks_secret(judged, look, if self.is_quoted() { Form::Literal } else { form })
            && !is_redacted()
            && !holds_stand_in(judged)
    }
}

impl Value<'_> {
    /// The end of the value if it is a phrase that a person chose, spaces and all.
    pub(super) fn end_of_passphrase(&self) -> Option<usize> {
        let head = self.sight.head(self.start, JUDGED);
        let is_end = |byte: u8| match self.bounds {
            Bounds::Quoted(quote, is_escaped) => byte == quote || is_escaped && byte == b'\\',
            Bounds::Bare | Bounds::Field => false,
        };
        let length = count(head, |byte| byte >= b' ' && !is_end(byte));
        let phrase = head.get(..length)?;
        let is_closed = match self.bounds {
            Bounds::Quoted(..) => head.get(length).is_some_and(|byte| is_end(*byte)),
            Bounds::Bare => false,
            Bounds::Field => self.sight.ahead(self.start + length).trim_ascii().is_empty(),
        };
        let phrase = if self.bounds == Bounds::Field { phrase.trim_ascii_end() } else { phrase };
        (is_closed && is_passphrase(phrase) && !holds_stand_in(phrase))
            .then_some(self.start + phrase.len())
    }

    /// Whether the value is a word that is a secret in an environment, and what follows it is a
    /// shell's rather than a call's.
    pub(super) fn is_secret_word(&self) -> bool {
        let judged = self.judged();
        let ahead = self.sight.ahead(self.start + judged.len());
        let is_ended = match (self.bounds, ahead) {
            (Bounds::Quoted(_, true), [b'\\', _, ahead @ ..])
            | (Bounds::Quoted(_, false), [_, ahead @ ..]) => {
                !matches!(ahead, [b',' | b')' | b'.' | b'[', ..])
            }
            (_, []) => true,
            (_, [next, ..]) => next.is_ascii_whitespace() || b";&|\"'`\\".contains(next),
        };
        let is_whole = self.bounds != Bounds::Field || ahead.trim_ascii().is_empty();
        let is_prose = matches!((self.bounds, ahead), (Bounds::Quoted(..), [b' ' | b'\t', ..]));
        is_ended && is_whole && !is_prose && judged.len() < JUDGED && is_secret_word(judged)
    }
}

/// What one pass over a value tells about it.
#[derive(Debug, Clone, Copy, Default)]
struct Traits {
    lowers: usize,
    uppers: usize,
    digits: usize,
    /// Bytes that names and paths have none of, other than the last.
    symbols: usize,
    /// How often a letter follows a digit, or a digit a letter.
    changes: usize,
    /// How often a capital follows a small letter, or a small letter a capital.
    bumps: usize,
    /// Whether every byte may be part of a name.
    is_name: bool,
    has_dot: bool,
}

impl Traits {
    fn of(value: &[u8]) -> Self {
        let mut traits = Self { is_name: true, ..Self::default() };
        let mut before = 0_u8;
        for (at, byte) in value.iter().enumerate() {
            match byte {
                b'a'..=b'z' => traits.lowers += 1,
                b'A'..=b'Z' => traits.uppers += 1,
                b'0'..=b'9' => traits.digits += 1,
                b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'~' | b'?' | b'+'
                | b'=' => {
                    traits.symbols += usize::from(at + 1 < value.len());
                    traits.is_name = false;
                }
                b'.' => traits.has_dot = true,
                b'_' | b'-' => {}
                _ => traits.is_name = false,
            }
            let is_change = byte.is_ascii_digit() && before.is_ascii_alphabetic()
                || byte.is_ascii_alphabetic() && before.is_ascii_digit();
            traits.changes += usize::from(is_change);
            let is_bump = byte.is_ascii_uppercase() && before.is_ascii_lowercase()
                || byte.is_ascii_lowercase() && before.is_ascii_uppercase();
            traits.bumps += usize::from(is_bump);
            before = *byte;
        }
        traits
    }

    const fn letters(&self) -> usize {
        self.lowers + self.uppers
    }

    /// Whether capitals are strewn over it as no name has them.
    const fn is_bumpy(&self) -> bool {
        let letters = self.letters();
        letters >= 16 && self.uppers * 10 >= letters * 3 && self.bumps * 5 >= letters * 2
    }
}

/// Whether a value looks like a secret, whatever is around it.
pub(super) fn looks_secret(value: &[u8], look: Look, form: Form) -> bool {
    let min = if look == Look::LongToken { SOME_KEY_MIN } else { MIN };
    if value.len() < min || distinct(value) < 5 || is_code(value, form) {
        return false;
    }
    if look != Look::Password && is_digest(value) {
        return false;
    }
    let traits = Traits::of(value);
    let is_machine_made = |changes: usize| {
        traits.digits > 0 && traits.letters() > 0 && traits.changes >= changes
            || form == Form::Literal && traits.is_bumpy()
    };
    match (look, form) {
        (Look::Password, Form::Literal) => {
            let is_plain = traits.digits == 0 && traits.symbols == 0 || traits.letters() == 0;
            let is_described = traits.is_name && traits.changes < 2 && describes_itself(value);
            !is_plain && !is_described
        }
        // `config.password2` and `v2.token_1` are names, wherever they lead.
        (_, Form::Bare) if traits.is_name && traits.has_dot => false,
        (Look::Password, Form::Bare) => {
            is_machine_made(3) || traits.symbols > 0 && traits.digits > 0 && traits.letters() > 0
        }
        (Look::Token | Look::LongToken, Form::Literal) => is_machine_made(2),
        (Look::Token | Look::LongToken, Form::Bare) => is_machine_made(3),
    }
}

/// Whether a value is an expression, a path, a pattern or a date.
fn is_code(value: &[u8], form: Form) -> bool {
    let is_path = matches!(value, [b'/' | b'~', ..] | [b'.', b'/' | b'.', ..])
        || matches!(value, [_, b':', b'\\' | b'/', ..]);
    let is_variable = matches!(value, [b'$' | b'%', b'A'..=b'Z' | b'a'..=b'z' | b'_', ..]);
    let is_pattern = matches!(value, [b'^' | b'(' | b'[' | b'{' | b'<', ..]);
    let is_date = matches!(value, [b'1' | b'2', b'0' | b'9', _, _, b'-', _, _, b'-', ..]);
    let is_pointer = form == Form::Bare && matches!(value, [b'&' | b'*' | b'@' | b'!' | b'-', ..]);
    is_path || is_variable || is_pattern || is_date || is_pointer
}

/// Whether a value holds what nobody's secret holds: what is filled in later, or an example.
pub(super) fn holds_stand_in(value: &[u8]) -> bool {
    const STAND_INS: &[&[u8]] = &[
        b"${",
        b"$(",
        b"{{",
        b"#{",
        b"}",
        b"<",
        b"...",
        b"****",
        b"xxxx",
        b"://",
        b"::",
        b"example",
        b"environ",
        b"getenv",
        b"process.env",
        b"changeme",
        b"change-me",
        b"change_me",
        b"placeholder",
        b"your_",
        b"your-",
        b"yourp",
        b"yours",
        b"yourt",
        b"dummy",
        b"redacted",
        b"-here",
        b"_here",
        "…".as_bytes(),
    ];
    let begins = |value: &[u8], with: &[u8]| {
        value.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with))
    };
    (0..value.len()).any(|at| {
        let rest = value.get(at..).unwrap_or_default();
        let first = rest.first().map(u8::to_ascii_lowercase);
        STAND_INS
            .iter()
            .any(|stand_in| stand_in.first().copied() == first && begins(rest, stand_in))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(text: &str, look: Look, form: Form) -> bool {
        Value::behind(Sight::new(text.as_bytes(), 0), 0).is_secret(look, form)
    }

    #[test]
    fn passwords_look_like_passwords() {
        for text in [
            "\"hunter2abc\"",
            "'Tr0ub4dor&3'",
            "\"sunshine2024\"",
            "s3cr3tPassw0rd",
            r#"\"p@sswOrd!x\""#,
        ] {
            assert!(judge(text, Look::Password, Form::Bare), "{text}");
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
            assert!(!judge(text, Look::Password, Form::Bare), "{text}");
        }
    }

    #[test]
    fn tokens_look_made() {
        for text in [
            "\"a1b2c3d4e5\"",
            "\"QwErTyUiOpAsDfGhJkLz\"",
            "9f8e7d6c5b4a3210",
            "\"550e8400-e29b-41d4\"",
        ] {
            assert!(judge(text, Look::Token, Form::Bare), "{text}");
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
            assert!(!judge(text, Look::Token, Form::Bare), "{text}");
        }
    }

    #[test]
    fn a_value_ends_where_its_quote_says() {
        let end = |text: &str| {
            let value = Value::behind(Sight::new(text.as_bytes(), 0), 0);
            text.get(value.start..value.end()).unwrap().to_owned()
        };
        assert_eq!(end("  'a\"b' c"), "a\"b");
        assert_eq!(end(r#"\"ab\", c"#), "ab");
        assert_eq!(end(r#""a\"b" c"#), r#"a\"b"#);
        assert_eq!(end(r##"r#"ab"# c"##), "ab");
        assert_eq!(end("ab==, c"), "ab==");
        assert_eq!(end("ab=c"), "ab");
        assert_eq!(end("\"ab\\"), "ab\\");
        assert_eq!(end("\"ab\\é\""), "ab\\é");
    }
}
