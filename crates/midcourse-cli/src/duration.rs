//! Parses durations as people write them: `90s`, `30m`, `2h`, `1h 30m`, `7d`.

use std::time::Duration;

const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Parses a duration that is longer than zero and at most 365 days; `None` for any other text.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    parse_age(text).filter(|duration| !duration.is_zero() && *duration <= MAX_DURATION)
}

/// Parses a duration of any length, including zero; `None` if the text is not a duration or is
/// negative. A day counts as 24 hours.
pub(crate) fn parse_age(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    let duration = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_age, parse_duration};

    #[test]
    fn a_duration_is_above_zero_and_at_most_a_year() {
        let seconds = |text| parse_duration(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("1h 30m"), Some(5_400));
        assert_eq!(seconds("365d"), Some(365 * 86_400));
        for invalid in ["", "3x", "soon", "90", "0s", "-1h", "366d"] {
            assert_eq!(seconds(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn an_age_may_be_zero_or_longer_than_a_year() {
        assert_eq!(parse_age("0s").unwrap().as_secs(), 0);
        assert_eq!(parse_age("10000d").unwrap().as_secs(), 10_000 * 86_400);
        assert_eq!(parse_age("-1h"), None);
    }
}
