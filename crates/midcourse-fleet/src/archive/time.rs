//! Dates in UTC, for the names of folders and manifests.

use midcourse::Timestamp;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The day of a moment in UTC, such as `2026-11-18`.
pub(super) fn day(at: Timestamp) -> String {
    let (year, month, day) = civil(at.unix_ms() / DAY_MS);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A moment in UTC, such as `2026-11-18T19:03:52Z`.
pub(super) fn rfc3339(at: Timestamp) -> String {
    let seconds = at.unix_ms() % DAY_MS / 1000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", day(at))
}

/// The year, month and day of the Gregorian calendar, from the number of days since 1970-01-01.
const fn civil(days: u64) -> (u64, u64, u64) {
    // Counts from 0000-03-01, so that a leap day is the last day of its year.
    let days = days.saturating_add(719_468);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let january = if month <= 2 { 1 } else { 0 };
    (era * 400 + year_of_era + january, month, day)
}

#[cfg(test)]
mod tests {
    use midcourse::Timestamp;

    use super::{day, rfc3339};

    #[test]
    fn moments_have_their_date_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_790_000_000, "2026-09-21T14:13:20Z"),
            (1_798_761_600, "2027-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_unix_ms(seconds * 1000)), expected);
        }
        assert_eq!(day(Timestamp::from_unix_ms(1_790_000_000_000)), "2026-09-21");
    }
}
