//! Formats values for a terminal: times, durations and untrusted text. Its submodules describe
//! records and patterns in words.

mod description;
mod error_line;
mod pattern_name;

#[cfg(feature = "ui")]
pub(crate) use description::call_text;
pub(crate) use description::{
    Description, Tone, describe_entry, describe_outcome, describe_record,
};
pub(crate) use error_line::error_line;
pub(crate) use pattern_name::plain_name;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::tz::TimeZone;
use midcourse::Timestamp;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A number and a noun, such as `1 run` or `2 runs`.
pub(crate) fn counted<N: std::fmt::Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let end = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// Formats a time in the user's time zone.
pub(crate) fn local_time(at: Timestamp) -> String {
    format_local(at, "%Y-%m-%d %H:%M:%S")
}

/// Formats the date of a time in the user's time zone.
pub(crate) fn local_date(at: Timestamp) -> String {
    format_local(at, "%Y-%m-%d")
}

/// Formats the time of day in the user's time zone.
pub(crate) fn clock_time(at: Timestamp) -> String {
    format_local(at, "%H:%M:%S")
}

/// Formats a time in the user's time zone, to the minute: 16 characters, or 11 without the year.
pub(crate) fn local_minute(at: Timestamp, has_year: bool) -> String {
    format_local(at, if has_year { "%Y-%m-%d %H:%M" } else { "%m-%d %H:%M" })
}

fn format_local(at: Timestamp, format: &str) -> String {
    i64::try_from(at.unix_ms())
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(
            || "?".to_owned(),
            |at| at.to_zoned(TimeZone::system()).strftime(format).to_string(),
        )
}

/// Formats a time for programs: RFC 3339 in UTC.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    i64::try_from(at.unix_ms())
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| at.unix_ms().to_string(), |at| format!("{at:.3}"))
}

/// Formats a duration in at most two units, such as hours and minutes.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, 0) => format!("{} ms", duration.as_millis()),
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

/// Escapes control characters, which could send commands to the terminal, and characters that
/// change the writing direction. Newlines and tabs are kept.
pub(crate) fn escape_control_chars(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// A JSON value on one line. Characters that a terminal or an editor does not show are escaped, as
/// JSON allows it.
pub(crate) fn json_line(value: &Value) -> String {
    let json = value.to_string();
    if !json.contains(is_hidden) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Whether a character is not shown, or changes how the text around it is shown: control
/// characters, those that change the writing direction, those without a width, and tags. With them,
/// a text could hide what a command really does, or contain words that only a model reads.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Puts a text on one line that takes at most `max_columns` columns of a terminal, with control
/// characters escaped.
pub(crate) fn one_line(text: &str, max_columns: usize) -> String {
    let text = escape_control_chars(text);
    let mut line = String::new();
    let mut columns = 0_usize;
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
            columns = columns.saturating_add(1);
        }
        line.push_str(word);
        columns = columns.saturating_add(word.width());
        if columns > max_columns {
            return cut_at_end(&line, max_columns);
        }
    }
    line
}

/// Wraps a text at its spaces, to lines of at most `max_columns` columns. A longer word gets a line of
/// its own. Control characters are escaped.
pub(crate) fn wrapped(text: &str, max_columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in escape_control_chars(text).split_whitespace() {
        let needed = |line: &String| line.width().saturating_add(1).saturating_add(word.width());
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if needed(line) <= max_columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The start of a line of at most `max_columns` columns, ending in an ellipsis if that leaves
/// something out.
fn cut_at_end(line: &str, max_columns: usize) -> String {
    if line.width() <= max_columns {
        return line.to_owned();
    }
    let mut cut = String::new();
    let mut columns = 1_usize;
    for c in line.chars() {
        columns = columns.saturating_add(c.width().unwrap_or(0));
        if columns > max_columns {
            break;
        }
        cut.push(c);
    }
    if max_columns > 0 {
        cut.push('…');
    }
    cut
}

/// The end of a line, such as that of a path, of at most `max_columns` columns. It begins with an
/// ellipsis if that leaves something out. Control characters are escaped.
pub(crate) fn end_of_line(text: &str, max_columns: usize) -> String {
    let line = one_line(text, usize::MAX);
    if line.width() <= max_columns {
        return line;
    }
    let mut columns = 1_usize;
    let mut start = line.len();
    for (at, c) in line.char_indices().rev() {
        columns = columns.saturating_add(c.width().unwrap_or(0));
        if columns > max_columns {
            break;
        }
        start = at;
    }
    let ellipsis = if max_columns > 0 { "…" } else { "" };
    format!("{ellipsis}{}", line.get(start..).unwrap_or_default())
}

/// Adds spaces until the text takes `columns` columns: at its end, or at its start if it is a number.
pub(crate) fn pad(text: &str, columns: usize, is_number: bool) -> String {
    let spaces = " ".repeat(columns.saturating_sub(text.width()));
    if is_number { format!("{spaces}{text}") } else { format!("{text}{spaces}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{end_of_line, escape_control_chars, json_line, one_line, pad};

    #[test]
    fn texts_are_cut_to_the_columns_of_a_terminal() {
        assert_eq!(one_line("a  b\nc", 10), "a b c");
        assert_eq!(one_line("one two three", 8), "one two…");
        assert_eq!(one_line("漢字漢字", 5), "漢字…");
        assert_eq!(one_line("abc", 0), "");
        assert_eq!(end_of_line("/home/me/project", 9), "…/project");
        assert_eq!(end_of_line("漢字漢字", 5), "…漢字");
        assert_eq!(pad("漢", 4, false), "漢  ");
        assert_eq!(pad("7", 3, true), "  7");
    }

    #[test]
    fn hidden_characters_are_escaped_and_keep_their_meaning_in_json() {
        let hidden = "a\u{200b}b\u{202e}c\u{e0041}d\u{7f}e";
        assert_eq!(escape_control_chars(hidden), "a\\u{200b}b\\u{202e}c\\u{e0041}d\\u{7f}e");
        let line = json_line(&json!({"text": hidden, "lines": "x\ny"}));
        assert!(line.is_ascii(), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["text"], hidden);
        let plain = json!({"text": "größer 👍"});
        assert_eq!(json_line(&plain), plain.to_string());
    }
}
