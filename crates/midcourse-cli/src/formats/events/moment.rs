//! Moments: seconds since the run's start, or a date.

use std::borrow::Cow;

use midcourse::Timestamp;
use serde::Deserialize;

/// A number above this, where seconds since 1970 are meant, is milliseconds.
const MILLISECONDS_FROM: f64 = 1e11;

/// When something was.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Moment<'a> {
    /// Seconds.
    Number(f64),
    /// RFC 3339.
    #[serde(borrow)]
    Date(Cow<'a, str>),
}

impl Moment<'_> {
    /// The moment in a run that began then; nothing, if it is none.
    pub(super) fn from(&self, started: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Number(seconds) => {
                let started = started.unix_ms();
                let ms = milliseconds(seconds.abs())?;
                let at = if *seconds < 0.0 {
                    started.saturating_sub(ms)
                } else {
                    started.saturating_add(ms)
                };
                Some(Timestamp::from_unix_ms(at))
            }
            Self::Date(date) => read_date(date),
        }
    }

    /// The date, if it is one.
    pub(super) fn date(&self) -> Option<Timestamp> {
        match self {
            Self::Number(_) => None,
            Self::Date(date) => read_date(date),
        }
    }

    /// The moment by itself: a date, or seconds or milliseconds since 1970.
    pub(super) fn absolute(&self) -> Option<Timestamp> {
        match self {
            Self::Number(number) if *number >= MILLISECONDS_FROM => {
                milliseconds(number / 1_000.0).map(Timestamp::from_unix_ms)
            }
            Self::Number(number) => milliseconds(*number).map(Timestamp::from_unix_ms),
            Self::Date(date) => read_date(date),
        }
    }
}

fn milliseconds(seconds: f64) -> Option<u64> {
    let length = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(length.as_millis()).ok().filter(|ms| *ms < u64::MAX / 4)
}

fn read_date(date: &str) -> Option<Timestamp> {
    let date: jiff::Timestamp = date.parse().ok()?;
    u64::try_from(date.as_millisecond()).ok().map(Timestamp::from_unix_ms)
}
