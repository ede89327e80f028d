//! Replaces secrets in a text with markers before anything is stored.
//!
//! The store redacts every text of an event here. One pass over the text finds candidates (places
//! where a secret or its label may be), and rules check each candidate. Redaction is pure, cannot
//! fail, and needs no preparation when a process starts. It takes linear time even on hostile text:
//! most rules read only a bounded number of bytes, and text that a rule reads beyond such a bound
//! is not read again if the rule finds nothing.
//!
//! The rules are code, not regular expressions. Whether `password: x` is a secret depends on the
//! line around it, on what kind of name `x` is and on where the last secret ended, which a regular
//! expression cannot say; and the masks of the prefilter are computed at compile time, so a hook
//! pays nothing for them. Automata for the same labels and prefixes, compiled at build time, would
//! be megabytes that every hook has to load, and would still need most of this code to check what
//! they find.

mod assignment;
mod bytes;
mod call;
mod command_line;
mod encoded;
mod false_positives;
mod header;
mod key;
mod kind;
mod kubernetes;
mod label;
mod login;
mod marker;
mod name_value;
mod passphrase;
mod pattern;
mod pem;
mod positional;
mod prefilter;
mod prefixed_tokens;
mod recovery;
mod search;
mod structured_tokens;
mod url;
mod value;
mod view;
mod words;

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod field_tests;
#[cfg(test)]
mod linear_time;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

use std::ops::Range;

use bytes::is_token_byte;
use marker::{MARKER_START, ceil_boundary, floor_boundary, push_marker};
use pattern::Pattern;
use prefilter::Prefilter;
use search::Search;
use view::SecretSpan;

pub use key::MarkerKey;
pub use kind::{SecretKind, SecretKinds};
pub use pattern::InvalidPattern;

/// The maximum number of times that a text is searched. A text without secrets is searched once,
/// and almost every text with secrets is searched twice.
const MAX_PASSES: usize = 6;

const MIN_CUSTOM_PREFIX_LEN: usize = 4;

/// How many bytes before and after a part of a text are searched too, so that a secret which the
/// part contains only half of is found. A private key of 16,384 bits has 12.5 KB.
const OVERLAP_LEN: usize = 16 * 1024;

