//! Parses durations and times as people write them on the command line.

use std::time::Duration;

use jiff::Zoned;
use jiff::civil::{DateTime, Time};
use midcourse::Timestamp;

use crate::duration::parse_duration;

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "try 90m, 2h or \"1h 30m\"; at most 365d".to_owned())
}

/// Parses a time such as `07:00` or `2026-11-16 07:00`, which must be in the future.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_after(&Zoned::now(), text)
}

fn moment_after(now: &Zoned, text: &str) -> Result<Timestamp, String> {
    let invalid = || "try a future time such as 07:00 or \"2026-11-16 07:00\"".to_owned();
    let at = if let Ok(at) = text.parse::<jiff::Timestamp>() {
        at
    } else if let Ok(at) =
        text.parse::<DateTime>().and_then(|at| at.to_zoned(now.time_zone().clone()))
    {
        at.timestamp()
    } else {
        let time = text.parse::<Time>().map_err(|_| invalid())?;
        next(now, time).ok_or_else(invalid)?
    };
    if at <= now.timestamp() {
        return Err(invalid());
    }
    u64::try_from(at.as_millisecond()).map(Timestamp::from_unix_ms).map_err(|_| invalid())
}

/// The next moment at which the local clock shows `time`: today or tomorrow.
fn next(now: &Zoned, time: Time) -> Option<jiff::Timestamp> {
    let on = |day: jiff::civil::Date| day.to_datetime(time).to_zoned(now.time_zone().clone()).ok();
    let today = on(now.date()).filter(|at| at.timestamp() > now.timestamp());
    let at = today.or_else(|| on(now.date().tomorrow().ok()?));
    at.map(|at| at.timestamp())
}

#[cfg(test)]
mod tests {
    use super::{duration, moment_after};

    #[test]
    fn durations_are_above_zero_and_at_most_a_year() {
        for (text, seconds) in [("90m", 5_400), ("2h", 7_200), ("1h 30m", 5_400), ("45s", 45)] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for invalid in ["", "0s", "-1h", "soon", "2", "400d", "1 month"] {
            assert!(duration(invalid).unwrap_err().contains("try 90m"), "{invalid}");
        }
    }

    #[test]
    fn times_are_in_the_future() {
        let now = "2026-11-15T22:30:00+01:00[Europe/Berlin]".parse().unwrap();
        let minutes = |text| {
            let at = moment_after(&now, text).unwrap();
            (at.unix_ms() - u64::try_from(now.timestamp().as_millisecond()).unwrap()) / 60_000
        };
        assert_eq!(minutes("23:00"), 30);
        assert_eq!(minutes("07:00"), 8 * 60 + 30);
        assert_eq!(minutes("22:30"), 24 * 60, "the time of now means tomorrow");
        assert_eq!(minutes("2026-11-16 07:00"), 8 * 60 + 30);
        assert_eq!(minutes("2026-11-15T22:00:00Z"), 30);
        for invalid in ["2026-11-15 22:29", "yesterday", "25:00", ""] {
            assert!(moment_after(&now, invalid).unwrap_err().contains("07:00"), "{invalid}");
        }
    }
}
