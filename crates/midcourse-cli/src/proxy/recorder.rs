//! The recorder as the network side sees it: it is asked, told, and never waited for beyond a budget.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use crate::apis::{Api, Insertion};
use bytes::Bytes;
use midcourse::{DataDir, Timestamp, now};
use tokio::sync::oneshot;

use super::spoken::Spoken;
use super::tape::Tape;
use super::worker::Worker;
use crate::log::Log;
use crate::run_settings::RunSettings;

/// Things that may wait to be recorded, and the most that they may hold in bytes. What comes faster
/// passes unrecorded; the client sends it again with its next request.
const WAITING_MAX: usize = 4_096;
const HELD_MAX: usize = 256 * 1024 * 1024;

/// A question to a model.
pub(super) struct Asked {
    pub(super) api: Api,
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) encoding: Option<String>,
    /// Whether a header vouches for the body as it is.
    pub(super) is_sealed: bool,
    pub(super) body: Bytes,
}

impl Asked {
    /// Whether words may be put into its body.
    pub(super) const fn is_open(&self) -> bool {
        self.encoding.is_none() && !self.is_sealed
    }
}

/// What came of it.
pub(super) enum Heard {
    Answered { status: u16, encoding: Option<String>, tape: Tape },
    Broken(String),
}

/// Something for the recorder.
pub(super) enum Job {
    Asked { number: u64, at: Timestamp, asked: Asked, ticket: Ticket },
    Heard { number: u64, at: Timestamp, heard: Heard },
    Stop,
}

/// A job, and what it holds of the memory there is for all.
pub(super) struct Held {
    pub(super) job: Job,
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A request that waits for what is to be inserted.
pub(super) struct Ticket {
    is_gone: Arc<AtomicBool>,
    reply: Option<oneshot::Sender<Vec<Insertion>>>,
}

impl Ticket {
    /// Whether the request has gone on without an answer.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Lets the request go on; returns whether it carries this.
    pub(super) fn answer(&mut self, insertions: Vec<Insertion>) -> bool {
        self.reply.take().is_some_and(|reply| reply.send(insertions).is_ok())
    }
}

/// The way to the recorder.
#[derive(Clone)]
pub(super) struct Recorder {
    jobs: SyncSender<Held>,
    held: Arc<AtomicUsize>,
    numbers: Arc<AtomicU64>,
    spoken: Spoken,
    /// Whether something just passed unrecorded.
    is_behind: Arc<AtomicBool>,
    is_over: Arc<Mutex<Receiver<()>>>,
    log: Arc<Log>,
}

impl Recorder {
    pub(super) fn start(home: DataDir, settings: RunSettings, log: Arc<Log>) -> io::Result<Self> {
        let (jobs, for_worker) = sync_channel(WAITING_MAX);
        let (over, is_over) = channel();
        let (its_log, spoken) = (Arc::clone(&log), Spoken::default());
        let its_spoken = spoken.clone();
        thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            Worker::new(home, settings, its_log, its_spoken).work(&for_worker);
            // Nobody waits, unless the proxy is being stopped.
            let _ = over.send(());
        })?;
        Ok(Self {
            jobs,
            held: Arc::default(),
            numbers: Arc::default(),
            spoken,
            is_behind: Arc::default(),
            is_over: Arc::new(Mutex::new(is_over)),
            log,
        })
    }

    /// Shows a question to the recorder, and waits a while for what is to be inserted.
    pub(super) async fn ask(
        &self,
        asked: Asked,
        budget: Duration,
    ) -> (Vec<Insertion>, Option<Exchange>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (reply, mut replied) = oneshot::channel();
        let is_gone = Arc::new(AtomicBool::new(false));
        let ticket = Ticket { is_gone: Arc::clone(&is_gone), reply: Some(reply) };
        let (api, body, is_open) = (asked.api, asked.body.clone(), asked.is_open());
        // What was said before goes in whatever else is said.
        let again = || if is_open { self.spoken.again(api, &body) } else { Vec::new() };
        if !self.send(Job::Asked { number, at: now(), asked, ticket }, body.len()) {
            return (again(), None);
        }
        let exchange = Exchange { recorder: self.clone(), number, is_over: false };
        let insertions = match tokio::time::timeout(budget, &mut replied).await {
            Ok(Ok(insertions)) => insertions,
            _ => {
                is_gone.store(true, Ordering::SeqCst);
                // It may have come at the very end: what was recorded as said is said.
                replied.close();
                replied.try_recv().unwrap_or_else(|_| again())
            }
        };
        (insertions, Some(exchange))
    }

    fn send(&self, job: Job, bytes: usize) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let held = Held { job, bytes, all: Arc::clone(&self.held) };
        let sent = if before > HELD_MAX {
            Err(TrySendError::Full(held))
        } else {
            self.jobs.try_send(held)
        };
        let is_full = matches!(sent, Err(TrySendError::Full(_)));
        // Said once, and not with every request that comes too fast.
        if is_full && !self.is_behind.swap(true, Ordering::Relaxed) {
            self.log.write("more comes than can be recorded: requests pass unrecorded");
        }
        if sent.is_ok() {
            self.is_behind.store(false, Ordering::Relaxed);
        }
        sent.is_ok()
    }

    /// Waits until everything is recorded, but not for ever.
    pub(super) fn finish(self, at_most: Duration) {
        self.send(Job::Stop, 0);
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if is_over.recv_timeout(at_most).is_err() {
            self.log.write("the proxy stops before everything is recorded");
        }
    }
}

/// A question that was asked, until it is known what came of it.
pub(super) struct Exchange {
    recorder: Recorder,
    number: u64,
    is_over: bool,
}

impl Exchange {
    pub(super) fn answered(self, status: u16, encoding: Option<String>, tape: Tape) {
        let bytes = tape.pieces.iter().map(Bytes::len).sum();
        self.heard(Heard::Answered { status, encoding, tape }, bytes);
    }

    pub(super) fn broken(self, why: String) {
        self.heard(Heard::Broken(why), 0);
    }

    fn heard(mut self, heard: Heard, bytes: usize) {
        self.is_over = true;
        self.recorder.send(Job::Heard { number: self.number, at: now(), heard }, bytes);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            let heard = Heard::Broken("the client went away".to_owned());
            self.recorder.send(Job::Heard { number: self.number, at: now(), heard }, 0);
        }
    }
}
