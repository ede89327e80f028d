//! Times in session files.

use midcourse::Timestamp;

use super::SessionFile;

/// Parses an RFC 3339 date; `None` if it is invalid or before 1970.
pub(crate) fn parse_time(date: &str) -> Option<Timestamp> {
    let date: jiff::Timestamp = date.parse().ok()?;
    u64::try_from(date.as_millisecond()).ok().map(Timestamp::from_unix_ms)
}

/// The time of the latest line of a file, for lines that have no time of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineTime(Timestamp);

impl LineTime {
    /// A line before the first time has the time at which the file was last changed.
    pub(crate) const fn new(file: &SessionFile<'_>) -> Self {
        Self(file.modified)
    }

    /// The time of the next line: its date, or the time of the line before it.
    pub(crate) fn of_line(&mut self, date: Option<&str>) -> Timestamp {
        if let Some(at) = date.and_then(parse_time) {
            self.0 = at;
        }
        self.0
    }

    pub(crate) const fn latest(self) -> Timestamp {
        self.0
    }
}
