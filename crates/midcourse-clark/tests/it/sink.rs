//! clark-agent's own recorder with our sink.

use std::sync::Arc;

use clark_agent::{TrajectoryRecorder, TrajectorySink as _};
use midcourse::{
    Event, InMemoryTrajectorySink, Recording, StoreWriter, TrajectoryError, TrajectorySink,
};
use midcourse::{GapReason, TrajectoryPayload};
use midcourse_clark::DurableTrajectorySink;
use serde_json::json;

use crate::script::{Model, Shelf, builder, calls, identity, kinds, run, says};

fn turn_started(run: Option<&str>, seq: u64) -> clark_agent::TrajectoryRecord {
    serde_json::from_value(json!({
        "schema_version": 1, "seq": seq, "run_id": run, "recorded_at_unix_ms": 5,
        "payload": {"kind": "turn_started"},
    }))
    .unwrap()
}

#[tokio::test]
async fn the_recorder_of_clark_agent_stores_durably() {
    let shelf = Shelf::new();
    let call = |path: &str| calls([("0", "read", json!({"path": path}))]);
    let model = Model::new([call("a"), call("b"), says("done")]);
    let sink = DurableTrajectorySink::new(Arc::<StoreWriter>::clone(&shelf.writer));
    let recorder = Arc::new(TrajectoryRecorder::new(Arc::new(sink)));
    let theirs = Arc::new(clark_agent::InMemoryTrajectorySink::new());
    let other = Arc::new(TrajectoryRecorder::new(
        Arc::<clark_agent::InMemoryTrajectorySink>::clone(&theirs),
    ));
    let builder = builder(&model).event_observer_arc(recorder).event_observer_arc(other);
    run(builder, identity("r")).await.unwrap();

    let (records, theirs) = (shelf.records("r"), theirs.snapshot().await);
    assert_eq!(records.len(), theirs.len());
    let mut ids = Vec::new();
    for (ours, theirs) in records.iter().zip(&theirs) {
        let mut expected = midcourse_clark::from_clark(theirs);
        expected.recorded_at_unix_ms = ours.recorded_at_unix_ms;
        if let (
            TrajectoryPayload::ToolStarted { tool_call_id: id, .. }
            | TrajectoryPayload::ToolEnded { tool_call_id: id, .. },
            TrajectoryPayload::ToolStarted { tool_call_id, .. }
            | TrajectoryPayload::ToolEnded { tool_call_id, .. },
        ) = (&ours.payload, &mut expected.payload)
        {
            // A second call with the same id is recorded under a unique id.
            ids.push(id.to_string());
            *tool_call_id = id.clone();
        }
        assert_eq!(*ours, expected);
    }
    assert_eq!(ids, ["0", "0", "0#2", "0#2"]);
    let summary = shelf.store().run("r").unwrap().unwrap();
    assert_eq!(summary.reported_outcome.as_deref(), Some("ended"));
    assert_eq!(summary.outcome.as_deref(), Some("completed"), "the model had answered");
}

#[tokio::test]
async fn records_without_a_run_are_adopted_by_the_next_run() {
    let memory = Arc::new(InMemoryTrajectorySink::new());
    let sink = DurableTrajectorySink::new(Arc::<InMemoryTrajectorySink>::clone(&memory));
    sink.record(turn_started(None, 0)).await.unwrap();
    let mut begins = turn_started(Some("r"), 1);
    let identity = identity("r");
    begins.payload = clark_agent::TrajectoryPayload::RunStarted { identity };
    sink.record(begins).await.unwrap();
    sink.record(turn_started(Some("r"), 2)).await.unwrap();
    let records = memory.snapshot();
    assert_eq!(kinds(&records), ["turn_started", "run_started", "turn_started"]);
    assert!(records.iter().all(|record| record.run_id.as_ref().unwrap().as_str() == "r"));
}

/// A sink that rejects turns and fails to store the end of a run.
struct Picky(InMemoryTrajectorySink);

impl TrajectorySink for Picky {
    fn record(&self, event: Event) -> Recording<'_> {
        match event.payload {
            TrajectoryPayload::TurnStarted => {
                Box::pin(async { Err(TrajectoryError::Rejected("a turn".into())) })
            }
            TrajectoryPayload::RunEnded { .. } => {
                Box::pin(async { Err(TrajectoryError::Io("no disk".into())) })
            }
            _ => self.0.record(event),
        }
    }
}

#[tokio::test]
async fn errors_are_passed_on_and_gaps_are_marked() {
    let picky = Arc::new(Picky(InMemoryTrajectorySink::new()));
    let sink = DurableTrajectorySink::new(Arc::<Picky>::clone(&picky));
    let refused = sink.record(turn_started(Some("r"), 0)).await.unwrap_err();
    assert!(matches!(refused, clark_agent::TrajectoryError::Rejected(why) if why == "a turn"));
    let mut ends = turn_started(Some("r"), 1);
    ends.payload =
        clark_agent::TrajectoryPayload::RunEnded { outcome: "ended".into(), new_messages: vec![] };
    let failed = sink.record(ends).await.unwrap_err();
    assert!(matches!(failed, clark_agent::TrajectoryError::Io(why) if why == "no disk"));
    let mut begins = turn_started(Some("r"), 2);
    begins.payload = clark_agent::TrajectoryPayload::RunStarted { identity: identity("r") };
    sink.record(begins).await.unwrap();
    let records = picky.0.records(&"r".into());
    assert_eq!(kinds(&records), ["gap", "gap", "run_started"]);
    let gap = |reason| TrajectoryPayload::Gap { lost: 1, reason };
    assert_eq!(records[0].payload, gap(GapReason::Rejected));
    assert_eq!(records[1].payload, gap(GapReason::Io));
}
