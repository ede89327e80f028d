//! What has to hold for any input, one module per kind of parser.

pub(crate) mod api;
pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod hook;
pub(crate) mod notation;
pub(crate) mod otel;
pub(crate) mod record;
pub(crate) mod redact;
pub(crate) mod session_files;

use midcourse::{
    Budget, DecisionPoint, Delivery, Engine, Event, MessageSettings, Prompt, Timestamp,
    TrajectoryAnalysisConfig, TrajectoryPayload, TrajectoryRecord, parse_notation,
};
use serde_json::Value;

/// The time that all inputs are received at.
const NOW: Timestamp = Timestamp::from_unix_ms(1_790_000_000_000);

fn engine() -> Engine {
    let prompt = Prompt::new(MessageSettings::default().template(Budget::default()));
    Engine::new(prompt, TrajectoryAnalysisConfig::shipped())
}

/// Messages as the engine makes them: one piece of feedback and one piece of guidance.
fn deliveries() -> Vec<Delivery> {
    let run = parse_notation("deadline 10m\n3x bash make !! error: no rule\n").unwrap();
    let mut engine = engine();
    let steps = run.iter().map(|record| {
        let is_end = matches!(record.payload, TrajectoryPayload::ToolEnded { .. });
        engine.step(record, is_end.then_some(DecisionPoint::PreToolSelection)).deliveries
    });
    steps.flatten().collect()
}

/// The engine takes these payloads as the records of one run, and nothing in it fails. A panic that
/// the engine catches ends the fuzzer all the same.
fn check_engine<'a>(payloads: impl IntoIterator<Item = &'a TrajectoryPayload>) {
    let mut engine = engine();
    let mut seq = 0;
    for payload in payloads.into_iter().take(200) {
        let record = TrajectoryRecord::new(seq, NOW, payload.clone());
        let step = engine.step(&record, Some(DecisionPoint::PreToolSelection));
        assert!(step.faults.is_empty(), "{:?}", step.faults);
        for added in &step.records {
            engine.step(added, None);
        }
        seq += 1 + step.records.len() as u64;
    }
}

/// The store turns what is nested deeper than this into text (`store/nesting.rs`).
const MAX_STORED_LEVELS: usize = 100;

/// A stored payload reads back as it was written.
fn check_stored(payload: &TrajectoryPayload) {
    let value = serde_json::to_value(payload).unwrap();
    if levels(&value) > MAX_STORED_LEVELS {
        return;
    }
    let json = value.to_string();
    let read: TrajectoryPayload = serde_json::from_str(&json)
        .unwrap_or_else(|error| panic!("a stored payload cannot be read: {error}: {json}"));
    assert_eq!(read, *payload, "a stored payload reads differently: {json}");
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

fn check_events(events: &[Event]) {
    events.iter().for_each(|event| check_stored(&event.payload));
    check_engine(events.iter().map(|event| &event.payload));
}
