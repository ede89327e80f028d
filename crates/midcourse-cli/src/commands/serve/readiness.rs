//! Whether the server can show runs: asks the check that the store brings, at most once a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::terminal::warn;

/// How long a result is used again, so that nobody can burden the store with requests.
const FRESH: Duration = Duration::from_secs(1);

/// A check that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Whether the store can be read now, such as `SELECT 1`. It may block.
pub(in crate::commands) type Check = Arc<dyn Fn() -> Result<()> + Send + Sync>;

pub(super) struct Readiness {
    check: Check,
    latest: Arc<Mutex<Option<(Instant, bool)>>>,
    is_running: Arc<AtomicBool>,
}

impl Readiness {
    pub(super) fn new(check: Check) -> Self {
        Self { check, latest: Arc::default(), is_running: Arc::default() }
    }

    pub(super) async fn is_ready(&self) -> bool {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, is_ready)) = latest
            && at.elapsed() < FRESH
        {
            return is_ready;
        }
        // While a check hangs, there is no second one.
        if self.is_running.swap(true, Ordering::AcqRel) {
            let is_hanging = latest.is_none_or(|(at, _)| at.elapsed() > FRESH + TIMEOUT);
            return !is_hanging && latest.is_some_and(|(_, is_ready)| is_ready);
        }
        let (check, latest) = (Arc::clone(&self.check), Arc::clone(&self.latest));
        let running = Running(Arc::clone(&self.is_running));
        let checked = tokio::task::spawn_blocking(move || {
            let _running = running;
            let result = check();
            let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
            let was_ready = latest.is_none_or(|(_, is_ready)| is_ready);
            if let Err(error) = &result
                && was_ready
            {
                warn(&format!("the server is not ready: {error:#}"));
            }
            *latest = Some((Instant::now(), result.is_ok()));
            result.is_ok()
        });
        matches!(tokio::time::timeout(TIMEOUT, checked).await, Ok(Ok(true)))
    }
}

/// A check that runs, until it is dropped; also if the check panics.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test]
    async fn the_check_is_asked_at_most_once_a_second() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let readiness = Readiness::new(Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            anyhow::bail!("no connection")
        }));
        for _ in 0..10 {
            assert!(!readiness.is_ready().await);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_check_that_panics_has_failed_and_is_asked_again() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let readiness = Readiness::new(Arc::new(move || {
            assert_ne!(counted.fetch_add(1, Ordering::Relaxed), 0, "the first check panics");
            Ok(())
        }));
        assert!(!readiness.is_ready().await);
        assert!(readiness.is_ready().await);
    }
}
