//! Secrets in headers and login files: credentials after a scheme such as `Bearer`, cookies, and
//! Base64-encoded logins.
//!
//! `assignment` calls these rules when the label before the value is the name of such a header or
//! field. To decide whether a value is a secret, they examine only its first bytes; a secret is
//! then redacted to its end.

use super::bytes::{
    count_distinct, ends_with_ignore_case, is_base64_byte, is_credential_byte, is_token_byte,
    prefix_len,
};
use super::encoded::is_encoded_login;
use super::false_positives::contains_placeholder;
use super::kind::SecretKind::{Authorization, Cookie, LabelledSecret};
use super::marker::{MARKER_START, contains_marker_start};
use super::value::{Expected, Syntax, looks_secret};
use super::view::{SecretSpan, View};

/// How many bytes of a credential or an encoded login are examined to see whether it is a secret.
const SAMPLE_LEN: usize = 64;

/// How many bytes of a header are searched for a secret cookie.
const COOKIES_SAMPLE_LEN: usize = 192;

/// The name of the first cookie in a header is not redacted if it has at most this many bytes. A
/// longer name could itself be a token that another rule would find, so it is redacted together
/// with the cookies.
const MAX_KEPT_NAME_LEN: usize = 11;

const MIN_LOGIN_LEN: usize = 16;

/// The minimum length of a credential after a scheme such as `Bearer`, in bytes.
const MIN_CREDENTIAL_LEN: usize = 8;
/// The minimum length of a credential without a scheme, in bytes.
const MIN_BARE_CREDENTIAL_LEN: usize = 16;

/// The credential in an `Authorization` header whose value starts at `start`: `Bearer …`.
pub(super) fn find_credential(view: View<'_>, start: usize) -> Option<SecretSpan> {
    const SCHEMES: [&[u8]; 7] =
        [b"bearer", b"basic", b"token", b"apikey", b"key", b"bot", b"digest"];
    let ahead = view.ahead_up_to(start, 16);
    let word = ahead.get(..prefix_len(ahead, |byte| byte.is_ascii_alphabetic()))?;
    let is_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    let spaces = prefix_len(view.ahead_up_to(start + word.len(), 4), |byte| byte == b' ');
    let start = if is_scheme && spaces > 0 { start + word.len() + spaces } else { start };
    let sample = view.ahead_up_to(start, SAMPLE_LEN);
    let sample = sample.get(..prefix_len(sample, is_credential_byte))?;
    let has = |class: fn(&u8) -> bool| sample.iter().any(class);
    // Base64 of `user:pass` may have no digit. Unlike `YOUR_API_KEY`, it has both upper and lower
    // case.
    let capitals = sample.iter().skip(1).filter(|byte| byte.is_ascii_uppercase()).count();
    let looks_generated = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || word.eq_ignore_ascii_case(b"basic") && has(u8::is_ascii_lowercase) && capitals > 1;
    let min_len = if is_scheme { MIN_CREDENTIAL_LEN } else { MIN_BARE_CREDENTIAL_LEN };
    let next = view.byte(start + sample.len());
    // A space after the first word means that this word is an authentication scheme that is not in
    // `SCHEMES`, and that its parameters follow.
    let is_other_scheme = !is_scheme && next == Some(b' ');
    // A bracket or `$` means that the word is part of program code: a call, an index or a template.
    let is_expression = matches!(next, Some(b'(' | b'[' | b'{' | b'$' | b'<'));
    if sample.len() < min_len
        || !looks_generated
        || is_expression
        || is_other_scheme
        || count_distinct(sample) < 5
    {
        return None;
    }
    let end = start + prefix_len(view.ahead(start), is_credential_byte);
    Some(SecretSpan { start, end, kind: Authorization })
}

