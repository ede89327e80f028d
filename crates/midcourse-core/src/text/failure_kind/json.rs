//! Reads the kind of a failure from the JSON object with which a web API reports an error.

use super::FailureKind;
use super::line::TellingLine;
use super::names::{kind_of_api_code, kind_of_status};

/// Fields with an error code: a word such as `not_found`, or an HTTP status code.
const CODE_FIELDS: [&str; 10] = [
    "code",
    "status",
    "statusCode",
    "status_code",
    "type",
    "error",
    "__type",
    "reason",
    "name",
    "error_code",
];

/// Fields with an error message in words.
const MESSAGE_FIELDS: [&str; 7] =
    ["message", "error", "detail", "error_message", "errorMessages", "errorMessage", "msg"];

/// The kind of the failure that a JSON text reports. A code takes precedence over a message, and an
/// earlier field over a later one.
pub(super) fn kind_of_json(text: &str) -> Option<FailureKind> {
    let code =
        fields(text).filter(|(name, _)| CODE_FIELDS.contains(name)).find_map(|(_, value)| {
            let status = value.parse().ok().and_then(kind_of_status);
            status.or_else(|| kind_of_api_code(value))
        });
    code.or_else(|| {
        let mut messages = fields(text).filter(|(name, _)| MESSAGE_FIELDS.contains(name));
        messages.find_map(|(_, value)| TellingLine::of_message(value))
    })
}

/// The names and values of all fields that hold a string or a number, at any depth, in order. The
/// JSON may be incomplete, because long results are cut.
fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after_quote) = rest.split_once('"')?;
            let (name, after) = until_quote(after_quote)?;
            rest = after;
            let Some(value) = after.trim_start().strip_prefix(':') else { continue };
            let value = value.trim_start().trim_start_matches('[');
            if let Some(string) = value.strip_prefix('"') {
                let (string, after) = until_quote(string)?;
                rest = after;
                return Some((name, string));
            }
            let digits = value.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                return Some((name, value.get(..digits)?));
            }
        }
    })
}

/// Splits a text at the first quote that has no backslash before it.
fn until_quote(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let at = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}
