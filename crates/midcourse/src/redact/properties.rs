//! What holds for every text: no panic, nothing else changed, twice is once, and planted secrets
//! are gone.

#![expect(clippy::string_slice, reason = "a test that slices wrongly fails")]

use proptest::prelude::*;

use super::{CLOSE, OPEN, Redaction, SecretShape, end_of_placeholder};

/// Pieces from which secrets, labels and near misses are made.
const PIECES: &[&str] = &[
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

/// The parts of a text between what stands for secrets.
fn parts_left(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = text[at..].find(OPEN) {
        at += found;
        if let Some(end) = end_of_placeholder(text, at) {
            parts.push(&text[start..at]);
            (start, at) = (end, end);
        } else {
            at += OPEN.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Whether the parts stand in the text, in that order, from its first byte to its last.
fn are_left_of(parts: &[&str], text: &str) -> bool {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let mut rest = text;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    text.starts_with(first) && text.ends_with(last)
}

/// A secret of each shape that is known by its beginning, from random bytes.
fn planted() -> impl Strategy<Value = (String, SecretShape)> {
    use SecretShape::*;
    let of = |prefix: &'static str, body: &'static str, shape: SecretShape| {
        body.prop_map(move |body| (format!("{prefix}{body}"), shape)).boxed()
    };
    let letters = "[a-z]3[A-Z]7[a-z][A-Z][a-zA-Z0-9]{44}";
    let hex = "a0b1c2[0-9a-f]{58}";
    prop_oneof![
        of("AKIA", "B2C3D[A-Z2-7]{11}", AwsAccessKey),
        of("AIza", "Sy3D4[A-Za-z0-9_-]{29}x", GoogleApiKey),
        of("ya29.", letters, GoogleOauth),
        of("ghp_", letters, GithubToken),
        of("github_pat_", letters, GithubToken),
        of("glpat-", letters, GitlabToken),
        of("sk-", letters, OpenaiKey),
        of("sk-proj-", letters, OpenaiKey),
        of("sk-ant-api03-", letters, AnthropicKey),
        of("sk-or-v1-", hex, OpenrouterKey),
        of("hf_", letters, HuggingFaceToken),
        of("gsk_", letters, GroqKey),
        of("xai-", letters, XaiKey),
        of("r8_", letters, ReplicateToken),
        of("xoxb-", "12345678901-[0-9]{11}-[a-zA-Z0-9]{24}", SlackToken),
        of("sk_live_", letters, StripeKey),
        of("whsec_", letters, StripeKey),
        of("SG.", "a1b2c3[a-zA-Z0-9]{16}\\.[a-zA-Z0-9_]{43}", SendgridKey),
        of("npm_", letters, NpmToken),
        of("pypi-AgE", "IcHlwaS5vcmc[a-zA-Z0-9_]{60}", PypiToken),
        of("dckr_pat_", letters, DockerToken),
        of("cio", "a1B2c[a-zA-Z0-9]{27}", CratesToken),
        of("dop_v1_", hex, DigitaloceanToken),
        of("shpat_", hex, ShopifyToken),
        of("lin_api_", letters, LinearKey),
        of("ntn_", letters, NotionToken),
        of("tvly-", letters, ServiceToken),
        of("eyJhbGciOiJIUzI1NiJ9.eyJ", "[a-zA-Z0-9_]{30}\\.[a-zA-Z0-9_-]{40}", Jwt),
        of("MTA1", "[a-zA-Z0-9]{20}\\.[a-zA-Z0-9]{6}\\.[a-zA-Z0-9_]{38}", DiscordToken),
        of("123456789:AA", "[a-zA-Z0-9_]{33}", TelegramToken),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn twice_is_once(text in texts()) {
        if let Some(once) = redacted(&text) {
            prop_assert_eq!(redacted(&once), None, "{:?} from {:?}", once, text);
        }
    }

    #[test]
    fn twice_is_once_with_an_own_prefix(text in texts()) {
        let redaction = Redaction::default().with_prefix("a8Kd").and_then(|own| own.with_prefix("labelled")).unwrap();
        if let Some(once) = redaction.redact(&text) {
            prop_assert_eq!(redaction.redact(&once.text), None, "{:?} from {:?}", once, text);
        }
    }

    #[test]
    fn a_field_twice_is_once(
        name in prop::sample::select(vec!["password", "DB_PASSWORD", "token", "Authorization", "Cookie", "auth", "x-api-key", "text"]),
        text in texts(),
    ) {
        let redaction = Redaction::default();
        if let Some(once) = redaction.redact_field(name, &text) {
            prop_assert_eq!(redaction.redact_field(name, &once.text), None, "{:?} from {:?}", once, text);
        }
    }

    #[test]
    fn the_rest_is_untouched(text in texts()) {
        let Some(once) = Redaction::default().redact(&text) else { return Ok(()) };
        let already = parts_left(&text).len();
        let parts = parts_left(&once.text);
        prop_assert!(once.count > 0 && parts.len() <= already + once.count as usize);
        prop_assert!(are_left_of(&parts, &text), "{:?} from {:?}", once.text, text);
    }

    #[test]
    fn a_planted_secret_is_gone(
        before in texts(), (secret, shape) in planted(), after in texts(),
        open in prop::sample::select(vec![" ", "\n", "\"", "(", ">", "= ", "é", r"\n", ", "]),
        close in prop::sample::select(vec![" ", "\n", "\"", ")", "<", ";", "é", r"\n", ", "]),
    ) {
        let text = format!("{before}{open}{secret}{close}{after}");
        let Some(once) = redacted(&text) else { return Err(TestCaseError::fail(format!("stays: {text:?}"))) };
        prop_assert!(!once.contains(&secret), "{} in {:?}", shape, once);
    }

    #[test]
    fn alone_a_secret_has_its_name((secret, shape) in planted()) {
        let text = format!("see {secret} there");
        prop_assert_eq!(redacted(&text), Some(format!("see {OPEN}{shape}{CLOSE} there")));
    }

    #[test]
    fn plain_words_stay(text in "([a-z]{1,12}[ ,.!?\n]){0,40}") {
        prop_assert_eq!(redacted(&text), None);
    }
}
