//! Times in an `events` line. The time of an event or a deadline is in seconds since the start of
//! the run, or an RFC 3339 date. The start itself is a date or a Unix timestamp.

use std::borrow::Cow;

use midcourse::Timestamp;
use serde::Deserialize;

use crate::session_file::parse_time;

/// A start time of at least this number is in milliseconds since 1970, a smaller number in seconds.
/// As seconds, this number would be a date in the year 5138.
const MIN_MILLISECONDS: f64 = 1e11;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum EventTime<'a> {
    Number(f64),
    #[serde(borrow)]
    Date(Cow<'a, str>),
}

impl EventTime<'_> {
    /// Converts to a point in time, for a run that started at `started_at`; `None` if invalid.
    pub(super) fn resolve(&self, started_at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Number(seconds) => {
                let started_ms = started_at.unix_ms();
                let ms = milliseconds(seconds.abs())?;
                let at = if *seconds < 0.0 {
                    started_ms.saturating_sub(ms)
                } else {
                    started_ms.saturating_add(ms)
                };
                Some(Timestamp::from_unix_ms(at))
            }
            Self::Date(date) => parse_time(date),
        }
    }

    /// The point in time, if it is given as a date; `None` for a number.
    pub(super) fn date(&self) -> Option<Timestamp> {
        match self {
            Self::Number(_) => None,
            Self::Date(date) => parse_time(date),
        }
    }

    /// Converts the start time of a run, which is a date, or a number of seconds or milliseconds
    /// since 1970.
    pub(super) fn absolute(&self) -> Option<Timestamp> {
        match self {
            Self::Number(number) if *number >= MIN_MILLISECONDS => {
                milliseconds(number / 1_000.0).map(Timestamp::from_unix_ms)
            }
            Self::Number(number) => milliseconds(*number).map(Timestamp::from_unix_ms),
            Self::Date(date) => parse_time(date),
        }
    }
}

fn milliseconds(seconds: f64) -> Option<u64> {
    let duration = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(duration.as_millis()).ok().filter(|ms| *ms < u64::MAX / 4)
}
