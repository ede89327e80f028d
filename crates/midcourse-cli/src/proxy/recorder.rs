//! Connects the network side, which forwards traffic, with the worker thread, which records it.
//!
//! The network side puts each model request and its response into a queue. The worker takes them
//! out and replies with the text to insert into a request. The network side waits for this reply,
//! but only a few milliseconds.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use crate::apis::Insertion;
use bytes::Bytes;
use midcourse::{DataDir, now};
use tokio::sync::oneshot;

use super::feedback_cache::FeedbackCache;
use super::jobs::{Job, PendingReply, QueuedJob};
use super::model_traffic::{ModelRequest, ModelResponse};
use super::response_copy::{CLIENT_DISCONNECTED, ResponseCopy};
use super::worker::Worker;
use crate::log::Log;
use crate::run_settings::RunSettings;

/// Maximum number of jobs in the queue. If the queue is full, requests are forwarded but not
/// recorded. Little is lost: the client's next request contains the same history again.
const MAX_QUEUED_JOBS: usize = 4_096;
/// The queue also counts as full if its jobs together have more bytes than this.
const MAX_QUEUED_BYTES: usize = 256 * 1024 * 1024;

/// Sends model traffic to the thread that records it.
#[derive(Clone)]
pub(super) struct Recorder {
    jobs: SyncSender<QueuedJob>,
    queued_bytes: Arc<AtomicUsize>,
    next_number: Arc<AtomicU64>,
    feedback: FeedbackCache,
    /// Whether the queue was full when the last job was sent.
    is_overloaded: Arc<AtomicBool>,
    stopped: Arc<Mutex<Receiver<()>>>,
    log: Arc<Log>,
}

impl Recorder {
    pub(super) fn start(
        data_dir: DataDir,
        run_settings: RunSettings,
        log: Arc<Log>,
    ) -> io::Result<Self> {
        let (jobs, worker_jobs) = sync_channel(MAX_QUEUED_JOBS);
        let (stopped_sender, stopped) = channel();
        let feedback = FeedbackCache::default();
        let worker = Worker::new(data_dir, run_settings, Arc::clone(&log), feedback.clone());
        thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            worker.run(&worker_jobs);
            // Tell `finish` that the thread has ended. If `finish` does not wait any more, sending
            // fails, which does no harm.
            let _ = stopped_sender.send(());
        })?;
        Ok(Self {
            jobs,
            queued_bytes: Arc::default(),
            next_number: Arc::default(),
            feedback,
            is_overloaded: Arc::default(),
            stopped: Arc::new(Mutex::new(stopped)),
            log,
        })
    }

    /// Sends a request to the worker thread and waits up to `max_wait` for the text to insert into
    /// the request. The exchange, with which the response is recorded later, is `None` if the queue
    /// is full.
    pub(super) async fn record_request(
        &self,
        request: ModelRequest,
        max_wait: Duration,
    ) -> (Vec<Insertion>, Option<Exchange>) {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (sender, mut receiver) = oneshot::channel();
        let is_expired = Arc::new(AtomicBool::new(false));
        let reply = PendingReply { is_expired: Arc::clone(&is_expired), sender: Some(sender) };
        let (api, body) = (request.api, request.body.clone());
        let is_modifiable = request.is_modifiable();
        // Feedback (messages about tool results) that was in earlier requests must be in this
        // request too, even if the worker does not reply in time.
        let earlier =
            || if is_modifiable { self.feedback.insertions(api, &body) } else { Vec::new() };
        if !self.send(Job::Request { number, at: now(), request, reply }, body.len()) {
            return (earlier(), None);
        }
        let exchange = Exchange { recorder: self.clone(), number, is_finished: false };
        let insertions = match tokio::time::timeout(max_wait, &mut receiver).await {
            Ok(Ok(insertions)) => insertions,
            _ => {
                is_expired.store(true, Ordering::SeqCst);
                // The worker may have replied just before `close`. It then counts the messages in
                // its reply as delivered, so they must be inserted.
                receiver.close();
                receiver.try_recv().unwrap_or_else(|_| earlier())
            }
        };
        (insertions, Some(exchange))
    }

    fn send(&self, job: Job, bytes: usize) -> bool {
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let queued = QueuedJob { job, bytes, total: Arc::clone(&self.queued_bytes) };
        let sent = if before > MAX_QUEUED_BYTES {
            Err(TrySendError::Full(queued))
        } else {
            self.jobs.try_send(queued)
        };
        let is_full = matches!(sent, Err(TrySendError::Full(_)));
        // Log this once each time the queue becomes full, not for every job.
        if is_full && !self.is_overloaded.swap(true, Ordering::Relaxed) {
            self.log.write("the recording queue is full; model requests pass unrecorded");
        }
        if sent.is_ok() {
            self.is_overloaded.store(false, Ordering::Relaxed);
        }
        sent.is_ok()
    }

    /// Waits until everything that was sent before is recorded.
    pub(super) async fn flush(&self) {
        let (sender, done) = oneshot::channel();
        if self.send(Job::Flush(sender), 0) {
            let _ = done.await;
        }
    }

    /// Waits until all queued jobs are recorded, or until the timeout.
    pub(super) fn finish(self, timeout: Duration) {
        self.send(Job::Stop, 0);
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        if stopped.recv_timeout(timeout).is_err() {
            self.log.write("the proxy stopped before all model traffic was recorded");
        }
    }
}

/// A recorded request that has no response yet. If this value is dropped before the response has
/// ended, the response is recorded as failed because the client disconnected.
pub(super) struct Exchange {
    recorder: Recorder,
    number: u64,
    is_finished: bool,
}

impl Exchange {
    pub(super) fn received(self, status: u16, encoding: Option<String>, body: ResponseCopy) {
        let bytes = body.chunks.iter().map(Bytes::len).sum();
        self.finish(ModelResponse::Received { status, encoding, body }, bytes);
    }

    pub(super) fn failed(self, error: String) {
        self.finish(ModelResponse::Failed(error), 0);
    }

    fn finish(mut self, response: ModelResponse, bytes: usize) {
        self.is_finished = true;
        self.recorder.send(Job::Response { number: self.number, at: now(), response }, bytes);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_finished {
            let response = ModelResponse::Failed(CLIENT_DISCONNECTED.to_owned());
            self.recorder.send(Job::Response { number: self.number, at: now(), response }, 0);
        }
    }
}
