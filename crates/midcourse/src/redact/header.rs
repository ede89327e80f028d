//! What headers and login files hold: credentials behind a scheme, cookies, encoded logins.

use super::OPEN;
use super::known::{distinct, is_credential};
use super::shape::SecretShape::{Authorization, Cookie, LabelledSecret};
use super::sight::{Secret, Sight, count, in_token};
use super::value::{Form, Look, holds_stand_in, looks_secret};

/// How far the cookies of a header are looked at.
const COOKIES_MAX: usize = 256;

/// The longest name of a cookie that stays: no secret is as short, so that none is passed over.
const COOKIE_NAME_MAX: usize = 11;

/// The shortest encoded login, and how much of one is looked at.
const LOGIN_MIN: usize = 16;
const LOGIN_JUDGED: usize = 64;

/// The credential in a header whose value begins at `start`: `Bearer …`.
pub(super) fn find_credential(sight: Sight<'_>, start: usize) -> Option<Secret> {
    const SCHEMES: [&[u8]; 7] =
        [b"bearer", b"basic", b"token", b"apikey", b"key", b"bot", b"digest"];
    let head = sight.head(start, 16);
    let word = head.get(..count(head, |byte| byte.is_ascii_alphabetic()))?;
    let is_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    let spaces = count(sight.head(start + word.len(), 4), |byte| byte == b' ');
    let start = if is_scheme && spaces > 0 { start + word.len() + spaces } else { start };
    let head = sight.head(start, 64);
    let head = head.get(..count(head, is_credential))?;
    // `dXNlcjpwYXNz` has no digit, and `YOUR_API_KEY` no small letter.
    let has = |kind: fn(&u8) -> bool| head.iter().any(kind);
    let capitals = head.iter().skip(1).filter(|byte| byte.is_ascii_uppercase()).count();
    let is_made = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || word.eq_ignore_ascii_case(b"basic") && has(u8::is_ascii_lowercase) && capitals > 1;
    let min = if is_scheme { 8 } else { 16 };
    // Some other scheme, and then what it needs.
    let is_other_scheme = !is_scheme && sight.byte(start + head.len()) == Some(b' ');
    // A call or an index is not what is sent.
    let is_expression =
        matches!(sight.byte(start + head.len()), Some(b'(' | b'[' | b'{' | b'$' | b'<'));
    if head.len() < min || !is_made || is_expression || is_other_scheme || distinct(head) < 5 {
        return None;
    }
    let end = start + count(sight.ahead(start), is_credential);
    Some(Secret { start, end, shape: Authorization })
}

/// The cookies of a header whose value begins at `start`, from the first one's value on, if its name is short.
///
/// A header that sets a cookie holds one, and then what is to be done with it, which stays.
pub(super) fn find_cookies(sight: Sight<'_>, start: usize, is_set: bool) -> Option<Secret> {
    let in_cookies = |byte: u8| {
        byte >= b' '
            && byte != 0x7f
            && !matches!(byte, b'"' | b'\'' | b'`' | b'\\')
            && !(is_set && byte == b';')
    };
    let head = sight.head(start, COOKIES_MAX + OPEN.len());
    let head = head.get(..count(head, in_cookies))?;
    let name = count(head, |byte| in_token(byte) || byte == b'.');
    let is_redacted = head.windows(OPEN.len()).any(|part| part == OPEN.as_bytes());
    if name == 0 || head.get(name) != Some(&b'=') || is_redacted {
        return None;
    }
    let cookies = head.get(..COOKIES_MAX).unwrap_or(head);
    let is_secret = |cookie: &[u8]| {
        let name = count(cookie, |byte| byte != b'=');
        let value = cookie.get(name + 1..).unwrap_or_default();
        !value.contains(&b' ')
            && looks_secret(value, Look::Token, Form::Literal)
            && !holds_stand_in(value)
    };
    cookies.split(|byte| *byte == b';').any(is_secret).then(|| {
        let end = start + count(sight.ahead(start), in_cookies);
        let start = if name > COOKIE_NAME_MAX { start } else { start + name + 1 };
        Secret { start, end, shape: Cookie }
    })
}

