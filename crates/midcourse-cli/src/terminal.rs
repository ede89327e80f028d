//! Messages to the person at the terminal: on standard error, redacted, without control characters.

use std::io::Write as _;

use midcourse::Redaction;

/// Says something on the side.
pub(crate) fn remark(remark: &str) {
    say(&format!("midcourse: {}", harmless(remark)));
}

/// Messages quote what they are about: without its secrets, and without its control characters.
pub(crate) fn harmless(message: &str) -> String {
    let redacted = Redaction::default().redact(message);
    let message = redacted.as_ref().map_or(message, |redacted| redacted.text.as_str());
    crate::display::plain(message).into_owned()
}

/// Writes a line where it disturbs no result. Nobody may be listening: then there is nobody to tell.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
