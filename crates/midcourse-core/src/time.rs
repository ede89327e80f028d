//! Time as data: a point on the record's clock, and lengths that cannot be negative or infinite.
//!
//! Nothing here asks a clock. Every "now" is the time of a record or an argument of the caller,
//! so a replay a year later sees the same moments. Going back in time never gives a negative
//! length: hosts' clocks do step back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the UNIX epoch, as a record carries them.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment this many milliseconds after the UNIX epoch.
    pub const fn from_unix_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the UNIX epoch.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if the clock stepped back in between.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment `length` later, or the last one there is.
    pub fn after(self, length: Duration) -> Self {
        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ms))
    }
}

/// A length of time given in seconds by a person: finite and more than zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Seconds(Duration);

impl Seconds {
    /// The same length as a [`Duration`].
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<f64> for Seconds {
    type Error = InvalidSeconds;

    fn try_from(seconds: f64) -> Result<Self, InvalidSeconds> {
        match Duration::try_from_secs_f64(seconds) {
            Ok(length) if length > Duration::ZERO => Ok(Self(length)),
            _ => Err(InvalidSeconds(seconds)),
        }
    }
}

/// When a run has to be done. One that lies in the past has been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    at: Timestamp,
    set_at: Timestamp,
}

impl Deadline {
    /// A deadline, and since when it is known.
    pub const fn new(at: Timestamp, set_at: Timestamp) -> Self {
        Self { at, set_at }
    }

    /// The moment.
    pub const fn at(self) -> Timestamp {
        self.at
    }

    /// What is left at a moment; nothing once it is reached.
    pub const fn remaining(self, now: Timestamp) -> Duration {
        self.at.since(now)
    }

    /// The time there was when it was set.
    pub const fn total(self) -> Duration {
        self.at.since(self.set_at)
    }
}

/// A number of seconds that is not a length of time.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a length of time: give a finite number of seconds greater than zero")]
pub struct InvalidSeconds(pub f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_makes_no_negative_length() {
        let early = Timestamp::from_unix_ms(1_000);
        let late = Timestamp::from_unix_ms(4_000);
        assert_eq!(late.since(early), Duration::from_secs(3));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn seconds_are_finite_and_more_than_zero() {
        for bad in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            assert!(Seconds::try_from(bad).is_err(), "{bad} was taken for a length of time");
        }
        assert_eq!(Seconds::try_from(1.5).unwrap().duration(), Duration::from_millis(1_500));
    }
}
