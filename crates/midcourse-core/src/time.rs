//! Time as data: timestamps of records, durations and deadlines.
//!
//! Nothing here reads a clock. The current time is always the time of a record or an argument of
//! the caller, so that a replay sees the same times as the live run. If a host's clock steps back
//! between two records, the duration between them is zero, never negative.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the UNIX epoch, as in records.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The time this many milliseconds after the UNIX epoch.
    pub const fn from_unix_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the UNIX epoch.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// The duration from `earlier` to this time; zero if this time is before `earlier`.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This time plus `duration`; the latest possible time if the sum is too large.
    pub fn after(self, duration: Duration) -> Self {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ms))
    }
}

/// A duration that a user gave in seconds: finite and more than zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Seconds(Duration);

impl Seconds {
    /// The seconds as a [`Duration`].
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<f64> for Seconds {
    type Error = InvalidSeconds;

    fn try_from(seconds: f64) -> Result<Self, InvalidSeconds> {
        match Duration::try_from_secs_f64(seconds) {
            Ok(duration) if duration > Duration::ZERO => Ok(Self(duration)),
            _ => Err(InvalidSeconds(seconds)),
        }
    }
}

/// The time by which a run has to be done, and when this deadline was set. midcourse tells the
/// agent about the deadline and never stops a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    at: Timestamp,
    set_at: Timestamp,
}

impl Deadline {
    /// A deadline at the time `at`. `set_at` is when it was set, from which the total time counts.
    pub const fn new(at: Timestamp, set_at: Timestamp) -> Self {
        Self { at, set_at }
    }

    /// When the run has to be done.
    pub const fn at(self) -> Timestamp {
        self.at
    }

    /// The time left at `now`; zero once the deadline is reached.
    pub const fn remaining(self, now: Timestamp) -> Duration {
        self.at.since(now)
    }

    /// The time from when the deadline was set to the deadline.
    pub const fn total(self) -> Duration {
        self.at.since(self.set_at)
    }
}

/// The error for a number of seconds that is infinite, not a number, zero or negative.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("invalid number of seconds `{0}`; expected a finite number greater than zero")]
pub struct InvalidSeconds(pub f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_gives_a_duration_of_zero() {
        let early = Timestamp::from_unix_ms(1_000);
        let late = Timestamp::from_unix_ms(4_000);
        assert_eq!(late.since(early), Duration::from_secs(3));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn seconds_are_finite_and_more_than_zero() {
        for bad in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            assert!(Seconds::try_from(bad).is_err(), "{bad} was accepted");
        }
        assert_eq!(Seconds::try_from(1.5).unwrap().duration(), Duration::from_millis(1_500));
    }
}
