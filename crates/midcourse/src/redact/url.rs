//! Passwords in URLs: `postgres://user:password@host`.
//!
//! The prefilter finds the colon before the password. User and host are not redacted, and at most
//! `MAX_PASSWORD_LEN` bytes after the colon are read.

use super::bytes::{last_bytes, prefix_len, suffix_len};
use super::false_positives::is_placeholder_password;
use super::kind::SecretKind::UrlPassword;
use super::view::{SecretSpan, View};

/// How many bytes before the colon are searched for the URL's scheme and user.
const MAX_USER_LEN: usize = 96;
const MAX_PASSWORD_LEN: usize = 512;

/// The password in a URL such as `https://user:password@host`; `colon` is the position of the colon
/// before the password.
pub(super) fn find_password(view: View<'_>, colon: usize) -> Option<SecretSpan> {
    let before = last_bytes(view.before(colon), MAX_USER_LEN);
    let user_len = suffix_len(before, is_user_byte);
    let scheme = before.get(..before.len() - user_len)?.strip_suffix(b"://");
    let is_url = scheme.is_some_and(|scheme| scheme.last().is_some_and(u8::is_ascii_alphanumeric));
    let start = colon + 1;
    if !is_url && user_len == 0 {
        return None;
    }
    let password = view.ahead_up_to(start, if is_url { MAX_PASSWORD_LEN } else { MAX_USER_LEN });
    let password = password.get(..prefix_len(password, is_password_byte))?;
    let end = start + password.len();
    // The driver of Go has no scheme: `user:password@tcp(host:3306)/db`.
    let is_go = || user_len > 0 && view.ahead(end).starts_with(b"@tcp(");
    let is_secret =
        view.byte(end) == Some(b'@') && (is_url || is_go()) && !is_placeholder_password(password);
    is_secret.then_some(SecretSpan { start, end, kind: UrlPassword })
}

const fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'-' | b'.' | b'%' | b'+' | b'~' | b'!' | b'@')
}

/// Whether a byte can be part of a password. The brackets of placeholders (`${PASSWORD}`,
/// `<password>`) cannot.
const fn is_password_byte(byte: u8) -> bool {
    byte > b' '
        && !matches!(byte, b'@' | b'/' | b'\\' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'{' | b'}')
        && !matches!(byte, b'[' | b']' | b'(' | b')' | b',' | b'|' | 0x7f..)
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn only_the_password_of_a_url_is_redacted() {
        for (before, after) in [
            ("postgres://app:", "@db.internal:5432/main"),
            ("mysql://root:", "@127.0.0.1/x"),
            ("redis://:", "@cache:6379/0"),
            ("mongodb+srv://me:", "@cluster0.mongodb.net"),
            ("amqp://guest:", "@mq//"),
            ("git clone https://me:", "@github.com/a/b.git"),
            ("DATABASE_URL='postgresql+asyncpg://a.b%40c:", "@h'"),
        ] {
            for password in ["hunter2", "pw1", "p%40ss!w0rd", "a:b", "$2y$10"] {
                let text = format!("{before}{password}{after}");
                assert_eq!(redacted(&text), format!("{before}[redacted:url_password]{after}"));
            }
        }
    }

    #[test]
    fn ports_placeholders_and_variables_are_kept() {
        for text in [
            "https://example.com:8080/a@b",
            "user@host:path and git@github.com:a/b.git",
            "postgres://user:password@localhost/db",
            "postgres://user:${DB_PASSWORD}@localhost/db",
            "postgres://user:$DB_PASSWORD@localhost/db",
            "postgres://user:%s@localhost/db",
            "postgres://user:<password>@localhost/db",
            "postgres://user:{password}@localhost/db",
            "postgres://user:****@localhost/db",
            "see http://a:80 or mail b@c",
            "http://localhost:8080?to=me@there",
            "at 12:30@noon",
            "://a:b@c",
        ] {
            assert_no_secret(text);
        }
    }
}
