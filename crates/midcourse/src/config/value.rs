//! Values that hold only what makes sense. What does not is refused with what is allowed, and the
//! reader of the file adds where it stands.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use midcourse_core::{Confidence, LONGEST_CYCLE, WindowSize};
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// The highest number of calls that can be waited for: a threshold that is never reached switches a
/// detector off.
const COUNT_MAX: u32 = 1_000_000;

/// The longest length of time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

struct WholeTo(u32);

impl Visitor<'_> for WholeTo {
    type Value = NonZeroU32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", self.0)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<NonZeroU32, E> {
        u32::try_from(value)
            .ok()
            .filter(|number| *number <= self.0)
            .and_then(NonZeroU32::new)
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
    }
}

/// A number of calls.
pub(super) fn count<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    value.deserialize_i64(WholeTo(COUNT_MAX))
}

/// The length of a cycle.
pub(super) fn cycle<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    value.deserialize_i64(WholeTo(u32::try_from(LONGEST_CYCLE).unwrap_or(u32::MAX)))
}

/// A number of calls that are kept.
pub(super) fn window<'de, D: Deserializer<'de>>(value: D) -> Result<WindowSize, D::Error> {
    let calls =
        value.deserialize_i64(WholeTo(u32::try_from(WindowSize::MAX).unwrap_or(u32::MAX)))?;
    WindowSize::try_from(usize::try_from(calls.get()).unwrap_or_default()).map_err(D::Error::custom)
}

struct Probability;

impl Visitor<'_> for Probability {
    type Value = Confidence;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0 to 1")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Confidence, E> {
        Confidence::try_from(value).map_err(|_| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Confidence, E> {
        match value {
            0 => Ok(Confidence::ZERO),
            1 => Ok(Confidence::ONE),
            _ => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }
}

/// How sure one is to be, or how alike two things are.
pub(super) fn probability<'de, D: Deserializer<'de>>(value: D) -> Result<Confidence, D::Error> {
    value.deserialize_f64(Probability)
}

struct Length;

impl Visitor<'_> for Length {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a length of time of up to 365 days, such as \"90s\", \"30m\" or \"2h\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        text.parse::<jiff::Span>()
            .and_then(|span| span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()))
            .ok()
            .and_then(|length| Duration::try_from(length).ok())
            .filter(|length| !length.is_zero() && *length <= LONGEST)
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// A length of time.
pub(super) fn length<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    value.deserialize_str(Length)
}
