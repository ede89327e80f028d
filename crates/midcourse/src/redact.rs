//! Replaces secrets in a text with markers before anything is stored.
//!
//! The store redacts every text of an event here. One pass over the text finds candidates (places
//! where a secret or its label may be), and rules check each candidate. Redaction is pure, cannot
//! fail, and needs no preparation when a process starts. It takes linear time even on hostile text:
//! most rules read only a bounded number of bytes, and text that a rule reads beyond such a bound
//! is not read again if the rule finds nothing.

mod assignment;
mod bytes;
mod command_line;
mod false_positives;
mod header;
mod kind;
mod label;
mod marker;
mod passphrase;
mod pem;
mod prefilter;
mod prefixed_tokens;
mod structured_tokens;
mod url;
mod value;
mod view;

#[cfg(test)]
mod field_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

use bytes::is_token_byte;
use marker::{MARKER_START, end_of_marker, push_marker};
use prefilter::{Candidate, Prefilter, Progress};
use view::{SecretSpan, View};

pub use kind::{SecretKind, SecretKinds};

const MIN_CUSTOM_PREFIX_LEN: usize = 4;

/// Settings that say which kinds of secrets are replaced. The default replaces every known kind.
#[derive(Debug, Clone)]
pub struct Redaction {
    kinds: SecretKinds,
    custom_prefixes: Vec<String>,
    /// The prefilter, which finds the candidates, extended by `custom_prefixes`. `None` if there
    /// are no custom prefixes; then the built-in prefilter is used.
    prefilter: Option<Box<Prefilter>>,
}

/// The default replaces every known kind of secret.
impl Default for Redaction {
    fn default() -> Self {
        Self { kinds: SecretKinds::ALL, ..Self::off() }
    }
}

impl Redaction {
    /// Redaction that replaces nothing.
    pub const fn off() -> Self {
        Self { kinds: SecretKinds::NONE, custom_prefixes: Vec::new(), prefilter: None }
    }

    /// Leaves secrets of this kind in the text.
    #[must_use]
    pub fn without(self, kind: SecretKind) -> Self {
        Self { kinds: self.kinds.without(kind), ..self }
    }

    /// Also replaces tokens of your own: `prefix`, followed by eight or more letters, digits, `_`
    /// or `-`. Call it again to add another prefix.
    ///
    /// # Errors
    ///
    /// If the prefix is shorter than four bytes, or contains other characters than ASCII letters,
    /// digits, `_` and `-`.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, InvalidPrefix> {
        if prefix.len() < MIN_CUSTOM_PREFIX_LEN || !prefix.bytes().all(is_token_byte) {
            return Err(InvalidPrefix { prefix: prefix.to_owned() });
        }
        let prefilter = self.prefilter.get_or_insert_with(|| Box::new(prefilter::BUILT_IN.clone()));
        prefilter.add_custom_prefix(prefix.as_bytes());
        self.custom_prefixes.push(prefix.to_owned());
        self.kinds = self.kinds.with(SecretKind::CustomPrefix);
        Ok(self)
    }

    /// Replaces the secrets in a text. Returns `None`, and allocates nothing, if there are none.
    pub fn redact(&self, text: &str) -> Option<Redacted> {
        if self.kinds.is_empty() {
            return None;
        }
        let search = Search { redaction: self, text, floor: 0, progress: Progress::default() };
        replace(text, search)
    }

    /// Replaces the secrets in `text`, which is the value of a field. Returns `None` if there are
    /// no secrets.
    ///
    /// First searches `text` as [`redact`](Self::redact) does. If that finds nothing and the name
    /// is that of a secret, such as `password`, checks whether the value itself is the secret.
    pub fn redact_field(&self, name: &str, text: &str) -> Option<Redacted> {
        self.redact(text).or_else(|| {
            let secret = assignment::find_in_field(name, text)?;
            // If the text contains a marker, it was redacted before, and what is left is not a
            // secret.
            let is_secret = self.kinds.contains(secret.kind) && !text.contains(MARKER_START);
            replace(text, is_secret.then_some(secret))
        })
    }
}

/// Puts a marker in place of each secret; returns `None` if there are none.
fn replace(text: &str, secrets: impl IntoIterator<Item = SecretSpan>) -> Option<Redacted> {
    let mut redacted: Option<Redacted> = None;
    let mut copied = 0;
    for secret in secrets {
        let redacted = redacted.get_or_insert_with(|| Redacted {
            text: String::with_capacity(text.len()),
            count: 0,
            kinds: SecretKinds::NONE,
        });
        redacted.text.push_str(text.get(copied..secret.start).unwrap_or_default());
        push_marker(&mut redacted.text, secret.kind);
        redacted.count = redacted.count.saturating_add(1);
        redacted.kinds = redacted.kinds.with(secret.kind);
        copied = secret.end;
    }
    redacted.map(|mut redacted| {
        redacted.text.push_str(text.get(copied..).unwrap_or_default());
        redacted
    })
}

/// A text whose secrets were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text, with `[redacted:KIND]` in place of each secret.
    pub text: String,
    /// The number of secrets replaced.
    pub count: u32,
    /// The kinds of the secrets replaced.
    pub kinds: SecretKinds,
}

/// The error for a custom prefix that is too short, or that has characters other than letters,
/// digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid secret prefix {prefix:?}; use 4 or more letters, digits, `_` or `-`")]
pub struct InvalidPrefix {
    /// The rejected prefix.
    pub prefix: String,
}

/// Iterates over the secrets of a text.
struct Search<'a> {
    redaction: &'a Redaction,
    text: &'a str,
    /// The end of the last secret or marker found. No rule looks at the text before this position.
    floor: usize,
    progress: Progress,
}

