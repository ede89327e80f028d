//! Clock times in the user's time zone: short where a run takes less than a day.

use jiff::Zoned;
use jiff::tz::TimeZone;
use midcourse::Timestamp;

use super::data::RunReport;

pub(crate) struct Clock {
    zone: TimeZone,
    /// Whether times need a date, because the run takes a day or longer.
    has_date: bool,
}

impl Clock {
    pub(crate) fn of(report: &RunReport) -> Self {
        Self::of_span(report.started, report.latest)
    }

    pub(crate) fn of_span(from: Timestamp, until: Timestamp) -> Self {
        let has_date = until.since(from).as_secs() >= 86_400;
        Self { zone: TimeZone::system(), has_date }
    }

    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        let ms = i64::try_from(at.unix_ms()).ok()?;
        Some(jiff::Timestamp::from_millisecond(ms).ok()?.to_zoned(self.zone.clone()))
    }

    fn format(&self, at: Timestamp, format: &str) -> String {
        self.zoned(at).map_or_else(|| "?".to_owned(), |at| at.strftime(format).to_string())
    }

    /// The time of day, such as `02:14`; for a long run with the day.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        self.format(at, if self.has_date { "%b %-d %H:%M" } else { "%H:%M" })
    }

    /// The day and the time of day.
    pub(crate) fn date_and_time(&self, at: Timestamp) -> String {
        self.format(at, "%a %Y-%m-%d %H:%M")
    }

    /// A stretch of time, with the date once if both ends are on the same day.
    pub(crate) fn span(&self, from: Timestamp, until: Timestamp) -> String {
        let (first, last) = (self.date_and_time(from), self.date_and_time(until));
        let same_day = self.format(from, "%F") == self.format(until, "%F");
        let last = if same_day { self.format(until, "%H:%M") } else { last };
        format!("{first} to {last}")
    }
}
