//! Does the hook's work, and makes sure that the agent gets its reply in time even if the work hangs
//! or panics. Events that were not stored by then are written to the spill folder, from which a later
//! process stores them.
//!
//! The work is done on the main thread, and a second thread watches the time. The other way round,
//! every hook would be slower: the C library has to set up a heap for a second thread that
//! allocates memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use midcourse::{
    DataDir, Event, Redaction, StoreError, StoreSettings, is_kept_in_memory, spill_event,
};

use super::Report;

/// The events that the hook is storing. If that takes too long or panics, they are written to the
/// spill folder.
pub(super) type Pending = Arc<Mutex<PendingEvents>>;

/// How long the hook may take. The time is limited because the agent waits for the hook's reply.
#[derive(Clone, Copy)]
pub(super) struct Timeout {
    started: Instant,
    limit: Duration,
    /// Additional time after `limit`. It is used to write the events to the spill folder. If the
    /// payload has not been decoded yet, there are no events, and the time is used to wait for
    /// them.
    extra: Duration,
}

impl Timeout {
    pub(super) fn start(limit: Duration, extra: Duration) -> Self {
        Self { started: Instant::now(), limit, extra }
    }

    pub(super) fn left(self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }
}

/// Events that are not stored yet, and how they have to be redacted.
#[derive(Default)]
pub(super) struct PendingEvents {
    events: Vec<Event>,
    redaction: Redaction,
}

pub(super) fn set_pending(pending: &Pending, events: Vec<Event>, redaction: Redaction) {
    *lock(pending) = PendingEvents { events, redaction };
}

fn lock(pending: &Pending) -> MutexGuard<'_, PendingEvents> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the work on this thread and gives its report to `reply`. If the work takes too long, another
/// thread calls `reply` instead, so `reply` has to end the process. It is called once.
pub(super) fn run(
    data_dir: Option<DataDir>,
    timeout: Timeout,
    work: impl FnOnce(&Pending) -> Report,
    reply: impl Fn(Report) + Send + Sync + 'static,
) {
    let pending = Pending::default();
    let is_replying = Arc::new(AtomicBool::new(false));
    let reply = Arc::new(reply);
    let (sender, reports) = channel();
    let watch = Watch {
        data_dir: data_dir.clone(),
        timeout,
        pending: Arc::clone(&pending),
        is_replying: Arc::clone(&is_replying),
        reports,
    };
    let for_watch = Arc::clone(&reply);
    // If the thread cannot be started, the hook does its work without a time limit of its own. The
    // host has one too.
    let started = thread::Builder::new().spawn(move || watch.run(&*for_watch));
    let worked = catch_unwind(AssertUnwindSafe(|| work(&pending)));
    let mut report = worked.unwrap_or_else(|_| {
        let events = std::mem::take(&mut *lock(&pending));
        Report::of(spill_events(data_dir, events, "panicked", timeout.extra))
    });
    if let Err(error) = started {
        report.warnings.push(format!("cannot watch the time: {error}"));
    }
    if !is_replying.swap(true, Ordering::SeqCst) {
        reply(report);
        return;
    }
    // The time is over. The other thread replies, with this report if it comes early enough, and
    // ends the process.
    let _ = sender.send(report);
    loop {
        thread::park();
    }
}

/// What the thread that watches the time needs.
struct Watch {
    data_dir: Option<DataDir>,
    timeout: Timeout,
    pending: Pending,
    /// Whether one of the two threads has begun to reply.
    is_replying: Arc<AtomicBool>,
    /// The report of the work, if it finishes after the timeout.
    reports: Receiver<Report>,
}

impl Watch {
    fn run(self, reply: &dyn Fn(Report)) {
        // Until the timeout, nothing is sent.
        let waited = self.reports.recv_timeout(self.timeout.left());
        let is_done = waited != Err(RecvTimeoutError::Timeout);
        if is_done || self.is_replying.swap(true, Ordering::SeqCst) {
            return;
        }
        // If the payload has not been decoded yet, perhaps because the machine is busy, there are no
        // events that could be written to the spill folder. So use the extra time to wait.
        let is_decoded = !lock(&self.pending).events.is_empty();
        let wait = if is_decoded { Duration::ZERO } else { self.timeout.extra };
        let report = self.reports.recv_timeout(wait).unwrap_or_else(|_| {
            let events = std::mem::take(&mut *lock(&self.pending));
            let warning = spill_events(self.data_dir, events, "timed out", self.timeout.extra);
            // The work may have finished meanwhile and recorded that it delivered a message. The
            // agent must then get this message.
            let mut report = self.reports.try_recv().unwrap_or_default();
            report.warnings.push(warning);
            report
        });
        reply(report);
    }
}

