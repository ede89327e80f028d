//! Jobs in the queue between the network side and the recorder's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::apis::Insertion;
use midcourse::Timestamp;
use tokio::sync::oneshot;

use super::model_traffic::{ModelRequest, ModelResponse};

/// Work for the recorder. A response has the same `number` as its request.
pub(super) enum Job {
    Request {
        number: u64,
        at: Timestamp,
        request: ModelRequest,
        reply: PendingReply,
    },
    Response {
        number: u64,
        at: Timestamp,
        response: ModelResponse,
    },
    /// Commit everything before this job, then reply.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// A job in the queue. Dropping it subtracts its bytes from the queue's total.
pub(super) struct QueuedJob {
    pub(super) job: Job,
    pub(super) bytes: usize,
    /// The number of bytes of all jobs in the queue together. All jobs share this counter.
    pub(super) total: Arc<AtomicUsize>,
}

impl Drop for QueuedJob {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Passes insertions (text to put into a request body) from the recorder's thread to the network
/// side, which holds the request until then.
pub(super) struct PendingReply {
    pub(super) is_expired: Arc<AtomicBool>,
    pub(super) sender: Option<oneshot::Sender<Vec<Insertion>>>,
}

impl PendingReply {
    /// Whether the request was forwarded without waiting any longer for these insertions.
    pub(super) fn is_expired(&self) -> bool {
        self.is_expired.load(Ordering::SeqCst)
    }

    /// Passes the insertions to the network side. Returns false if the request was already
    /// forwarded without them.
    pub(super) fn send(&mut self, insertions: Vec<Insertion>) -> bool {
        self.sender.take().is_some_and(|sender| sender.send(insertions).is_ok())
    }
}