/// The cookies in a header whose value starts at `start`, if one of them looks secret.
///
/// In a `Cookie` header all cookies are redacted, except the name of the first if it is short. A
/// `Set-Cookie` header has one cookie, whose attributes are kept.
pub(super) fn find_cookies(
    view: View<'_>,
    start: usize,
    is_set_cookie: bool,
) -> Option<SecretSpan> {
    let is_cookie_byte = |byte: u8| {
        byte >= b' '
            && byte != 0x7f
            && !matches!(byte, b'"' | b'\'' | b'`' | b'\\')
            && !(is_set_cookie && byte == b';')
    };
    let ahead = view.ahead_up_to(start, COOKIES_SAMPLE_LEN + MARKER_START.len());
    let ahead = ahead.get(..prefix_len(ahead, is_cookie_byte))?;
    let name_len = prefix_len(ahead, |byte| is_token_byte(byte) || byte == b'.');
    if name_len == 0 || ahead.get(name_len) != Some(&b'=') || contains_marker_start(ahead) {
        return None;
    }
    let cookies = up_to_next_header(ahead.get(..COOKIES_SAMPLE_LEN).unwrap_or(ahead));
    let is_secret = |cookie: &[u8]| {
        let name_len = prefix_len(cookie, |byte| byte != b'=');
        let value = cookie.get(name_len + 1..).unwrap_or_default();
        !value.contains(&b' ')
            && looks_secret(value, Expected::Token, Syntax::Literal)
            && !contains_placeholder(value)
    };
    cookies.split(|byte| *byte == b';').any(is_secret).then(|| {
        let end = start + prefix_len(view.ahead(start), is_cookie_byte);
        let keeps_name = name_len <= MAX_KEPT_NAME_LEN;
        let start = if keeps_name { start + name_len + 1 } else { start };
        SecretSpan { start, end, kind: Cookie }
    })
}

/// The text before the next `cookie:`. That is examined when the search has reached it, and only
/// then: otherwise many such labels in a row would be examined again and again.
fn up_to_next_header(cookies: &[u8]) -> &[u8] {
    let mut colons = memchr::memchr_iter(b':', cookies);
    let label = colons.find_map(|colon| {
        let before = cookies.get(..colon)?;
        ends_with_ignore_case(before, b"cookie").then(|| before.len() - b"cookie".len())
    });
    label.and_then(|label| cookies.get(..label)).unwrap_or(cookies)
}

/// The login that starts at `start`: Base64 of `user:password` in quotes, as in Docker's
/// `config.json`.
pub(super) fn find_encoded_login(view: View<'_>, start: usize) -> Option<SecretSpan> {
    let sample = view.ahead_up_to(start, SAMPLE_LEN);
    let sample = sample.get(..prefix_len(sample, is_base64_byte))?;
    let is_login =
        || is_encoded_login(sample) || looks_secret(sample, Expected::LongToken, Syntax::Literal);
    if sample.len() < MIN_LOGIN_LEN || !is_login() || contains_placeholder(sample) {
        return None;
    }
    let len = prefix_len(view.ahead(start), is_base64_byte);
    let end = start + len;
    let is_closed = matches!(view.byte(end), None | Some(b'"' | b'\'' | b'\\'));
    (is_closed && len.is_multiple_of(4)).then_some(SecretSpan { start, end, kind: LabelledSecret })
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn cookies_are_redacted_without_their_header() {
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
            assert_eq!(redacted(&text), format!("{before}[redacted:cookie]{after}"));
        }
        assert_eq!(
            redacted("Cookie: theme=dark; sid=a8Kd0f3Lq9Zx; b=c\nA: b"),
            "Cookie: theme=[redacted:cookie]\nA: b"
        );
    }

    #[test]
    fn a_cookie_name_that_may_be_a_secret_is_redacted_too() {
        let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
        assert_eq!(redacted(&format!("Cookie: {key}=a8Kd0f3Lq9Zx")), "Cookie: [redacted:cookie]");
        let redaction = crate::Redaction::default().with_prefix("acme").unwrap();
        let once = redaction.redact("Set-Cookie: acme12345678=a8Kd0f3Lq9Zx; Secure").unwrap().text;
        assert_eq!(once, "Set-Cookie: [redacted:cookie]; Secure");
    }

    #[test]
    fn cookies_without_a_secret_are_kept() {
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
            assert_no_secret(text);
        }
    }

    #[test]
    fn an_encoded_login_is_redacted() {
        for login in ["bWU6Y29ycmVjdGhvcnNl", "dXNlcjpodW50ZXIy", "bWU6YThLZDBmM0xxOVp4Nzc="] {
            let text = format!("{{\"auths\": {{\"a.b\": {{\"auth\": \"{login}\"}}}}}}");
            assert_eq!(redacted(&text), text.replace(login, "[redacted:labelled_secret]"));
        }
    }

    #[test]
    fn text_that_is_no_encoded_login_is_kept() {
        for text in [
            "\"auth\": \"required\"",
            "\"auth\": \"requiredForAllUsers1\"",
            "\"auth\": \"dXNlcjpwYX==\"",
            "\"auth\": \"bWU6Y29ycmVjdGhvcnN\"",
            "auth: bWU6Y29ycmVjdGhvcnNl",
            "\"oauth\": \"bWU6Y29ycmVjdGhvcnNl\"",
            "\"auth\": bWU6Y29ycmVjdGhvcnNl",
        ] {
            assert_no_secret(text);
        }
    }
}