/// The encoded `user:password` in quotes that begins at `start`.
pub(super) fn find_login(sight: Sight<'_>, start: usize) -> Option<Secret> {
    let in_login = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let head = sight.head(start, LOGIN_JUDGED);
    let head = head.get(..count(head, in_login))?;
    let is_login = || holds_login(head) || looks_secret(head, Look::LongToken, Form::Literal);
    if head.len() < LOGIN_MIN || !is_login() || holds_stand_in(head) {
        return None;
    }
    let end = start + count(sight.ahead(start), in_login);
    let is_closed = matches!(sight.byte(end), None | Some(b'"' | b'\'' | b'\\'));
    (is_closed && (end - start).is_multiple_of(4)).then_some(Secret {
        start,
        end,
        shape: LabelledSecret,
    })
}

/// Whether what is encoded is readable, with a colon in it.
fn holds_login(encoded: &[u8]) -> bool {
    let (mut bits, mut length, mut has_colon) = (0_u32, 0, false);
    for byte in encoded.iter().take_while(|byte| **byte != b'=') {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = bits << 6 & 0xffff | u32::from(six);
        length += 6;
        if length >= 8 {
            length -= 8;
            let decoded = bits >> length & 0xff;
            if !(0x20..0x7f).contains(&decoded) {
                return false;
            }
            has_colon |= decoded == u32::from(b':');
        }
    }
    has_colon
}

#[cfg(test)]
mod tests {
    use crate::redact::check::{gone, stays};

    #[test]
    fn cookies_go_and_their_header_stays() {
        for (before, after) in [
            ("Cookie: session=", "\r\nHost: a"),
            ("curl -H 'Cookie: sid=", "' x"),
            ("curl -H \"cookie: sid=", "\" x"),
            ("{\"Cookie\": \"sid=", "\"}"),
            (r#"{\"cookie\":\"sid="#, r#"\"}"#),
            ("Set-Cookie: id=", "; Path=/; HttpOnly"),
            ("< set-cookie: __Host-id=", "; Secure"),
        ] {
            let text = format!("{before}a8Kd0f3Lq9Zx77{after}");
            assert_eq!(gone(&text), format!("{before}[redacted:cookie]{after}"));
        }
        assert_eq!(
            gone("Cookie: theme=dark; sid=a8Kd0f3Lq9Zx; b=c\nA: b"),
            "Cookie: theme=[redacted:cookie]\nA: b"
        );
    }

    #[test]
    fn a_name_that_may_be_a_secret_goes_too() {
        let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
        assert_eq!(gone(&format!("Cookie: {key}=a8Kd0f3Lq9Zx")), "Cookie: [redacted:cookie]");
        let own = crate::Redaction::default().with_prefix("acme").unwrap();
        let once = own.redact("Set-Cookie: acme12345678=a8Kd0f3Lq9Zx; Secure").unwrap().text;
        assert_eq!(once, "Set-Cookie: [redacted:cookie]; Secure");
    }

    #[test]
    fn what_is_no_cookie_stays() {
        for text in [
            "Cookie: theme=dark",
            "Cookie: name=value; other=value",
            "Cookie: session=<session-1a2b3c>",
            "Cookie: session=${SESSION_1A2B}",
            "Cookie: session=xxxxxxxx1a2b",
            "cookie: string = a8Kd0f3Lq9Zx",
            "cookie: Cookie1a2b3c4d",
            "cookie = \"sid=a8Kd0f3Lq9Zx\"",
            "Cookie: sid=[redacted:cookie]",
            "Set-Cookie: theme=dark; Expires=Wed, 21 Oct 2015 07:28:00 GMT",
            "cookies: sid=a8Kd0f3Lq9Zx",
        ] {
            stays(text);
        }
    }

    #[test]
    fn an_encoded_login_goes() {
        for login in ["bWU6Y29ycmVjdGhvcnNl", "dXNlcjpodW50ZXIy", "bWU6YThLZDBmM0xxOVp4Nzc="] {
            let text = format!("{{\"auths\": {{\"a.b\": {{\"auth\": \"{login}\"}}}}}}");
            assert_eq!(gone(&text), text.replace(login, "[redacted:labelled_secret]"));
        }
    }

    #[test]
    fn what_is_no_encoded_login_stays() {
        for text in [
            "\"auth\": \"required\"",
            "\"auth\": \"requiredForAllUsers1\"",
            "\"auth\": \"dXNlcjpwYX==\"",
            "\"auth\": \"bWU6Y29ycmVjdGhvcnN\"",
            "auth: bWU6Y29ycmVjdGhvcnNl",
            "\"oauth\": \"bWU6Y29ycmVjdGhvcnNl\"",
            "\"auth\": bWU6Y29ycmVjdGhvcnNl",
        ] {
            stays(text);
        }
    }
}
