//! Patterns of the user: regular expressions for secrets that no built-in rule knows.
//!
//! `regex-lite` searches in linear time. Nothing is compiled if no pattern is configured.

use regex_lite::{Regex, RegexBuilder};

use super::kind::SecretKind::CustomPattern;
use super::marker::{contains_marker_start, marker_around};
use super::view::SecretSpan;

/// The most memory that one compiled pattern may take, in bytes.
const MAX_COMPILED_LEN: usize = 256 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

/// The error for a pattern that is not a regular expression, is too large, or matches the empty
/// text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern {pattern:?}: {reason}")]
pub struct InvalidPattern {
    /// The rejected pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, InvalidPattern> {
        let invalid = |reason: String| InvalidPattern { pattern: pattern.to_owned(), reason };
        let regex = RegexBuilder::new(pattern)
            .size_limit(MAX_COMPILED_LEN)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        if regex.is_match("") {
            return Err(invalid("it matches the empty text".to_owned()));
        }
        Ok(Self(regex))
    }

    /// What the pattern, or its first group, matches. A match with a marker in it was redacted
    /// before.
    fn secrets<'a>(&'a self, text: &'a str) -> impl Iterator<Item = SecretSpan> + 'a {
        self.0.captures_iter(text).filter_map(move |captures| {
            let found = captures.get(1).or_else(|| captures.get(0))?;
            let is_inside_marker = marker_around(text, found.start()).is_some();
            let has_marker = contains_marker_start(found.as_str().as_bytes());
            (!found.is_empty() && !has_marker && !is_inside_marker).then_some(SecretSpan {
                start: found.start(),
                end: found.end(),
                kind: CustomPattern,
            })
        })
    }
}

/// The secrets that the rules found, together with what the patterns match. Secrets that overlap
/// become one.
pub(super) fn add_matches(
    patterns: &[Pattern],
    text: &str,
    secrets: impl Iterator<Item = SecretSpan>,
) -> Vec<SecretSpan> {
    let mut all: Vec<_> = secrets.collect();
    all.extend(patterns.iter().flat_map(|pattern| pattern.secrets(text)));
    all.sort_by_key(|secret| secret.start);
    let mut merged: Vec<SecretSpan> = Vec::with_capacity(all.len());
    for secret in all {
        match merged.last_mut() {
            Some(last) if secret.start < last.end => last.end = last.end.max(secret.end),
            _ => merged.push(secret),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use crate::redact::Redaction;

    fn redacted(pattern: &str, text: &str) -> Option<String> {
        let redaction = Redaction::default().with_pattern(pattern).unwrap();
        let once = redaction.redact(text)?.text;
        assert_eq!(redaction.redact(&once), None, "{once:?}");
        Some(once)
    }

    #[test]
    fn what_a_pattern_matches_is_redacted() {
        assert_eq!(
            redacted(r"\bE-\d{6}\b", "see E-123456, not E-12").unwrap(),
            "see [redacted:custom_pattern], not E-12"
        );
        assert_eq!(
            redacted(r"badge (\d+)", "badge 4711 and 12").unwrap(),
            "badge [redacted:custom_pattern] and 12"
        );
        assert_eq!(redacted("absent", "badge 4711"), None);
    }

    #[test]
    fn a_match_that_overlaps_a_secret_becomes_one_with_it() {
        let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
        assert_eq!(
            redacted(r"id \S+ end", &format!("the id {key} end")).unwrap(),
            "the [redacted:custom_pattern]"
        );
    }

    #[test]
    fn markers_are_not_matched() {
        for text in ["a [redacted:jwt] b", "a [redacted:jwt:b12def] b"] {
            assert_eq!(redacted("jwt|redacted|[a-f0-9]{6}", text), None);
        }
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for pattern in ["(", "a*", "", r"(?=a)b", r"(a)\1", "(a{500}){500}"] {
            assert!(Redaction::off().with_pattern(pattern).is_err(), "{pattern:?}");
        }
    }
}