/// Writes events to the spill folder after a timeout or a panic, and returns what to log about it. If
/// the slow work stores an event after all, the copy in the spill folder is later recognised by its
/// key and dropped.
fn spill_events(
    data_dir: Option<DataDir>,
    pending: PendingEvents,
    problem: &str,
    limit: Duration,
) -> String {
    let PendingEvents { events, redaction } = pending;
    let (Some(data_dir), false) = (data_dir, events.is_empty()) else {
        return format!("{problem} before the payload was read");
    };
    let (sender, results) = channel();
    let for_spill = data_dir.clone();
    // Write on another thread, so that the hook returns even if the disk hangs or the code panics.
    let started = thread::Builder::new().spawn(move || {
        let settings = StoreSettings { redaction, ..StoreSettings::default() };
        let mut events = events.into_iter();
        let spilled = events.try_for_each(|event| {
            let spilled = spill_event(&for_spill, event, &settings)?;
            spilled.disk_error.map_or(Ok(()), |error| Err(error.into()))
        });
        let _ = sender.send(spilled.map_err(|error: StoreError| error.to_string()));
    });
    let spilled = match started {
        Ok(_) => results.recv_timeout(limit).unwrap_or_else(|_| Err("the disk is slow".to_owned())),
        Err(error) => Err(error.to_string()),
    };
    match spilled {
        Ok(()) => format!("{problem}; the event is in the spill folder and stored later"),
        Err(error) if is_kept_in_memory(&data_dir) => {
            format!("{problem}; the event is kept in memory and stored later: {error}")
        }
        Err(error) => format!("{problem}, and the event may be lost: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{self, sleep};
    use std::time::Duration;

    use midcourse::{
        DataDir, Event, Redaction, RunIdentity, Source, TrajectoryPayload, has_spilled, now,
    };

    use super::super::Report;
    use super::{Pending, Timeout, run, set_pending};

    /// A timeout that is never reached, even on a busy machine.
    const LONG: Duration = Duration::from_secs(600);

    const SHORT: Duration = Duration::from_millis(50);

    fn guarded(
        limit: Duration,
        extra: Duration,
        work: fn(&Pending) -> Report,
    ) -> (Report, DataDir) {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path());
        let (sender, reports) = channel();
        let for_run = data_dir.clone();
        // A real hook ends its process when it replies; here the work may go on.
        thread::spawn(move || {
            let reply = move |report| sender.send(report).unwrap();
            run(Some(for_run), Timeout::start(limit, extra), work, reply);
        });
        let report = reports.recv().unwrap();
        // The thread with the work may still use the folder, so keep the folder from being removed.
        std::mem::forget(folder);
        (report, data_dir)
    }

    fn warned(warning: &str) -> Report {
        Report::of(warning.to_owned())
    }

    fn begin(pending: &Pending) {
        let run = RunIdentity::root("r");
        let event = Event::new(
            run,
            Source::new("test", midcourse::Channel::Hook),
            now(),
            TrajectoryPayload::Resumed,
        );
        set_pending(pending, vec![event], Redaction::default());
    }

    #[test]
    fn after_a_timeout_the_event_is_spilled() {
        // Two seconds are enough for the thread to start and set the pending event.
        let (report, data_dir) = guarded(Duration::from_secs(2), LONG, |pending| {
            begin(pending);
            sleep(LONG);
            Report::default()
        });
        let warning = "timed out; the event is in the spill folder and stored later";
        assert_eq!(report, warned(warning));
        assert!(has_spilled(&data_dir));
    }

    #[test]
    fn after_a_panic_the_reply_is_empty_and_the_event_is_spilled() {
        let (report, data_dir) = guarded(LONG, LONG, |pending| {
            begin(pending);
            panic!("a bug");
        });
        let warning = "panicked; the event is in the spill folder and stored later";
        assert_eq!(report, warned(warning));
        assert!(has_spilled(&data_dir));
    }

    #[test]
    fn a_payload_that_does_not_arrive_times_out() {
        let (report, data_dir) = guarded(SHORT, SHORT, |_| {
            sleep(LONG);
            Report::default()
        });
        assert_eq!(report, warned("timed out before the payload was read"));
        assert!(!has_spilled(&data_dir));
    }

    #[test]
    fn work_that_finishes_in_time_is_returned() {
        let report = || Report { reply: b"{}".to_vec(), warnings: vec!["one".to_owned()] };
        let (returned, _) = guarded(LONG, LONG, |_| Report {
            reply: b"{}".to_vec(),
            warnings: vec!["one".to_owned()],
        });
        assert_eq!(returned, report());
    }
}
