//! How the tests of this module ask: what is left of a text, and does it stay.

use super::Redaction;

/// The text without its secrets, of which there must be one.
#[track_caller]
pub(super) fn gone(text: &str) -> String {
    let redacted = Redaction::default().redact(text);
    redacted.unwrap_or_else(|| panic!("nothing was taken out of {text:?}")).text
}

/// The text must stay as it is.
#[track_caller]
pub(super) fn stays(text: &str) {
    assert_eq!(Redaction::default().redact(text).map(|redacted| redacted.text), None, "{text:?}");
}
