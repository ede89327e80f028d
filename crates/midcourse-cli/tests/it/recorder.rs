//! The recorder: its policies, what it holds, and what it says about what it lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use midcourse::{
    Event, GapReason, InMemoryTrajectorySink, OnFailure, RecordOutcome, Recording, RunIdentity,
    Source, TrajectoryError, TrajectoryPayload, TrajectoryRecord, TrajectoryRecorder,
    TrajectorySink,
};

/// A sink that fails while it is told to.
#[derive(Default)]
struct Moody {
    inner: InMemoryTrajectorySink,
    broken: AtomicBool,
    picky: AtomicBool,
    asked: AtomicU64,
}

impl TrajectorySink for Moody {
    fn record(&self, event: Event) -> Recording<'_> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let failure = if self.broken.load(Ordering::SeqCst) {
            Some(TrajectoryError::Io("broken".into()))
        } else if self.picky.load(Ordering::SeqCst) {
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

fn recorder(sink: &Arc<Moody>) -> TrajectoryRecorder {
    TrajectoryRecorder::new(sink.clone() as Arc<dyn TrajectorySink>, Source::new("test", "loop"))
}

fn kinds(sink: &Moody) -> Vec<String> {
    let name = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::Gap { lost, reason } => format!("gap of {lost} ({reason:?})"),
        other => other.kind().to_owned(),
    };
    sink.inner.records(&"r".into()).iter().map(name).collect()
}

const TURN: TrajectoryPayload = TrajectoryPayload::TurnStarted;

#[test]
fn a_gap_marker_says_how_many_were_dropped() {
    let sink = Arc::new(Moody::default());
    let recorder = recorder(&sink);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    recorder.record_blocking(TURN).unwrap();
    sink.broken.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(recorder.record_blocking(TURN).unwrap().dropped().is_some());
    }
    sink.broken.store(false, Ordering::SeqCst);
    sink.picky.store(true, Ordering::SeqCst);
    assert!(recorder.record_blocking(TURN).unwrap().dropped().is_some());
    sink.picky.store(false, Ordering::SeqCst);
    recorder.record_blocking(TrajectoryPayload::Resumed).unwrap();
    // The fourth failed because the marker of the first three was rejected.
    assert_eq!(
        kinds(&sink),
        ["run_started", "turn_started", "gap of 1 (Rejected)", "gap of 3 (Io)", "resumed"]
    );
    let seqs: Vec<u64> = sink.inner.records(&"r".into()).iter().map(|r| r.seq).collect();
    assert_eq!(seqs, [0, 1, 2, 3, 4]);
}

#[test]
fn a_marker_can_be_asked_for() {
    let sink = Arc::new(Moody::default());
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
fn failures_escalate_where_that_is_asked_for() {
    let sink = Arc::new(Moody::default());
    let recorder = recorder(&sink).on_failure(OnFailure::Escalate);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    sink.broken.store(true, Ordering::SeqCst);
    let error = recorder.record_blocking(TURN).unwrap_err();
    assert_eq!(error, TrajectoryError::Io("broken".into()));
    sink.broken.store(false, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap().recorded().unwrap();
    assert_eq!(kinds(&sink), ["run_started", "turn_started"], "the caller knew, and tried again");
}

#[test]
fn the_beginning_of_a_run_is_not_lost() {
    let sink = Arc::new(Moody::default());
    let recorder = recorder(&sink);
    sink.broken.store(true, Ordering::SeqCst);
    assert!(recorder.begin_blocking(RunIdentity::root("r")).unwrap().dropped().is_some());
    assert!(recorder.record_blocking(TURN).unwrap().dropped().is_some());
    sink.broken.store(false, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    assert_eq!(kinds(&sink), ["run_started", "gap of 1 (Io)", "turn_started"]);
}

#[test]
fn what_comes_before_the_run_is_held_and_adopted() {
    let sink = Arc::new(Moody::default());
    let recorder = recorder(&sink);
    recorder.record_blocking(TURN).unwrap();
    recorder.record_blocking(TrajectoryPayload::Resumed).unwrap();
    assert_eq!(sink.inner.len(), 2, "it is durable while it waits");
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    assert_eq!(kinds(&sink), ["turn_started", "resumed", "run_started"]);
    assert_eq!(sink.inner.len(), 3);
}

#[test]
fn a_gap_belongs_to_the_run_that_has_it() {
    let sink = Arc::new(Moody::default());
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
fn what_only_streams_is_not_recorded() {
    let sink = Arc::new(Moody::default());
    let recorder = recorder(&sink);
    assert_eq!(recorder.record_blocking(None).unwrap(), RecordOutcome::Skipped);
    assert_eq!(sink.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn the_reason_of_a_gap_is_what_the_sink_said() {
    let sink = Arc::new(Moody::default());
    let recorder = recorder(&sink);
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    sink.picky.store(true, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    sink.picky.store(false, Ordering::SeqCst);
    recorder.record_blocking(TURN).unwrap();
    let records = sink.inner.records(&"r".into());
    let expected = TrajectoryPayload::Gap { lost: 1, reason: GapReason::Rejected };
    assert_eq!(records[1].payload, expected);
}
