//! Catches panics of this crate and of custom providers and callbacks, so that none reaches the
//! agent.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs `work` and returns its result; `None` if it panicked. After a panic, data that `work` was
/// changing may be half changed.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Polls the future `work` until it is ready and returns its result; `None` if a poll panicked.
pub(crate) async fn guard_all<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match guard(|| work.as_mut().poll(context)) {
        Some(poll) => poll.map(Some),
        None => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::guard_all;

    #[tokio::test]
    async fn a_panic_after_an_await_returns_none() {
        let work = async |fails: bool| {
            tokio::task::yield_now().await;
            assert!(!fails, "on purpose");
            1
        };
        assert_eq!(guard_all(work(false)).await, Some(1));
        assert_eq!(guard_all(work(true)).await, None);
    }
}
