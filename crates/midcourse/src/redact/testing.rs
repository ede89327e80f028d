//! Assertions for the tests of the rules.
//!
//! They redact with the default settings, so that each test runs all rules together.

use super::Redaction;

/// The text with markers in place of its secrets; fails if it has no secrets.
#[track_caller]
pub(super) fn redacted(text: &str) -> String {
    let redacted = Redaction::default().redact(text);
    redacted.unwrap_or_else(|| panic!("found no secret in {text:?}")).text
}

#[track_caller]
pub(super) fn assert_no_secret(text: &str) {
    assert_eq!(Redaction::default().redact(text).map(|redacted| redacted.text), None, "{text:?}");
}
