//! Lengths of time as people write them: `90s`, `30m`, `2h`, `1h 30m`, `7d`.

use std::time::Duration;

/// The longest that makes sense to say.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A length of time, more than nothing and at most 365 days; nothing, if the text is none.
pub fn parse_length(text: &str) -> Option<Duration> {
    let length = text
        .parse::<jiff::Span>()
        .and_then(|span| span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()));
    let length = Duration::try_from(length.ok()?).ok()?;
    (!length.is_zero() && length <= LONGEST).then_some(length)
}
