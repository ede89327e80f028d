//! Passwords in login files and SQL: `.netrc`, `.pgpass`, `IDENTIFIED BY '…'`.
//!
//! Here a keyword or the place in the line says that a text is a password, and there is no `=` or
//! `:` after a label.

use super::bytes::{ends_with_ignore_case, last_bytes, matching_suffix, prefix_len};
use super::command_line::find_argument;
use super::kind::SecretKind::LabelledSecret;
use super::value::{Expected, Syntax, Value};
use super::view::{SecretSpan, View};

/// How many bytes before a password are searched for the rest of its line or entry.
const MAX_ENTRY_LEN: usize = 256;

/// The longest password in SQL, in bytes.
const MAX_SQL_PASSWORD_LEN: usize = 256;

/// The password after `password` and the space at `space`.
#[inline(never)]
pub(super) fn find_after_space(view: View<'_>, space: usize) -> Option<SecretSpan> {
    if !ends_with_ignore_case(view.before(space), b"password") {
        return None;
    }
    find_netrc_password(view, space).or_else(|| find_in_sentence(view, space))
}

/// The password in a `.netrc` entry `machine … login … password …`.
fn find_netrc_password(view: View<'_>, space: usize) -> Option<SecretSpan> {
    let before = view.before(space).strip_suffix(b"password")?;
    before.last().filter(|byte| byte.is_ascii_whitespace())?;
    let mut words = last_bytes(before, MAX_ENTRY_LEN)
        .rsplit(|byte| byte.is_ascii_whitespace())
        // Tools number the lines.
        .filter(|word| !word.iter().all(u8::is_ascii_digit));
    let (login, keyword, host) = (words.next()?, words.next()?, words.next()?);
    let is_entry = keyword == b"login"
        && login != b"anonymous"
        && (host.ends_with(b"default")
            || words.next().is_some_and(|word| word.ends_with(b"machine")));
    is_entry.then(|| find_argument(view, space + 1, None))?
}

/// A password in a sentence: `the password is …`. It has to look generated.
fn find_in_sentence(view: View<'_>, space: usize) -> Option<SecretSpan> {
    let ahead = view.ahead_up_to(space, 6);
    let verb = [b" is: ".as_slice(), b" is ", b" was ", b" to "].into_iter();
    let verb_len = verb.filter(|verb| ahead.starts_with(verb)).map(<[u8]>::len).next()?;
    let value = Value::at(view, space + verb_len);
    let is_secret = value.is_secret(Expected::Password, Syntax::Literal);
    is_secret.then(|| SecretSpan { start: value.start, end: value.end(), kind: LabelledSecret })
}

/// The password in the quote at `quote`: `IDENTIFIED BY '…'`, `PASSWORD '…'`.
pub(super) fn find_sql_password(view: View<'_>, quote: usize) -> Option<SecretSpan> {
    let Some(mark @ (b'\'' | b'"')) = view.byte(quote) else { return None };
    let before = view.before(quote).strip_suffix(b" ")?;
    let before = before.strip_suffix(b"\\").unwrap_or(before);
    let is_keyword = ends_with_ignore_case(before, b"identified by")
        || ends_with_ignore_case(before, b"identified by password")
        || ends_with_ignore_case(before, b" password")
            && (has_sql_keyword(before) || is_first(before))
        || ends_with_ignore_case(before, b" by") && has_identified(before)
        || ends_with_ignore_case(before, b" as") && has_identified(before);
    let ahead = view.ahead_up_to(quote + 1, MAX_SQL_PASSWORD_LEN);
    let len = prefix_len(ahead, |byte| byte >= b' ' && byte != mark && byte != b'\\');
    let is_closed = matches!(ahead.get(len), Some(byte) if *byte == mark || *byte == b'\\');
    (is_keyword && is_closed).then(|| find_argument(view, quote + 1, Some(mark)))?
}

/// Whether the words before `password` are those of an SQL statement about a user.
fn has_sql_keyword(before: &[u8]) -> bool {
    let near = last_bytes(before, MAX_ENTRY_LEN);
    let mut words = near.split(|byte| !byte.is_ascii_alphabetic());
    words.any(|word| {
        let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
        is("user") || is("role") || is("login") || is("encrypted") || is("set") || is("mapping")
    })
}

