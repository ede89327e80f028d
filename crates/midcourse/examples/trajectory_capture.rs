//! The code examples of trajectory-capture, one of the four documents that specify midcourse
//! ("seeds"), in Rust: the events of an agent loop become ordered records of its run, and the
//! caller decides what happens when the sink fails.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use midcourse::{
    AgentMessage, Channel, InMemoryTrajectorySink, OnFailure, RecordOutcome, RecordWriter,
    RunIdentity, RunOutcome, SequencedSink, Source, TRAJECTORY_SCHEMA_VERSION, TrajectoryError,
    TrajectoryPayload, TrajectoryRecord, TrajectoryRecorder, TrajectorySink, Writing,
};
use serde_json::json;

/// The events of some agent loop.
enum AgentEvent {
    RunIdentified { identity: RunIdentity },
    TurnStart,
    MessageStart,
    ToolExecutionUpdate,
    TurnEnd { message: AgentMessage },
    AgentEnd,
}

/// Records an event. Events that only serve streaming have no payload and are skipped.
fn on_event(
    recorder: &TrajectoryRecorder,
    event: AgentEvent,
) -> Result<RecordOutcome, TrajectoryError> {
    let payload = match event {
        AgentEvent::RunIdentified { identity } => return recorder.begin_blocking(identity),
        AgentEvent::TurnStart => Some(TrajectoryPayload::TurnStarted),
        AgentEvent::TurnEnd { message } => {
            Some(TrajectoryPayload::TurnEnded { assistant: message, tool_results: Vec::new() })
        }
        AgentEvent::AgentEnd => Some(TrajectoryPayload::RunEnded {
            outcome: RunOutcome::Completed,
            new_messages: Vec::new(),
        }),
        AgentEvent::MessageStart | AgentEvent::ToolExecutionUpdate => None,
    };
    recorder.record_blocking(payload)
}

fn recorder(sink: Arc<dyn TrajectorySink>) -> TrajectoryRecorder {
    TrajectoryRecorder::new(sink, Source::new("my-agent", Channel::Library))
}

/// Records have the seqs 0, 1, 2, … and the id of their run.
fn ordered_records_with_run_id() -> Result<(), Box<dyn Error>> {
    let sink = Arc::new(InMemoryTrajectorySink::new());
    let recorder = recorder(sink.clone());
    let identity = RunIdentity::root("run-1").with_conversation_id("conv-1");
    on_event(&recorder, AgentEvent::RunIdentified { identity: identity.clone() })?;
    on_event(&recorder, AgentEvent::TurnStart)?;
    on_event(&recorder, AgentEvent::TurnEnd { message: AgentMessage::assistant("Done.") })?;
    on_event(&recorder, AgentEvent::AgentEnd)?;

    let records = sink.snapshot();
    let kinds: Vec<_> = records.iter().map(|record| record.payload.kind()).collect();
    assert_eq!(kinds, ["run_started", "turn_started", "turn_ended", "run_ended"]);
    for (seq, record) in (0..).zip(&records) {
        assert_eq!(record.seq, seq);
        assert_eq!(record.run_id.as_ref(), Some(&identity.run_id));
        assert_eq!(record.schema_version, TRAJECTORY_SCHEMA_VERSION);
    }
    Ok(())
}

fn a_missing_schema_version_reads_as_zero() -> Result<(), Box<dyn Error>> {
    let json = json!({
        "seq": 7,
        "recorded_at_unix_ms": 123,
        "payload": {"kind": "turn_started"},
    });
    let record: TrajectoryRecord = serde_json::from_value(json)?;
    assert_eq!((record.schema_version, record.seq), (0, 7));
    Ok(())
}

fn a_record_round_trips_with_its_schema_version() -> Result<(), Box<dyn Error>> {
    let record = TrajectoryRecord {
        schema_version: TRAJECTORY_SCHEMA_VERSION,
        seq: 1,
        run_id: Some("r1".into()),
        parent_run_id: None,
        depth: 0,
        recorded_at_unix_ms: midcourse::Timestamp::from_unix_ms(1),
        payload: TrajectoryPayload::TurnStarted,
    };
    let json = serde_json::to_value(&record)?;
    assert_eq!(
        json,
        json!({
            "schema_version": 1,
            "seq": 1,
            "run_id": "r1",
            "depth": 0,
            "recorded_at_unix_ms": 1,
            "payload": {"kind": "turn_started"},
        })
    );
    assert_eq!(serde_json::from_value::<TrajectoryRecord>(json)?, record);
    Ok(())
}

