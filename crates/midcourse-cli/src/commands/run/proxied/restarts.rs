//! Decides when to restart the proxy process after it has ended: at once, or after a pause if the
//! process keeps ending.

use std::time::Duration;

/// A proxy that ends sooner than this counts as a failed start.
const MIN_UPTIME: Duration = Duration::from_secs(2);

/// After this many failed starts in a row, there is a pause before each further start.
const MAX_FAILED_STARTS: u32 = 3;

/// How long the first pause is. Each further pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The environment variable that sets another first pause, in milliseconds.
const FIRST_PAUSE_VARIABLE: &str = "MIDCOURSE_PROXY_RESTART_PAUSE_MS";

/// Maximum length of a pause. A proxy that runs this long after a pause counts as healthy again.
const MAX_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Restarts {
    first_pause: Duration,
    failed_starts: u32,
}

impl Restarts {
    pub(super) fn from_environment() -> Self {
        let set = std::env::var(FIRST_PAUSE_VARIABLE).ok().and_then(|text| text.parse().ok());
        Self { first_pause: set.map_or(FIRST_PAUSE, Duration::from_millis), failed_starts: 0 }
    }

    /// The pause before the next start, after the proxy ran for `uptime`. `None` if it can be
    /// started at once.
    pub(super) fn pause_after(&mut self, uptime: Duration) -> Option<Duration> {
        let had_pause = self.failed_starts >= MAX_FAILED_STARTS;
        let healthy = if had_pause { MAX_PAUSE } else { MIN_UPTIME };
        self.failed_starts =
            if uptime < healthy { self.failed_starts.saturating_add(1) } else { 0 };
        let pauses_before = self.failed_starts.checked_sub(MAX_FAILED_STARTS)?;
        let factor = 2_u32.saturating_pow(pauses_before);
        Some(self.first_pause.saturating_mul(factor).min(MAX_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Restarts;

    #[test]
    fn pauses_grow_to_a_minute_and_end_when_the_proxy_is_healthy() {
        let seconds = Duration::from_secs;
        let mut restarts = Restarts { first_pause: seconds(5), failed_starts: 0 };
        let mut pause = |uptime| restarts.pause_after(seconds(uptime)).map(|it| it.as_secs());
        assert_eq!([pause(0), pause(1), pause(2), pause(0), pause(1)], [None; 5]);
        let pauses: Vec<_> = [0, 59, 0, 30, 0, 0].map(&mut pause).into();
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60].map(Some));
        for _ in 0..100 {
            assert_eq!(pause(1), Some(60));
        }
        assert_eq!([pause(60), pause(1), pause(1), pause(1)], [None, None, None, Some(5)]);
    }
}