/// Whether `password` is the first word on its line, as in the language of Gradle.
fn is_first(before: &[u8]) -> bool {
    let before = before.get(..before.len() - b"password".len()).unwrap_or_default();
    let before = before.trim_ascii_end();
    before.is_empty()
        || before.ends_with(b"\\n")
        || before.ends_with(b"\"")
        || before.ends_with(b"{")
}

fn has_identified(before: &[u8]) -> bool {
    let near = last_bytes(before, 64);
    near.windows(b"identified".len()).any(|word| word.eq_ignore_ascii_case(b"identified"))
}

/// The password in a line of a `.pgpass` file, `host:port:database:user:password`; `colon` is the
/// position of the last colon.
#[inline(never)]
pub(super) fn find_pgpass_password(view: View<'_>, colon: usize) -> Option<SecretSpan> {
    let is_line_byte = |byte: u8| byte > b' ' && !matches!(byte, b'"' | b'\'' | b'\\' | b'/');
    let before = last_bytes(view.before(colon), MAX_ENTRY_LEN);
    let user = matching_suffix(before, 64, |byte| is_line_byte(byte) && byte != b':');
    let rest = before.get(..before.len() - user.len())?.strip_suffix(b":")?;
    let database = matching_suffix(rest, 64, |byte| is_line_byte(byte) && byte != b':');
    let rest = rest.get(..rest.len() - database.len())?.strip_suffix(b":")?;
    let port = matching_suffix(rest, 6, |byte| byte.is_ascii_digit() || byte == b'*');
    let rest = rest.get(..rest.len() - port.len())?.strip_suffix(b":")?;
    let host = matching_suffix(rest, 96, |byte| is_line_byte(byte) && byte != b':');
    let rest = rest.get(..rest.len() - host.len())?;
    let is_host = host == b"*" || host.first().is_some_and(u8::is_ascii_alphanumeric);
    let is_port = port == b"*" || port.len() >= 4;
    let starts_line = matches!(rest, [] | [.., b'\n' | b'"' | b'\'' | b' ' | b'\t'])
        || rest.ends_with(b"\\n")
        || matches!(rest, [.., b'0'..=b'9', b':'])
        || host.starts_with(b"n") && rest.ends_with(b"\\");
    let is_name = |name: &[u8]| {
        name == b"*" || name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
    };
    if !starts_line || !is_host || !is_port || !is_name(database) || !is_name(user) {
        return None;
    }
    find_argument(view, colon + 1, None)
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn only_the_password_of_an_entry_is_redacted() {
        for (before, after) in [
            ("machine a.b login me password ", "\n"),
            ("machine a.b\n  login me\n  password ", "\nmachine c"),
            ("default login me password ", ""),
            ("db.a.b:5432:main:me:", "\n"),
            ("a\n*:*:*:postgres:", "\n"),
            ("CREATE USER me IDENTIFIED BY '", "';"),
            ("create user me identified by \"", "\";"),
            ("ALTER ROLE me WITH LOGIN PASSWORD '", "';"),
            ("psql -c \"ALTER USER me PASSWORD '", "'\""),
        ] {
            for password in ["p4ss:w0rd", "a8Kd0f3Lq9Zx"] {
                let text = format!("{before}{password}{after}");
                assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
            }
        }
        assert_eq!(
            redacted("the password is a8Kd0f3Lq9Zx."),
            "the password is [redacted:labelled_secret]"
        );
    }

    #[test]
    fn other_text_is_kept() {
        for text in [
            "default login anonymous password me@a.b",
            "the login and password of the machine",
            "machine a login b password <password>",
            "their login me password hunter2",
            "src/a.rs:1200:5:b:c",
            "a.b:5432:main:me",
            "IDENTIFIED BY '<password>'",
            "IDENTIFIED BY '${PASSWORD}'",
            "the password 'hunter2 a'",
            "sorted by 'name'",
            "the password is wrong",
        ] {
            assert_no_secret(text);
        }
    }
}
