//! Secrets in calls and lists: `setenv("TOKEN", "…")`, `basic_auth("me", "…")`, `Fernet("…")`.
//!
//! The label or the user is the string before the comma, or the name of the function says what its
//! argument is.

use super::bytes::{ends_with_ignore_case, last_bytes, matching_suffix};
use super::kind::SecretKind::LabelledSecret;
use super::label::{Label, LabelKind};
use super::value::{Expected, Syntax, Value};
use super::view::{SecretSpan, View};

/// How many bytes before an argument are searched for the name of the function.
const MAX_CALL_LEN: usize = 160;

/// Functions whose argument after the user's name is a password, as they end before the user's
/// name, and functions whose third string is.
const LOGIN_CALLS: [&[u8]; 9] = [
    b"auth(",
    b"auth=(",
    b"auth: [",
    b"auth ",
    b"credentials(",
    b"credentials.new(",
    b"userpassword(",
    b"plainauth(\"\", ",
    b"login(",
];

/// Functions whose only or first argument is a secret.
const SECRET_CALLS: [&[u8]; 6] =
    [b"setpassphrase(", b"password(", b"totp(", b"fernet(", b"fernet(b", b"hotp("];

/// The secret after the comma at `comma`, which follows a string.
pub(super) fn find_after_comma(view: View<'_>, comma: usize) -> Option<SecretSpan> {
    let label = Label::before_operator(view, comma)?;
    let has_label = label.may_matter();
    if !has_label && !is_login_call(view, comma) {
        return None;
    }
    let value = Value::at(view, comma + 1);
    if !value.is_quoted() {
        return None;
    }
    let expected = match label.kind() {
        Some(LabelKind::Password) => Expected::Password,
        Some(
            LabelKind::Token
            | LabelKind::ApiKeyHeader
            | LabelKind::AwsSecretKey
            | LabelKind::OtherKey,
        ) => Expected::Token,
        _ if !has_label || is_login_call(view, comma) => Expected::Password,
        _ => return None,
    };
    let end = match value.is_secret(expected, Syntax::Literal) {
        true => value.end(),
        false => value.end_of_passphrase().filter(|_| expected == Expected::Password)?,
    };
    Some(SecretSpan { start: value.start, end, kind: LabelledSecret })
}

/// Whether the string that ends before the comma is the user of a login.
fn is_login_call(view: View<'_>, comma: usize) -> bool {
    let before = view.before(comma);
    let before = before.get(..before.len().saturating_sub(1)).unwrap_or_default();
    let user =
        matching_suffix(before, 64, |byte| byte > b' ' && !matches!(byte, b'"' | b'\'' | b'\\'));
    let before = before.get(..before.len() - user.len()).unwrap_or_default();
    let Some((_, before)) = before.split_last() else { return false };
    if !before.last().is_some_and(|byte| matches!(byte, b'(' | b'[' | b' ')) {
        return false;
    }
    let is_connection = || {
        let near = last_bytes(before, MAX_CALL_LEN);
        near.ends_with(b"\", ") && memchr::memmem::find(near, b"getConnection(\"").is_some()
    };
    LOGIN_CALLS.iter().any(|call| ends_with_ignore_case(before, call)) || is_connection()
}

/// The secret in the quote after the parenthesis at `open`.
pub(super) fn find_argument(view: View<'_>, open: usize) -> Option<SecretSpan> {
    let before = view.before(open + 1);
    if !SECRET_CALLS.iter().any(|call| ends_with_ignore_case(before, call)) {
        return None;
    }
    let value = Value::at(view, open + 1);
    let is_secret = value.is_quoted() && value.is_secret(Expected::Password, Syntax::Literal);
    is_secret.then(|| SecretSpan { start: value.start, end: value.end(), kind: LabelledSecret })
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn the_secret_of_a_call_is_redacted() {
        for (before, after) in [
            ("props.put(\"mail.smtp.password\", \"", "\");"),
            ("os.Setenv(\"API_TOKEN\", \"", "\")"),
            ("api_key = os.getenv('API_TOKEN', '", "')"),
            ("[\"--user\", \"me\", \"--password\", \"", "\"]"),
            ("VALUES ('smtp_password', '", "');"),
            ("requests.get(url, auth=('me', '", "'))"),
            ("req.SetBasicAuth(\"me\", \"", "\")"),
            ("smtp.PlainAuth(\"\", \"me\", \"", "\", \"a\")"),
            ("DriverManager.getConnection(\"jdbc:a\", \"me\", \"", "\");"),
            ("SET PASSWORD FOR a = PASSWORD('", "');"),
            ("pyotp.TOTP('", "')"),
        ] {
            let text = format!("{before}a8Kd0f3Lq9Zx{after}");
            assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
        }
    }

    #[test]
    fn lists_of_names_are_kept() {
        for text in [
            "[\"password\", \"token\", \"secret2\"]",
            "get(\"password\", \"Passwort\")",
            "(\"token\", \"identifier\")",
            "auth(\"me\", \"them\")",
            "password(\"Your password: \")",
        ] {
            assert_no_secret(text);
        }
    }
}