impl Iterator for Search<'_> {
    type Item = SecretSpan;

    fn next(&mut self) -> Option<SecretSpan> {
        let prefilter = self.redaction.prefilter.as_deref().unwrap_or(&prefilter::BUILT_IN);
        loop {
            let candidate = prefilter.next(self.text.as_bytes(), &mut self.progress)?;
            if candidate.rules & (1 << prefilter::MARKER) != 0
                && let Some(end) = end_of_marker(self.text, candidate.last - 2)
            {
                self.skip_to(end);
            } else if let Some(secret) = self.check(candidate) {
                self.skip_to(secret.end);
                return Some(secret);
            }
        }
    }
}

impl Search<'_> {
    /// Checks the rules of a candidate one after the other and returns the first secret found.
    fn check(&self, candidate: Candidate) -> Option<SecretSpan> {
        let Candidate { last, mut rules } = candidate;
        let view = View::new(self.text.as_bytes(), self.floor);
        let start = last.saturating_sub(2);
        if rules & prefilter::TOKEN_RULES != 0 && !view.is_token_boundary(start) {
            rules &= !prefilter::TOKEN_RULES;
        }
        while rules != 0 {
            let rule = rules.trailing_zeros();
            rules &= rules - 1;
            let colon = last.saturating_sub(1);
            let secret = match rule {
                prefilter::SENDGRID => structured_tokens::find_sendgrid(view, start),
                prefilter::CUSTOM_PREFIX => {
                    prefixed_tokens::find_custom_token(view, start, &self.redaction.custom_prefixes)
                }
                prefilter::ASSIGNMENT => assignment::find_assigned(view, last),
                prefilter::COLON => structured_tokens::find_telegram(view, colon)
                    .or_else(|| url::find_password(view, colon))
                    .or_else(|| command_line::find_curl_password(view, colon)),
                prefilter::FLAG if view.byte(last) == Some(b'p') => {
                    command_line::find_short_flag(view, last)
                }
                prefilter::FLAG => assignment::find_flag(view, last),
                prefilter::NETRC => command_line::find_netrc_password(view, last),
                prefilter::PRIVATE_KEY => pem::find_block(view, start),
                prefilter::JWT => structured_tokens::find_jwt(view, start),
                prefilter::DISCORD => structured_tokens::find_discord(view, start),
                prefix => prefixed_tokens::find_prefixed_token(view, start, prefix),
            };
            let is_redacted = |secret: &SecretSpan| self.redaction.kinds.contains(secret.kind);
            if let Some(secret) = secret.filter(is_redacted) {
                return Some(secret);
            }
        }
        None
    }

    /// Continues the search after a secret or a marker that ends at `end`.
    fn skip_to(&mut self, end: usize) {
        self.floor = end;
        self.progress = Progress::from(end);
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{assert_no_secret, redacted};
    use super::*;

    #[test]
    fn secrets_are_counted_and_named_by_kind() {
        let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
        let text = format!("id {key}, again {key}, and x-api-key: a8Kd0f3Lq9Zx");
        let redacted = Redaction::default().redact(&text).unwrap();
        assert_eq!(redacted.count, 3);
        let kinds: Vec<_> = redacted.kinds.iter().map(|kind| kind.name()).collect();
        assert_eq!(kinds, ["aws_access_key", "api_key_header"]);
        assert_eq!(
            redacted.text,
            "id [redacted:aws_access_key], again [redacted:aws_access_key], \
             and x-api-key: [redacted:api_key_header]"
        );
    }

    #[test]
    fn a_kind_that_is_off_is_kept() {
        let text = concat!("id AKIA", "IOSFODNN7QRSTUVW");
        let without = Redaction::default().without(SecretKind::AwsAccessKey);
        assert_eq!(without.redact(text), None);
        assert_eq!(Redaction::off().redact(text), None);
        assert!(Redaction::default().redact(text).is_some());
    }

    #[test]
    fn tokens_with_a_custom_prefix_are_redacted() {
        let redaction = Redaction::off().with_prefix("acme_live_").unwrap();
        let redacted = redaction.redact("use acme_live_12345678, not acme_live_1234567").unwrap();
        assert_eq!(redacted.text, "use [redacted:custom_prefix], not acme_live_1234567");
        assert_eq!(redaction.redact("xacme_live_12345678"), None);
        // The custom prefix `gith` does not match `github_token` inside a marker.
        let redaction = Redaction::default().with_prefix("gith").unwrap();
        assert_eq!(redaction.redact("a [redacted:github_token] b"), None);
    }

    #[test]
    fn a_short_or_general_prefix_is_rejected() {
        for prefix in ["", "abc", "a b c", "äöüß", "sk_\n"] {
            assert!(Redaction::off().with_prefix(prefix).is_err(), "{prefix:?}");
        }
    }

    #[test]
    fn ordinary_text_is_kept() {
        for text in [
            "task-force, risk-averse, disk-usage, sk-learn",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b",
            "550e8400-e29b-41d4-a716-446655440000",
            "TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24=",
            "hf_model_name_or_path npm_config_user_agent npm_lifecycle_script",
            "@types/node@18.0.0 npm:react-dom@18",
            "MAKIAVELLIAN AKIASHORT",
            "[redacted:jwt] token=[redacted:labelled_secret]",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ] {
            assert_no_secret(text);
        }
    }

    #[test]
    fn adjacent_secrets_are_all_redacted() {
        let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
        assert_eq!(
            redacted(&format!("{key}:{key}@{key}")),
            "[redacted:aws_access_key]:[redacted:aws_access_key]@[redacted:aws_access_key]"
        );
    }
}
