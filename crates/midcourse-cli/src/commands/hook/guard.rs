//! Runs the hook's work on another thread, and returns in time even if the work hangs or panics.
//! Events that the work could not store are then written to the spill folder.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use midcourse::{DataDir, Event, StoreSettings, spill_event};

use super::Report;
use crate::log::Log;

/// The events that are being stored. After a timeout or a panic, they are written to the spill
/// folder, from which they are imported later.
pub(super) type Pending = Arc<Mutex<Vec<Event>>>;

/// How long the hook may take, because the host waits for its reply.
#[derive(Clone, Copy)]
pub(super) struct Timeout {
    started: Instant,
    limit: Duration,
    /// Time beyond `limit` for writing to the spill folder, or for reading a payload that has not
    /// arrived by then.
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

pub(super) fn set_pending(pending: &Pending, events: Vec<Event>) {
    *lock(pending) = events;
}

fn lock(pending: &Pending) -> MutexGuard<'_, Vec<Event>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn run(
    log: &Log,
    data_dir: Option<DataDir>,
    timeout: Timeout,
    work: impl FnOnce(&Pending) -> Report + Send + 'static,
) -> Report {
    let pending = Pending::default();
    let (sender, reports) = channel();
    let for_work = Arc::clone(&pending);
    // Sending fails after the timeout, when nobody receives the report any more.
    let started = thread::Builder::new().spawn(move || drop(sender.send(work(&for_work))));
    if let Err(error) = started {
        log.write(&format!("cannot start a thread, so the event is lost: {error}"));
        return Report::default();
    }
    let mut received = reports.recv_timeout(timeout.left());
    if received == Err(RecvTimeoutError::Timeout) && lock(&pending).is_empty() {
        // The payload has not been decoded yet, perhaps because the machine is busy. Without events
        // there is nothing to save, so wait longer.
        received = reports.recv_timeout(timeout.extra);
    }
    received.unwrap_or_else(|error| {
        spill_events(log, data_dir, std::mem::take(&mut *lock(&pending)), error, timeout.extra);
        // The work may have finished meanwhile. If it recorded messages as delivered, its reply
        // must reach the host.
        reports.try_recv().unwrap_or_default()
    })
}

/// Writes events that were not stored because of a timeout or a panic to the spill folder. If such
/// an event is stored after all, the import recognises the copy by its key and drops it.
fn spill_events(
    log: &Log,
    data_dir: Option<DataDir>,
    events: Vec<Event>,
    error: RecvTimeoutError,
    limit: Duration,
) {
    let problem = match error {
        RecvTimeoutError::Timeout => "timed out",
        RecvTimeoutError::Disconnected => "panicked",
    };
    let (Some(data_dir), false) = (data_dir, events.is_empty()) else {
        return log.write(&format!("{problem} before the payload was read"));
    };
    let (sender, results) = channel();
    // On another thread, so that neither a hanging disk nor a second panic stops the hook.
    let started = thread::Builder::new().spawn(move || {
        let settings = StoreSettings::default();
        let mut events = events.into_iter();
        let result =
            events.try_for_each(|event| spill_event(&data_dir, event, &settings).map(drop));
        let _ = sender.send(result.map_err(|error| error.to_string()));
    });
    let result = match started {
        Ok(_) => results.recv_timeout(limit).unwrap_or_else(|error| Err(error.to_string())),
        Err(error) => Err(error.to_string()),
    };
    log.write(&match result {
        Ok(()) => format!("{problem}; the event is in the spill folder and stored later"),
        Err(error) => format!("{problem}, and the event may be lost: {error}"),
    });
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use midcourse::{DataDir, Event, RunIdentity, Source, TrajectoryPayload, has_spilled, now};

    use super::super::Report;
    use super::{Log, Pending, Timeout, run, set_pending};

    /// A timeout that is never reached, even on a busy machine.
    const LONG: Duration = Duration::from_secs(600);

    const SHORT: Duration = Duration::from_millis(50);

    fn guarded(
        limit: Duration,
        extra: Duration,
        work: fn(&Pending) -> Report,
    ) -> (Report, DataDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path());
        let log = Log::new(Some(&data_dir), "test");
        let timeout = Timeout::start(limit, extra);
        let report = run(&log, Some(data_dir.clone()), timeout, work);
        let lines = std::fs::read_to_string(data_dir.log_file()).unwrap_or_default();
        // The work may still be running, so the folder must not be removed yet.
        std::mem::forget(folder);
        (report, data_dir, lines)
    }

    fn begin(pending: &Pending) {
        let run = RunIdentity::root("r");
        let event = Event::new(
            run,
            Source::new("test", midcourse::Channel::Hook),
            now(),
            TrajectoryPayload::Resumed,
        );
        set_pending(pending, vec![event]);
    }

    #[test]
    fn after_a_timeout_the_event_is_spilled() {
        // A timeout long enough for the work to begin.
        let (report, data_dir, lines) = guarded(Duration::from_secs(2), LONG, |pending| {
            begin(pending);
            sleep(LONG);
            Report::default()
        });
        assert_eq!(report, Report::default());
        assert!(has_spilled(&data_dir));
        assert!(lines.contains("test: timed out; the event is in the spill folder"), "{lines}");
    }

    #[test]
    fn after_a_panic_the_reply_is_empty_and_the_event_is_spilled() {
        let (report, data_dir, lines) = guarded(LONG, LONG, |pending| {
            begin(pending);
            panic!("a bug");
        });
        assert_eq!(report, Report::default());
        assert!(has_spilled(&data_dir));
        assert!(lines.contains("test: panicked; the event is in the spill folder"), "{lines}");
    }

    #[test]
    fn a_payload_that_does_not_arrive_times_out() {
        let (report, data_dir, lines) = guarded(SHORT, SHORT, |_| {
            sleep(LONG);
            Report::default()
        });
        assert_eq!(report, Report::default());
        assert!(!has_spilled(&data_dir));
        assert!(lines.contains("test: timed out before the payload was read"), "{lines}");
    }

    #[test]
    fn work_that_finishes_in_time_is_returned() {
        let report = || Report { reply: b"{}".to_vec(), warnings: vec!["one".to_owned()] };
        let (returned, _, lines) = guarded(LONG, LONG, |_| Report {
            reply: b"{}".to_vec(),
            warnings: vec!["one".to_owned()],
        });
        assert_eq!((returned, lines.as_str()), (report(), ""));
    }
}
