//! Properties of redaction for random texts: it does not panic, is idempotent, changes nothing but
//! secrets, and finds every secret that was inserted.

#![expect(clippy::string_slice, reason = "a test that slices wrongly fails")]

use proptest::prelude::*;

use super::marker::{MARKER_END, MARKER_START, end_of_marker};
use super::{Redaction, SecretKind};

/// Pieces from which random texts are built: parts of secrets, labels, and texts that nearly match.
pub(super) const PIECES: &[&str] = &[
    "password",
    "token",
    "API_KEY",
    "secret_access_key",
    "Authorization",
    "Bearer ",
    "Basic ",
    "x-api-key",
    "=",
    ":",
    " = ",
    ": ",
    "\"",
    "\\\"",
    "'",
    "`",
    "]",
    "[",
    "['",
    "']",
    "\n",
    "\\n",
    " ",
    ";",
    ",",
    "&",
    "?",
    "@",
    "/",
    "://",
    ".",
    "-",
    "--",
    "-----",
    "-----BEGIN ",
    "BEGIN ",
    "END ",
    "PRIVATE KEY",
    "-----END PRIVATE KEY-----",
    "ghp_",
    "sk-",
    "sk-ant-",
    "AKIA",
    "AIza",
    "eyJ",
    "hf_",
    "ya29.",
    "SG.",
    "hooks.slack.com/services/",
    "postgres://user:",
    "redis://",
    "[redacted:jwt]",
    "[redacted:",
    "github_token]",
    "a8Kd0f3Lq9Zx",
    "IOSFODNN7QRSTUVW",
    "123456789",
    ":AA",
    "$",
    "{",
    "}",
    "(",
    "<",
    ">",
    "<password>",
    " --password ",
    "Password=",
    "Zk1vXoJ8yTgq2mR5sW9dLfHc3uNxPz6aYtVb0eKjIrQwb3Bl",
    "é",
    "=>",
    "MTAxMjM0NTY3ODkwMTIzNDU2",
    "GhIjKl",
    "example",
    "xxxx",
    "%3D",
    "\x1b[31m",
    "string",
    "hunter2x",
    "sig=",
    "cio",
    "PGPASSWORD=",
    "correcthorse",
    "correct horse ",
    "battery 9",
    "Cookie: ",
    "Set-Cookie: ",
    "sid=",
    "ghp_a3B7cD4eF5gH6iJ7kL8mN9oP0qR1sT2uV3wX",
    "curl ",
    " -u me:",
    "--user ",
    "sshpass -p ",
    "mysql -p",
    "machine a login b ",
    "password ",
    "\"auth\": \"",
    "bWU6Y29ycmVjdGhvcnNl",
    "SECRET=",
    "my-tls-",
    "sha256:",
    "name: DB_PASSWORD\n",
    "value: ",
    "kind: Secret\n",
    "data:\n  a: ",
    "YWRtaW4=\n",
    "echo ",
    " | ",
    "chpasswd",
    "recovery codes:\n",
    "cbcec-9d87b\n",
    "IDENTIFIED BY '",
    "net use ",
    "setx ",
    "\", \"",
    "<property name=\"password\">",
    "a.b:5432:c:d:",
    "\x1b[0m",
    "-----END ",
    "…",
    "[redacted:jwt:b12def]",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        pieces(),
        any::<String>(),
        (pieces(), any::<String>(), pieces()).prop_map(|(a, b, c)| a + &b + &c)
    ]
}

fn redacted(text: &str) -> Option<String> {
    Redaction::default().redact(text).map(|redacted| redacted.text)
}

