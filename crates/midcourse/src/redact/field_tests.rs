//! Tests of `redact_field`: the name of a field says whether its value is a secret.
//!
//! Every check also redacts the result again, which must change nothing.

use super::{Redaction, SecretKind};

#[track_caller]
fn check(name: &str, text: &str, expected: Option<&str>) {
    let redaction = Redaction::default();
    let redacted = redaction.redact_field(name, text).map(|redacted| redacted.text);
    assert_eq!(redacted.as_deref(), expected, "{name}: {text:?}");
    if let Some(once) = redacted {
        assert_eq!(redaction.redact_field(name, &once), None, "{name}: {once:?}");
    }
}

#[test]
fn a_field_with_the_name_of_a_secret_is_redacted() {
    for (name, text) in [
        ("password", "Tr0ub4dor&3x"),
        ("password", "it's\"9{quoted"),
        ("dbPassword", "sunshine2024"),
        ("passphrase", "correct horse battery 9"),
        ("DB_PASSWORD", "hunter2abc"),
        ("DB_PASSWORD", "correcthorse"),
        ("password", "correcthorse"),
        ("client_secret", "a8Kd0f3Lq9Zx"),
        ("API Key", "a8Kd0f3Lq9Zx"),
        ("api_key", "a8Kd0f3Lq9Zx,7(b)"),
        ("STRIPE_KEY", "a1b2c3d4e5f6a7b8c9"),
        ("auth", "bWU6Y29ycmVjdGhvcnNl"),
    ] {
        check(name, text, Some("[redacted:labelled_secret]"));
    }
    check("password", " Tr0ub4dor&3x\n", Some(" [redacted:labelled_secret]\n"));
}

#[test]
fn a_field_with_the_name_of_a_header_has_the_kind_of_the_header() {
    check("x-api-key", "a8Kd0f3Lq9Zx", Some("[redacted:api_key_header]"));
    check("Authorization", "Basic dXNlcjpwYXNz", Some("Basic [redacted:authorization]"));
    check("Authorization", "Bearer a8Kd0f3Lq9Zx", Some("Bearer [redacted:authorization]"));
    check("authorization", "a8Kd0f3Lq9Zx77_bQ", Some("[redacted:authorization]"));
    check("Authorization", "Bearer a8Kd0f3Lq9Zx, b\n", Some("Bearer [redacted:authorization]\n"));
    check("Set-Cookie", "sid=a8Kd0f3Lq9Zx; Secure", Some("sid=[redacted:cookie]"));
    check("Cookie", "sid=a8Kd0f3Lq9Zx", Some("sid=[redacted:cookie]"));
    let aws = concat!("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYzzzzzzzKEY");
    check("secretAccessKey", aws, Some("[redacted:aws_secret_key]"));
}

#[test]
fn secrets_in_the_text_are_redacted_whatever_the_name() {
    let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
    check("content", &format!("id {key}"), Some("id [redacted:aws_access_key]"));
    check("password", &format!("a8Kd0 {key}"), Some("a8Kd0 [redacted:aws_access_key]"));
    let far = format!("{}.{key}", "a8Kd0f3Lq9Zx".repeat(8));
    check("password", &far, Some(&far.replace(key, "[redacted:aws_access_key]")));
}

#[test]
fn fields_with_other_names_are_kept() {
    for name in [
        "content",
        "text",
        "command",
        "path",
        "key",
        "token_count",
        "max_tokens",
        "tool_call_id",
        "id",
        "session_id",
        "next_page_token",
        "nextPageToken",
        "sig",
        "oauth",
        "primary_key",
        "CACHE_KEY",
        "",
        "é",
    ] {
        check(name, "a8Kd0f3Lq9Zx77bQ", None);
        check(name, "Tr0ub4dor&3x", None);
    }
}

#[test]
fn values_that_are_no_secret_are_kept() {
    for (name, text) in [
        ("password", ""),
        ("password", "${DB_PASSWORD}"),
        ("password", "$DB_PASSWORD1"),
        ("password", "changeme123"),
        ("password", "correct-test"),
        ("password", "{{ password1 }}"),
        ("password", "<your-password-1>"),
        ("password", "Must be 8 letters or more"),
        ("password", "/run/secrets/db1"),
        ("password", "a8Kd0f3Lq9Zx and more of it"),
        ("password", "a8Kd0f3Lq9Zx\nand more of it"),
        ("token", "accessTokenOfTheUser"),
        ("token", "sha256:9f86d081884c7d659a2feaa0c55ad015"),
        ("secret", "my-tls-secret-v1a2b3c4"),
        ("credentials", "include"),
        ("TOKEN", "required"),
        ("LAYER_KEY", "path/to/file1a2b3c4d.txt"),
        ("Authorization", "Bearer ${TOKEN_1A2B}"),
        ("Cookie", "theme=dark"),
        ("auth", "required"),
        ("password", "[redacted:labelled_secret]"),
        ("password", "a8Kd0f3Lq9Zx[redacted:jwt]"),
    ] {
        check(name, text, None);
    }
}

#[test]
fn a_kind_that_is_off_is_kept() {
    let redaction = Redaction::default().without(SecretKind::LabelledSecret);
    assert_eq!(redaction.redact_field("password", "Tr0ub4dor&3x"), None);
    assert!(redaction.redact_field("x-api-key", "a8Kd0f3Lq9Zx").is_some());
    assert_eq!(Redaction::off().redact_field("x-api-key", "a8Kd0f3Lq9Zx"), None);
}
