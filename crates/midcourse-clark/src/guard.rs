//! Never break the agent: panics in our code, or in what is plugged into it, end here.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs work that may panic; nothing, if it did. What it left half-done is the caller's to drop.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The same for work that waits.
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
    async fn a_panic_after_waiting_is_nothing() {
        let work = async |fails: bool| {
            tokio::task::yield_now().await;
            assert!(!fails, "on purpose");
            1
        };
        assert_eq!(guard_all(work(false)).await, Some(1));
        assert_eq!(guard_all(work(true)).await, None);
    }
}
