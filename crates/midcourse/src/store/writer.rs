//! A store that is shared within one process: one thread writes and commits for all callers.
//!
//! A caller puts an event into a queue, and gets a reply after the commit that contains the event.
//! The queue is bounded: when it is full, callers wait without blocking their async runtime. Events
//! that arrive during a commit are written together with the next commit.

use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::error::StoreError;
use super::{Store, StoreSettings};
use crate::data_dir::DataDir;
use crate::event::Event;
use crate::sink::{Recorded, Recording, TrajectoryError, TrajectorySink};

/// The most events that can be in the queue. If it is full, a caller waits until there is space.
const QUEUE: usize = 1024;

/// The most events that share one commit.
const BATCH: usize = 256;

struct Job {
    event: Event,
    reply: oneshot::Sender<Result<Recorded, TrajectoryError>>,
}

/// A store that the tasks and threads of a process share. One thread writes for all of them.
///
/// Dropping the `StoreWriter` waits until all queued events are written.
pub struct StoreWriter {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreWriter {
    /// Opens the store in a data directory and starts its writer thread.
    pub fn open(data_dir: &DataDir, settings: StoreSettings) -> Result<Self, StoreError> {
        let mut store = Store::open(data_dir, settings.clone())?;
        // Store the events that are waiting in the spill folder. If that fails, recording starts
        // all the same.
        while store.ingest_spilled().is_ok_and(|taken| taken > 0) {}
        let (jobs, queue) = mpsc::channel(QUEUE);
        let data_dir = data_dir.clone();
        let thread = thread::Builder::new()
            .name("midcourse-store".to_owned())
            .spawn(move || write(queue, store, &data_dir, &settings))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }
}

impl TrajectorySink for StoreWriter {
    fn record(&self, event: Event) -> Recording<'_> {
        Box::pin(async move {
            let gone = || TrajectoryError::Io("the store's writer has stopped".to_owned());
            let (reply, done) = oneshot::channel();
            let jobs = self.jobs.as_ref().ok_or_else(gone)?;
            jobs.send(Job { event, reply }).await.map_err(|_| gone())?;
            done.await.map_err(|_| gone())?
        })
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // If the writer thread panicked, waiting callers have already got an error.
            let _ = thread.join();
        }
    }
}

/// The writer thread: writes queued events, up to 256 with one commit, until the `StoreWriter` is
/// dropped. Then truncates SQLite's write-ahead log.
///
/// After a failed commit, the log may contain a transaction that was not synced to disk. The same
/// connection overwrites it with the next commit, but a new connection would take it for committed.
/// So the connection is kept; only a damaged store is opened again.
fn write(
    mut queue: mpsc::Receiver<Job>,
    store: Store,
    data_dir: &DataDir,
    settings: &StoreSettings,
) {
    let mut store = Some(store);
    let mut jobs = Vec::with_capacity(BATCH);
    while queue.blocking_recv_many(&mut jobs, BATCH) > 0 {
        let (events, replies): (Vec<_>, Vec<_>) =
            jobs.drain(..).map(|job| (job.event, job.reply)).unzip();
        let opened = match store.take() {
            Some(store) => Ok(store),
            None => Store::open(data_dir, settings.clone()),
        };
        let written = opened.and_then(|mut opened| {
            let written = opened.append_all(events);
            if !matches!(written, Err(StoreError::Damaged(_))) {
                store = Some(opened);
            }
            written
        });
        match written {
            Ok(recorded) => {
                for (reply, recorded) in replies.into_iter().zip(recorded) {
                    // Sending fails if the caller has stopped waiting; the event is stored anyway.
                    let _ = reply.send(recorded.map_err(TrajectoryError::from));
                }
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(error.clone().into()));
                }
            }
        }
    }
    if let Some(mut store) = store {
        store.truncate_log();
    }
}