fn streaming_events_are_skipped() -> Result<(), Box<dyn Error>> {
    let sink = Arc::new(InMemoryTrajectorySink::default());
    let recorder = recorder(sink.clone());
    for event in [AgentEvent::MessageStart, AgentEvent::ToolExecutionUpdate] {
        assert_eq!(on_event(&recorder, event)?, RecordOutcome::Skipped);
    }
    assert!(sink.is_empty());
    assert_eq!(sink.len(), 0);
    Ok(())
}

/// The records of a parent run and of its child are in one sink, each run with seqs from 0.
fn runs_share_a_sink() -> Result<(), Box<dyn Error>> {
    let sink = Arc::new(InMemoryTrajectorySink::new());
    let parent = RunIdentity::root("parent");
    let child = RunIdentity::child_of(&parent, "child");
    let (of_parent, of_child) = (recorder(sink.clone()), recorder(sink.clone()));
    on_event(&of_parent, AgentEvent::RunIdentified { identity: parent.clone() })?;
    on_event(&of_child, AgentEvent::RunIdentified { identity: child.clone() })?;
    on_event(&of_child, AgentEvent::TurnStart)?;
    let records = sink.records(&child.run_id);
    let seqs: Vec<_> = records.iter().map(|record| record.seq).collect();
    assert_eq!(seqs, [0, 1]);
    assert!(records.iter().all(|record| record.parent_run_id.as_ref() == Some(&parent.run_id)));
    assert!(records.iter().all(|record| record.depth == 1));
    assert_eq!(sink.records(&parent.run_id).len(), 1);
    Ok(())
}

/// The program's own storage: a list of JSON lines. It can be set to be full.
#[derive(Default)]
struct Lines {
    lines: Mutex<Vec<String>>,
    is_full: AtomicBool,
}

impl RecordWriter for Lines {
    fn write<'a>(&'a self, record: &'a TrajectoryRecord) -> Writing<'a> {
        Box::pin(async move {
            if self.is_full.load(Ordering::SeqCst) {
                return Err(TrajectoryError::Io("no space left".to_owned()));
            }
            let line = serde_json::to_string(record);
            let line = line.map_err(|error| TrajectoryError::Rejected(error.to_string()))?;
            let mut lines =
                self.lines.lock().map_err(|_| TrajectoryError::Io("poisoned".into()))?;
            lines.push(line);
            Ok(())
        })
    }
}

/// When the sink fails, the recorder's policy decides whether the loop gets an error.
fn a_failing_sink() -> Result<(), Box<dyn Error>> {
    assert_eq!(
        TrajectoryError::Rejected("no".into()).to_string(),
        "trajectory sink rejected record: no"
    );
    let full = TrajectoryError::Io("no space left".into());
    assert_eq!(full.to_string(), "trajectory sink i/o failure: no space left");

    let sink = Arc::new(SequencedSink::new(Lines::default()));
    let dropping = recorder(sink.clone());
    on_event(&dropping, AgentEvent::RunIdentified { identity: "run-1".into() })?;
    sink.writer().is_full.store(true, Ordering::SeqCst);
    // By default the record is dropped, the caller is told, and the loop continues.
    let outcome = on_event(&dropping, AgentEvent::TurnStart)?;
    assert_eq!(outcome, RecordOutcome::Dropped(full.clone()));
    // With `Escalate`, the caller gets the error.
    let escalating = recorder(sink.clone()).on_failure(OnFailure::Escalate);
    let error = on_event(&escalating, AgentEvent::RunIdentified { identity: "run-2".into() });
    assert_eq!(error, Err(full));

    // When the sink works again, a gap marker says how many events are missing. No seq is left out.
    sink.writer().is_full.store(false, Ordering::SeqCst);
    on_event(&dropping, AgentEvent::AgentEnd)?;
    let lines = sink.writer().lines.lock().map_err(|_| "poisoned")?;
    let records: Result<Vec<TrajectoryRecord>, _> =
        lines.iter().map(|line| serde_json::from_str(line)).collect();
    let kinds: Vec<_> = records?.iter().map(|record| (record.seq, record.payload.kind())).collect();
    assert_eq!(kinds, [(0, "run_started"), (1, "gap"), (2, "run_ended")]);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    ordered_records_with_run_id()?;
    a_missing_schema_version_reads_as_zero()?;
    a_record_round_trips_with_its_schema_version()?;
    streaming_events_are_skipped()?;
    runs_share_a_sink()?;
    a_failing_sink()
}

#[test]
fn the_recorder_keeps_the_promises_of_the_seed() {
    main().unwrap();
}