/// The texts around the `[redacted:…]` markers: before, between and after them.
fn parts_between_markers(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = text[at..].find(MARKER_START) {
        at += found;
        if let Some(end) = end_of_marker(text, at) {
            parts.push(&text[start..at]);
            (start, at) = (end, end);
        } else {
            at += MARKER_START.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Whether the parts occur in the text in this order, with the first part at its start and the last
/// at its end.
fn occur_in_order(parts: &[&str], text: &str) -> bool {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let mut rest = text;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    text.starts_with(first) && text.ends_with(last)
}

/// A random secret of a kind that needs no label.
fn secrets() -> impl Strategy<Value = (String, SecretKind)> {
    use SecretKind::*;
    let secret = |prefix: &'static str, body: &'static str, kind: SecretKind| {
        body.prop_map(move |body| (format!("{prefix}{body}"), kind)).boxed()
    };
    let letters = "[a-z]3[A-Z]7[a-z][A-Z][a-zA-Z0-9]{44}";
    let hex = "a0b1c2[0-9a-f]{58}";
    prop_oneof![
        secret("AKIA", "B2C3D[A-Z2-7]{11}", AwsAccessKey),
        secret("AIza", "Sy3D4[A-Za-z0-9_-]{29}x", GoogleApiKey),
        secret("ya29.", letters, GoogleOauth),
        secret("ghp_", letters, GithubToken),
        secret("github_pat_", letters, GithubToken),
        secret("glpat-", letters, GitlabToken),
        secret("sk-", letters, OpenaiKey),
        secret("sk-proj-", letters, OpenaiKey),
        secret("sk-ant-api03-", letters, AnthropicKey),
        secret("sk-or-v1-", hex, OpenrouterKey),
        secret("hf_", letters, HuggingFaceToken),
        secret("gsk_", letters, GroqKey),
        secret("xai-", letters, XaiKey),
        secret("r8_", letters, ReplicateToken),
        secret("xoxb-", "12345678901-[0-9]{11}-[a-zA-Z0-9]{24}", SlackToken),
        secret("sk_live_", letters, StripeKey),
        secret("whsec_", letters, StripeKey),
        secret("SG.", "a1b2c3[a-zA-Z0-9]{16}\\.[a-zA-Z0-9_]{43}", SendgridKey),
        secret("npm_", letters, NpmToken),
        secret("pypi-AgE", "IcHlwaS5vcmc[a-zA-Z0-9_]{60}", PypiToken),
        secret("dckr_pat_", letters, DockerToken),
        secret("cio", "a1B2c[a-zA-Z0-9]{27}", CratesToken),
        secret("dop_v1_", hex, DigitaloceanToken),
        secret("shpat_", hex, ShopifyToken),
        secret("lin_api_", letters, LinearKey),
        secret("ntn_", letters, NotionToken),
        secret("tvly-", letters, ServiceToken),
        secret("eyJhbGciOiJIUzI1NiJ9.eyJ", "[a-zA-Z0-9_]{30}\\.[a-zA-Z0-9_-]{40}", Jwt),
        secret("MTA1", "[a-zA-Z0-9]{20}\\.[a-zA-Z0-9]{6}\\.[a-zA-Z0-9_]{38}", DiscordToken),
        secret("123456789:AA", "[a-zA-Z0-9_]{33}", TelegramToken),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn redaction_is_idempotent(text in texts()) {
        if let Some(once) = redacted(&text) {
            prop_assert_eq!(redacted(&once), None, "{:?} from {:?}", once, text);
        }
    }

    #[test]
    fn redaction_with_custom_prefixes_is_idempotent(text in texts()) {
        let redaction = Redaction::default().with_prefix("a8Kd").and_then(|redaction| redaction.with_prefix("labelled")).unwrap();
        if let Some(once) = redaction.redact(&text) {
            prop_assert_eq!(redaction.redact(&once.text), None, "{:?} from {:?}", once, text);
        }
    }

    #[test]
    fn redaction_of_a_field_is_idempotent(
        name in prop::sample::select(vec!["password", "DB_PASSWORD", "token", "Authorization", "Cookie", "auth", "x-api-key", "text"]),
        text in texts(),
    ) {
        let redaction = Redaction::default();
        if let Some(once) = redaction.redact_field(name, &text) {
            prop_assert_eq!(redaction.redact_field(name, &once.text), None, "{:?} from {:?}", once, text);
        }
    }

    #[test]
    fn everything_but_secrets_is_kept(text in texts()) {
        let Some(once) = Redaction::default().redact(&text) else { return Ok(()) };
        let parts_before = parts_between_markers(&text).len();
        let parts = parts_between_markers(&once.text);
        prop_assert!(once.count > 0 && parts.len() <= parts_before + once.count as usize);
        prop_assert!(occur_in_order(&parts, &text), "{:?} from {:?}", once.text, text);
    }

    #[test]
    fn an_inserted_secret_is_redacted(
        before in texts(), (secret, kind) in secrets(), after in texts(),
        open in prop::sample::select(vec![" ", "\n", "\"", "(", ">", "= ", "é", r"\n", ", "]),
        close in prop::sample::select(vec![" ", "\n", "\"", ")", "<", ";", "é", r"\n", ", "]),
    ) {
        let text = format!("{before}{open}{secret}{close}{after}");
        let Some(once) = redacted(&text) else { return Err(TestCaseError::fail(format!("found no secret in {text:?}"))) };
        prop_assert!(!once.contains(&secret), "{} in {:?}", kind, once);
    }

    #[test]
    fn a_secret_is_replaced_by_a_marker_with_its_kind((secret, kind) in secrets()) {
        let text = format!("see {secret} there");
        prop_assert_eq!(redacted(&text), Some(format!("see {MARKER_START}{kind}{MARKER_END} there")));
    }

    #[test]
    fn plain_words_are_kept(text in "([a-z]{1,12}[ ,.!?\n]){0,40}") {
        prop_assert_eq!(redacted(&text), None);
    }
}

#[test]
fn a_label_that_a_marker_uncovers_is_found_at_once() {
    let text = "setx MTAxMjM0NTY3ODkwMTIzNDU2>-----END PRIVATE KEY-----password ?password";
    let once = Redaction::default().redact(text).unwrap();
    assert_eq!(Redaction::default().redact(&once.text), None, "{once:?}");
    assert_eq!(once.count, 2);
}
