//! Lengths of time and moments, as people write them on a command line.

use std::time::Duration;

use crate::duration::parse_duration;
use jiff::Zoned;
use jiff::civil::{DateTime, Time};
use midcourse::Timestamp;

/// A length of time.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .ok_or_else(|| "give a length of time such as 90m, 2h or \"1h 30m\", up to 365d".to_owned())
}

/// A moment that is to come.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_after(&Zoned::now(), text)
}

fn moment_after(now: &Zoned, text: &str) -> Result<Timestamp, String> {
    let wrong = || {
        "give a time to come, such as 07:00, \"2026-11-16 07:00\" or 2026-11-16T07:00:00Z"
            .to_owned()
    };
    let at = if let Ok(at) = text.parse::<jiff::Timestamp>() {
        at
    } else if let Ok(at) =
        text.parse::<DateTime>().and_then(|at| at.to_zoned(now.time_zone().clone()))
    {
        at.timestamp()
    } else {
        let time = text.parse::<Time>().map_err(|_| wrong())?;
        next(now, time).ok_or_else(wrong)?
    };
    if at <= now.timestamp() {
        return Err(wrong());
    }
    u64::try_from(at.as_millisecond()).map(Timestamp::from_unix_ms).map_err(|_| wrong())
}

/// The next time that a clock on the wall shows this.
fn next(now: &Zoned, time: Time) -> Option<jiff::Timestamp> {
    let on = |day: jiff::civil::Date| day.to_datetime(time).to_zoned(now.time_zone().clone()).ok();
    let today = on(now.date()).filter(|at| at.timestamp() > now.timestamp());
    let at = today.or_else(|| on(now.date().tomorrow().ok()?));
    at.map(|at| at.timestamp())
}

#[cfg(test)]
mod tests {
    use super::{length, moment_after};

    #[test]
    fn lengths_of_time() {
        for (text, seconds) in [("90m", 5_400), ("2h", 7_200), ("1h 30m", 5_400), ("45s", 45)] {
            assert_eq!(length(text).unwrap().as_secs(), seconds, "{text}");
        }
        for wrong in ["", "0s", "-1h", "soon", "2", "400d", "1 month"] {
            assert!(length(wrong).unwrap_err().contains("such as 90m"), "{wrong}");
        }
    }

    #[test]
    fn moments_to_come() {
        let now = "2026-11-15T22:30:00+01:00[Europe/Berlin]".parse().unwrap();
        let minutes = |text| {
            let at = moment_after(&now, text).unwrap();
            (at.unix_ms() - u64::try_from(now.timestamp().as_millisecond()).unwrap()) / 60_000
        };
        assert_eq!(minutes("23:00"), 30);
        assert_eq!(minutes("07:00"), 8 * 60 + 30);
        assert_eq!(minutes("22:30"), 24 * 60, "the clock shows it right now");
        assert_eq!(minutes("2026-11-16 07:00"), 8 * 60 + 30);
        assert_eq!(minutes("2026-11-15T22:00:00Z"), 30);
        for wrong in ["2026-11-15 22:29", "yesterday", "25:00", ""] {
            assert!(moment_after(&now, wrong).unwrap_err().contains("07:00"), "{wrong}");
        }
    }
}
