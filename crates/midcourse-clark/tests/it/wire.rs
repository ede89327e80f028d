//! The wire format: each crate reads what the other one writes.

use std::sync::Arc;

use clark_agent::TrajectoryRecorder;
use midcourse::{AgentMessage, Timestamp, TrajectoryPayload, TrajectoryRecord};
use midcourse_clark::{from_clark, to_clark};
use serde_json::{Value, json};

use crate::script::{Model, Shelf, builder, calls, failing_loop, identity, run, says};

/// One record of every kind and shape, written by clark-agent 0.4.
const CLARK_AGENT: &str = include_str!("../../../midcourse-core/testdata/clark-agent-0.4.jsonl");

/// Parses a line as a record of clark-agent and as one of midcourse; both have to be equal.
fn check(line: &Value) -> TrajectoryRecord {
    let ours: TrajectoryRecord = serde_json::from_value(line.clone()).unwrap();
    let theirs: clark_agent::TrajectoryRecord = serde_json::from_value(line.clone()).unwrap();
    assert_eq!(serde_json::to_value(&ours).unwrap(), *line);
    assert_eq!(serde_json::to_value(&theirs).unwrap(), *line);
    assert_eq!(from_clark(&theirs), ours);
    assert_eq!(serde_json::to_value(to_clark(&ours)).unwrap(), *line);
    ours
}

#[test]
fn every_shape_of_clark_agent_reads_and_writes_alike() {
    let mut read = 0;
    for line in CLARK_AGENT.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        // A message without a time gets the current time from clark-agent, so each one gets a fixed
        // time here.
        date(&mut line);
        check(&line);
        read += 1;
    }
    assert!(read > 12);
}

fn date(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("role") {
                fields.entry("timestamp").or_insert(json!(1));
            }
            fields.values_mut().for_each(date);
        }
        Value::Array(items) => items.iter_mut().for_each(date),
        _ => {}
    }
}

#[tokio::test]
async fn every_record_of_a_run_reads_with_both_crates() {
    let batch = calls([("a", "read", json!({"z": 1, "a": [null, 2.5]})), ("b", "make", json!({}))]);
    let replies: Vec<_> =
        [batch].into_iter().chain(failing_loop(3)).chain([says("done")]).collect();
    let (shelf, model) = (Shelf::new(), Model::new(replies));
    let theirs = Arc::new(clark_agent::InMemoryTrajectorySink::new());
    let recorder = Arc::new(TrajectoryRecorder::new(
        Arc::<clark_agent::InMemoryTrajectorySink>::clone(&theirs),
    ));
    let plugin = Arc::new(shelf.plugin());
    let builder = plugin.attach(builder(&model).event_observer_arc(recorder));
    let due = identity("r").with_deadline_unix_ms(midcourse::now().unix_ms() + 60_000);
    run(builder, due).await.unwrap();

    for record in theirs.snapshot().await {
        check(&serde_json::to_value(record).unwrap());
    }
    let (mut shared, mut own) = (0, 0);
    for record in shelf.records("r") {
        if to_clark(&record).is_some() {
            assert_eq!(check(&serde_json::to_value(&record).unwrap()), record);
            shared += 1;
        } else {
            own += 1;
        }
    }
    assert!(shared > 20);
    assert!(own >= 2);

    // An exported line has additional fields, which clark-agent ignores.
    for stored in shelf.store().records("r", 0, usize::MAX).unwrap() {
        let line = stored.to_json();
        assert!(line.get("host").is_some() && line.get("channel").is_some());
        let record = stored.into_record();
        let Some(theirs) = to_clark(&record) else { continue };
        let read: clark_agent::TrajectoryRecord = serde_json::from_str(&line.to_string()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), serde_json::to_value(theirs).unwrap());
    }
}

#[test]
fn a_message_without_a_time_stays_without_one() {
    let payload = TrajectoryPayload::MessageAppended { message: AgentMessage::user("hi") };
    let record = TrajectoryRecord::new(0, Timestamp::from_unix_ms(1), payload);
    let theirs = to_clark(&record).unwrap();
    assert_eq!(from_clark(&theirs), record);
    assert!(
        to_clark(&TrajectoryRecord { payload: TrajectoryPayload::Resumed, ..record }).is_none()
    );
}