/// Settings that say which kinds of secrets are replaced. The default replaces every known kind.
#[derive(Debug, Clone)]
pub struct Redaction {
    kinds: SecretKinds,
    custom_prefixes: Vec<String>,
    patterns: Vec<Pattern>,
    /// The prefilter, which finds the candidates, extended by `custom_prefixes`. `None` if there
    /// are no custom prefixes; then the built-in prefilter is used.
    prefilter: Option<Box<Prefilter>>,
    key: Option<MarkerKey>,
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
        Self {
            kinds: SecretKinds::NONE,
            custom_prefixes: Vec::new(),
            patterns: Vec::new(),
            prefilter: None,
            key: None,
        }
    }

    /// Leaves secrets of this kind in the text.
    #[must_use]
    pub fn without(self, kind: SecretKind) -> Self {
        Self { kinds: self.kinds.without(kind), ..self }
    }

    /// Puts a keyed hash of the secret into each marker: `[redacted:KIND:HASH]`. A store does this
    /// by itself, with a key of its own. Without a key, all secrets of a kind have equal markers.
    #[must_use]
    pub fn with_key(self, key: MarkerKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Uses this key unless there is one already.
    pub(crate) fn with_default_key(mut self, key: impl FnOnce() -> MarkerKey) -> Self {
        self.key.get_or_insert_with(key);
        self
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

    /// Also replaces what a regular expression matches or, if it has a group, what its first group
    /// matches. Call it again to add another pattern.
    ///
    /// The syntax is that of the crate `regex-lite`: no look-around and no back references, so
    /// that a search takes linear time.
    ///
    /// # Errors
    ///
    /// If the pattern is not a regular expression, is too large, or matches the empty text.
    pub fn with_pattern(mut self, pattern: &str) -> Result<Self, InvalidPattern> {
        self.patterns.push(Pattern::new(pattern)?);
        self.kinds = self.kinds.with(SecretKind::CustomPattern);
        Ok(self)
    }

    /// Replaces the secrets in a text. Returns `None`, and allocates nothing, if there are none.
    pub fn redact(&self, text: &str) -> Option<Redacted> {
        self.redact_part(text, 0..text.len())
    }

    /// Replaces the secrets in a part of a text, and returns only this part. A secret that is half
    /// inside is replaced whole. Reads little more than the part itself. Returns `None` if the part
    /// has no secrets.
    pub fn redact_part(&self, text: &str, part: Range<usize>) -> Option<Redacted> {
        let mut redacted = self.redact_once(text, part)?;
        // A marker changes the context of the text around it. For example, a label may now come
        // before another value, which is then a secret too. So search the result again until a
        // search finds nothing.
        for _ in 1..MAX_PASSES {
            let Some(again) = self.redact_once(&redacted.text, 0..redacted.text.len()) else {
                break;
            };
            redacted.text = again.text;
            redacted.count = redacted.count.saturating_add(again.count);
            redacted.kinds = redacted.kinds.union(again.kinds);
        }
        Some(redacted)
    }

    fn redact_once(&self, text: &str, part: Range<usize>) -> Option<Redacted> {
        if self.kinds.is_empty() {
            return None;
        }
        let start = floor_boundary(text, part.start.saturating_sub(OVERLAP_LEN));
        let end = ceil_boundary(text, part.end.saturating_add(OVERLAP_LEN).min(text.len()));
        let searched = text.get(start..end)?;
        let part = part.start.saturating_sub(start)..part.end.saturating_sub(start);
        let secrets = Search::new(self, searched);
        if self.patterns.is_empty() {
            self.replace(searched, part, secrets)
        } else {
            let secrets = pattern::add_matches(&self.patterns, searched, secrets);
            self.replace(searched, part, secrets)
        }
    }

    /// Replaces the secrets in `text`, which is the value of a field. Returns `None` if there are
    /// no secrets.
    ///
    /// First searches `text` as [`redact`](Self::redact) does. If that finds nothing and the name
    /// is that of a secret, such as `password`, checks whether the value itself is the secret.
    pub fn redact_field(&self, name: &str, text: &str) -> Option<Redacted> {
        self.redact(text).or_else(|| self.redact_value(name, text))
    }

    /// Replaces the secrets in a name or an id. Does nothing without a key, because names that
    /// differ only in a secret must stay different.
    pub(crate) fn redact_name(&self, name: &str) -> Option<Redacted> {
        let key = self.key.as_ref()?;
        // Reads the key only if there is a secret.
        self.redact(name).filter(|_| key.hash(b"").is_some())
    }

    /// Replaces the whole text if it is the value of a field with the name of a secret.
    pub(crate) fn redact_value(&self, name: &str, text: &str) -> Option<Redacted> {
        let secret = assignment::find_in_field(name, text)?;
        // If the text contains a marker, it was redacted before, and what is left is not a secret.
        let is_secret = self.kinds.contains(secret.kind) && !text.contains(MARKER_START);
        self.replace(text, 0..text.len(), is_secret.then_some(secret))
    }

    /// Puts a marker in place of each secret of a part, and returns the part; `None` if it has no
    /// secrets.
    fn replace(
        &self,
        text: &str,
        part: Range<usize>,
        secrets: impl IntoIterator<Item = SecretSpan>,
    ) -> Option<Redacted> {
        let mut redacted: Option<Redacted> = None;
        let mut copied = part.start;
        for secret in secrets {
            if secret.start >= part.end {
                break;
            }
            if secret.end <= part.start {
                continue;
            }
            let redacted = redacted.get_or_insert_with(|| Redacted {
                text: String::with_capacity(part.len()),
                count: 0,
                kinds: SecretKinds::NONE,
            });
            redacted.text.push_str(text.get(copied..secret.start).unwrap_or_default());
            let hidden = text.get(secret.start..secret.end).unwrap_or_default();
            push_marker(&mut redacted.text, secret.kind, hidden, self.key.as_ref());
            redacted.count = redacted.count.saturating_add(1);
            redacted.kinds = redacted.kinds.with(secret.kind);
            copied = secret.end;
        }
        redacted.map(|mut redacted| {
            redacted.text.push_str(text.get(copied..part.end).unwrap_or_default());
            redacted
        })
    }
}

/// A text whose secrets were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text, with a marker in place of each secret: `[redacted:KIND:HASH]`, or without a key
    /// `[redacted:KIND]`.
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

/// The longest prefix of a text that has at most `max_len` bytes and does not end inside a marker.
pub(crate) fn head(text: &str, max_len: usize) -> &str {
    text.get(..floor_boundary(text, max_len)).unwrap_or_default()
}

/// The longest suffix of a text that has at most `max_len` bytes and does not start inside a
/// marker.
pub(crate) fn tail(text: &str, max_len: usize) -> &str {
    text.get(ceil_boundary(text, text.len().saturating_sub(max_len))..).unwrap_or_default()
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
