//! The marker `[redacted:KIND]` that replaces a secret in a stored text.
//!
//! No rule finds a secret inside a marker, so redacting a redacted text changes nothing.

use super::bytes::contains;
use super::kind::SecretKind;

pub(super) const MARKER_START: &str = "[redacted:";
pub(super) const MARKER_END: &str = "]";

pub(super) fn push_marker(text: &mut String, kind: SecretKind) {
    for part in [MARKER_START, kind.name(), MARKER_END] {
        text.push_str(part);
    }
}

/// The end of the marker that starts at `start`, if there is one.
pub(super) fn end_of_marker(text: &str, start: usize) -> Option<usize> {
    let name = text.get(start..)?.strip_prefix(MARKER_START)?;
    let kind = SecretKind::ALL.into_iter().find(|kind| {
        name.strip_prefix(kind.name()).is_some_and(|rest| rest.starts_with(MARKER_END))
    })?;
    Some(start + MARKER_START.len() + kind.name().len() + MARKER_END.len())
}

/// Whether `bytes` contain the start of a marker, even if its end is cut off.
pub(super) fn contains_marker_start(bytes: &[u8]) -> bool {
    contains(bytes, MARKER_START.as_bytes())
}
