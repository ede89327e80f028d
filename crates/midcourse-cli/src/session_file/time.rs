//! Times in session files.

use midcourse::Timestamp;

/// Parses an RFC 3339 date; `None` if it is invalid or before 1970.
pub(crate) fn parse_time(date: &str) -> Option<Timestamp> {
    let date: jiff::Timestamp = date.parse().ok()?;
    u64::try_from(date.as_millisecond()).ok().map(Timestamp::from_unix_ms)
}
