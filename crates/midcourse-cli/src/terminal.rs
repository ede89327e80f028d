//! Prints messages to the user on standard error. Warnings and errors may quote file content or
//! tool output, so secrets in them are redacted and control characters are escaped.

use std::io::Write as _;

use midcourse::Redaction;

/// Prints a warning or an error, prefixed with the program's name.
pub(crate) fn warn(message: &str) {
    eprint_line(&format!("midcourse: {}", sanitized(message)));
}

/// Redacts secrets in a message and escapes its control characters.
pub(crate) fn sanitized(message: &str) -> String {
    let redacted = Redaction::default().redact(message);
    let message = redacted.as_ref().map_or(message, |redacted| redacted.text.as_str());
    crate::display::escape_control_chars(message).into_owned()
}

/// Prints a line to standard error. Unlike `eprintln!`, does not panic if writing fails.
pub(crate) fn eprint_line(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
