//! Jobs in the queue between the network side and the recorder's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::apis::Insertion;
use midcourse::Timestamp;
use tokio::sync::oneshot;

use super::model_traffic::{ModelRequest, ModelResponse};

/// Work for the recorder. A response has the same `number` as its request.
pub(super) enum Job {
    Request { number: u64, at: Timestamp, request: ModelRequest, reply: PendingReply },
    Response { number: u64, at: Timestamp, response: ModelResponse },
    Stop,
}

/// A job in the queue. Dropping it subtracts its bytes from the queue's total.
pub(super) struct QueuedJob {
    pub(super) job: Job,
    pub(super) bytes: usize,
    /// Bytes of all jobs in the queue together, shared by all of them.
    pub(super) total: Arc<AtomicUsize>,
}

impl Drop for QueuedJob {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Passes insertions from the recorder to a request that is held until it gets them.
pub(super) struct PendingReply {
    pub(super) is_expired: Arc<AtomicBool>,
    pub(super) sender: Option<oneshot::Sender<Vec<Insertion>>>,
}

impl PendingReply {
    /// Whether the request was forwarded without insertions because it had waited too long.
    pub(super) fn is_expired(&self) -> bool {
        self.is_expired.load(Ordering::SeqCst)
    }

    /// Passes the insertions to the request. Returns false if it was already forwarded without
    /// them.
    pub(super) fn send(&mut self, insertions: Vec<Insertion>) -> bool {
        self.sender.take().is_some_and(|sender| sender.send(insertions).is_ok())
    }
}
