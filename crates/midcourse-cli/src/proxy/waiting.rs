//! Limits how many connections may wait that have not shown the access token yet.
//!
//! Any program on the machine can open connections to the proxy's port. If a program opened so many
//! that no socket is left, the agent could not reach its model. So the proxy closes connections
//! that have not shown the token: the oldest one when there are too many, and each one after a
//! timeout. A client that has the token sends it at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::long_target::Upstream414;

/// Far below the number of sockets that a process may have by default, 1024.
const MAX_WAITING: usize = 256;

/// The connections that have not shown the token, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    visitors: Mutex<VecDeque<Weak<Visitor>>>,
}

/// A connection. It is forgotten when this value is dropped.
#[derive(Debug, Default)]
pub(super) struct Visitor {
    is_admitted: AtomicBool,
    evicted: Notify,
    pub(super) upstream_414: Upstream414,
}

impl Waiting {
    /// Adds a connection. If too many are waiting, the oldest one is told to leave.
    pub(super) fn enter(&self) -> Arc<Visitor> {
        let mut visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if visitors.len() >= MAX_WAITING {
            visitors.retain(|visitor| {
                visitor.upgrade().is_some_and(|it| !it.is_admitted.load(Ordering::Relaxed))
            });
        }
        if visitors.len() >= MAX_WAITING
            && let Some(oldest) = visitors.pop_front().and_then(|visitor| visitor.upgrade())
        {
            oldest.evicted.notify_one();
        }
        let visitor = Arc::<Visitor>::default();
        visitors.push_back(Arc::downgrade(&visitor));
        visitor
    }
}

impl Visitor {
    /// The connection has shown the token and may stay.
    pub(super) fn admit(&self) {
        self.is_admitted.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection has to be closed, which may never happen.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
        if self.is_admitted.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the connection has to be closed because it has not shown the token within this
    /// time.
    pub(super) async fn is_late(&self, timeout: Duration) {
        tokio::time::sleep(timeout).await;
        if self.is_admitted.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::{MAX_WAITING, Visitor, Waiting};

    fn is_evicted(visitor: &Visitor) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(visitor.evicted()).poll(&mut context) == Poll::Ready(())
    }

    #[test]
    fn the_oldest_connection_without_a_token_has_to_leave() {
        let waiting = Waiting::default();
        let admitted = waiting.enter();
        admitted.admit();
        let visitors: Vec<Arc<Visitor>> = (0..MAX_WAITING).map(|_| waiting.enter()).collect();
        assert!(!visitors.iter().any(|visitor| is_evicted(visitor)));
        let latest = waiting.enter();
        let evicted: Vec<bool> = visitors.iter().map(|visitor| is_evicted(visitor)).collect();
        assert!(evicted[0] && !evicted[1..].contains(&true));
        assert!(!is_evicted(&admitted) && !is_evicted(&latest));
        drop(visitors);
        let others: Vec<Arc<Visitor>> = (1..MAX_WAITING).map(|_| waiting.enter()).collect();
        assert!(!is_evicted(&latest), "the others have gone");
        assert!(!others.iter().any(|visitor| is_evicted(visitor)));
    }
}
