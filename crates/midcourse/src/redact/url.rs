//! Passwords in addresses: `postgres://user:password@host`. Who and where stay readable.

use super::shape::SecretShape::UrlPassword;
use super::sight::{Secret, Sight, count, count_back};

/// The longest user and password that are looked for.
const USER_MAX: usize = 96;
const PASSWORD_MAX: usize = 512;

/// The password that begins behind the colon at `colon`.
pub(super) fn find_password(sight: Sight<'_>, colon: usize) -> Option<Secret> {
    let behind = sight.behind(colon);
    let near = behind.get(behind.len().saturating_sub(USER_MAX)..).unwrap_or_default();
    let user = count_back(near, in_user);
    let scheme = near.get(..near.len() - user)?.strip_suffix(b"://")?;
    if !scheme.last().is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let start = colon + 1;
    let password = sight.head(start, PASSWORD_MAX);
    let length = count(password, in_password);
    let password = password.get(..length)?;
    let is_secret = sight.byte(start + length) == Some(b'@') && !is_stand_in(password);
    is_secret.then_some(Secret { start, end: start + length, shape: UrlPassword })
}

const fn in_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'%' | b'+' | b'~' | b'!')
}

/// Whether a byte may be part of a password; variables and stand-ins hold bytes that may not.
const fn in_password(byte: u8) -> bool {
    byte > b' '
        && !matches!(byte, b'@' | b'/' | b'\\' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'{' | b'}')
        && !matches!(byte, b'[' | b']' | b'(' | b')' | b',' | b'|' | 0x7f..)
}

/// Whether something only stands where a password would.
pub(super) fn is_stand_in(password: &[u8]) -> bool {
    const NAMES: [&[u8]; 9] = [
        b"password",
        b"passwd",
        b"pass",
        b"pw",
        b"pwd",
        b"secret",
        b"token",
        b"port",
        b"x-oauth-basic",
    ];
    let is_variable = matches!(password, [b'$' | b'%', b'A'..=b'Z' | b'a'..=b'z' | b'_', ..])
        && !matches!(password, [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    // `http://host:8080?to=me@there` has a port.
    let digits = count(password, |byte| byte.is_ascii_digit());
    let is_port = digits > 0 && matches!(password.get(digits), Some(b'?' | b'#'));
    password.is_empty()
        || is_variable
        || is_port
        || password.iter().all(|byte| matches!(byte, b'x' | b'X' | b'*' | b'.'))
        || NAMES.iter().any(|name| password.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use crate::redact::check::{gone, stays};

    #[test]
    fn only_the_password_goes() {
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
                assert_eq!(gone(&text), format!("{before}[redacted:url_password]{after}"));
            }
        }
    }

    #[test]
    fn what_is_no_password_stays() {
        stays("https://example.com:8080/a@b");
        stays("user@host:path and git@github.com:a/b.git");
        stays("postgres://user:password@localhost/db");
        stays("postgres://user:${DB_PASSWORD}@localhost/db");
        stays("postgres://user:$DB_PASSWORD@localhost/db");
        stays("postgres://user:%s@localhost/db");
        stays("postgres://user:<password>@localhost/db");
        stays("postgres://user:{password}@localhost/db");
        stays("postgres://user:****@localhost/db");
        stays("see http://a:80 or mail b@c");
        stays("http://localhost:8080?to=me@there");
        stays("at 12:30@noon");
        stays("://a:b@c");
    }
}
