//! The recorder, which passes an agent's events to a sink (the place that stores them): what it
//! does when the sink fails, how it counts lost events in a gap marker (a record in their place),
//! and how events that came before their run had an id are moved into the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use midcourse::{
    Event, GapReason, InMemoryTrajectorySink, OnFailure, RecordOutcome, Recording, RunIdentity,
    Source, TrajectoryError, TrajectoryPayload, TrajectoryRecord, TrajectoryRecorder,
    TrajectorySink,
};

/// A sink that fails while `broken` (an I/O error) or `rejects` (a refused event) is set.
#[derive(Default)]
struct FailingSink {
    inner: InMemoryTrajectorySink,
    broken: AtomicBool,
    rejects: AtomicBool,
    calls: AtomicU64,
}

impl TrajectorySink for FailingSink {
    fn record(&self, event: Event) -> Recording<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let failure = if self.broken.load(Ordering::SeqCst) {
            Some(TrajectoryError::Io("broken".into()))
        } else if self.rejects.load(Ordering::SeqCst) {
            Some(TrajectoryError::Rejected("too odd".into()))
        } else {
            None
        };
        match failure {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.inner.record(event),
        }
    }
}

fn recorder(sink: &Arc<FailingSink>) -> TrajectoryRecorder {
    TrajectoryRecorder::new(
        sink.clone() as Arc<dyn TrajectorySink>,
        Source::new("test", midcourse::Channel::Library),
    )
}

fn kinds(sink: &FailingSink) -> Vec<String> {
    let name = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::Gap { lost, reason } => format!("gap of {lost} ({reason:?})"),
        other => other.kind().to_owned(),
    };
    sink.inner.records(&"r".into()).iter().map(name).collect()
}

const TURN: TrajectoryPayload = TrajectoryPayload::TurnStarted;

#[test]
fn a_gap_says_how_many_events_were_dropped() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    recorder.record_blocking(TURN).unwrap();
    sink.broken.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(recorder.record_blocking(TURN).unwrap().dropped().is_some());
    }
    sink.broken.store(false, Ordering::SeqCst);
    sink.rejects.store(true, Ordering::SeqCst);
    assert!(recorder.record_blocking(TURN).unwrap().dropped().is_some());
    sink.rejects.store(false, Ordering::SeqCst);
    recorder.record_blocking(TrajectoryPayload::Resumed).unwrap();
    // Three events were dropped because of the I/O error. When the fourth came, the recorder first
    // tried to store a gap marker for these three. The sink rejected the marker, so the fourth
    // event was dropped too. It was dropped for another reason, so it has a marker of its own.
    assert_eq!(
        kinds(&sink),
        ["run_started", "turn_started", "gap of 1 (Rejected)", "gap of 3 (Io)", "resumed"]
    );
    let seqs: Vec<u64> = sink.inner.records(&"r".into()).iter().map(|r| r.seq).collect();
    assert_eq!(seqs, [0, 1, 2, 3, 4]);
}

#[test]
fn flush_records_a_pending_gap() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    sink.broken.store(true, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    recorder.flush_blocking().unwrap_err();
    sink.broken.store(false, Ordering::SeqCst);
    recorder.flush_blocking().unwrap();
    recorder.flush_blocking().unwrap();
    assert_eq!(kinds(&sink), ["run_started", "gap of 1 (Io)"]);
}

#[test]
fn failures_are_returned_with_escalate() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink).on_failure(OnFailure::Escalate);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    sink.broken.store(true, Ordering::SeqCst);
    let error = recorder.record_blocking(TURN).unwrap_err();
    assert_eq!(error, TrajectoryError::Io("broken".into()));
    sink.broken.store(false, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap().recorded().unwrap();
    assert_eq!(
        kinds(&sink),
        ["run_started", "turn_started"],
        "the caller got the error and retried, so there is no gap"
    );
}

#[test]
fn the_start_of_a_run_is_recorded_later_if_the_sink_fails() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink);
    sink.broken.store(true, Ordering::SeqCst);
    assert!(recorder.begin_blocking(RunIdentity::root("r")).unwrap().dropped().is_some());
    assert!(recorder.record_blocking(TURN).unwrap().dropped().is_some());
    sink.broken.store(false, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    assert_eq!(kinds(&sink), ["run_started", "gap of 1 (Io)", "turn_started"]);
}

#[test]
fn a_run_adopts_the_events_from_before_its_start() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink);
    recorder.record_blocking(TURN).unwrap();
    recorder.record_blocking(TrajectoryPayload::Resumed).unwrap();
    assert_eq!(sink.inner.len(), 2, "the events are stored before the run starts");
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    assert_eq!(kinds(&sink), ["turn_started", "resumed", "run_started"]);
    assert_eq!(sink.inner.len(), 3);
}

#[test]
fn each_run_has_its_own_gap() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    sink.broken.store(true, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    recorder.begin_blocking(RunIdentity::root("s")).unwrap();
    recorder.record_blocking(TURN).unwrap();
    recorder.record_blocking(TURN).unwrap();
    sink.broken.store(false, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    assert_eq!(kinds(&sink), ["run_started", "gap of 1 (Io)"]);
    let second: Vec<_> =
        sink.inner.records(&"s".into()).iter().map(|record| record.payload.kind()).collect();
    assert_eq!(second, ["run_started", "gap", "turn_started"]);
}

#[test]
fn no_payload_records_nothing() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink);
    assert_eq!(recorder.record_blocking(None).unwrap(), RecordOutcome::Skipped);
    assert_eq!(sink.calls.load(Ordering::SeqCst), 0);
}

#[test]
fn the_reason_of_a_gap_is_the_error_of_the_sink() {
    let sink = Arc::new(FailingSink::default());
    let recorder = recorder(&sink);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    sink.rejects.store(true, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    sink.rejects.store(false, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    let records = sink.inner.records(&"r".into());
    let expected = TrajectoryPayload::Gap { lost: 1, reason: GapReason::Rejected };
    assert_eq!(records[1].payload, expected);
}
