//! Properties of ATIF documents: they follow the rules of the format, contain every record exactly
//! once, and can be read from any bytes. Samples of every version are in `testdata/sessions/atif`.

mod bytes;
mod generated;
mod samples;

use std::collections::HashSet;
use std::path::Path;

use midcourse::{
    Channel, Event, ForeignRecord, RunSummary, Source, StoredRecord, Timestamp, TrajectoryPayload,
};
use proptest::prelude::*;
use serde_json::Value;

use super::{Header, StepBuilder, Version, closing, opening, reader};
use crate::formats::records::{LineDefaults, parse_line};
use crate::session_file::{Found, SessionFile};
use generated::{StoredRun, stored_run};

const FILE_TIME: Timestamp = Timestamp::from_unix_ms(1_760_000_000_000);

fn read(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let file = SessionFile { path: Path::new("runs/sample.json"), modified: FILE_TIME };
    let mut reader = reader(&file);
    reader.read(bytes, &mut found);
    reader.end(&mut found);
    found
}

/// The trajectory of a run with its child runs, as the command writes it.
fn trajectory(run: &StoredRun, session_id: &str, children: Vec<Value>) -> Value {
    let summary = run.summary();
    let ids: Vec<RunSummary> = run.children.iter().map(StoredRun::summary).collect();
    let mut builder = StepBuilder::new(&ids.iter().collect::<Vec<_>>(), session_id);
    let mut steps = Vec::new();
    for record in &run.records {
        builder.push(record, &[]);
        steps.extend(std::iter::from_fn(|| builder.pop()));
    }
    steps.extend(std::iter::from_fn(|| builder.pop_rest()));
    let header = Header {
        version: Version::V1_8,
        run: &summary,
        session_id,
        depth: run.key.depth,
        is_damaged: false,
    };
    let mut fields = opening(header);
    fields.insert("steps".to_owned(), steps.into());
    fields.extend(closing(&summary, builder.written()));
    if !children.is_empty() {
        fields.insert("subagent_trajectories".to_owned(), children.into());
    }
    fields.into()
}

fn document(run: &StoredRun) -> Value {
    let session_id = run.key.run_id.as_str();
    let children = run.children.iter();
    let children = children.map(|child| trajectory(child, session_id, Vec::new())).collect();
    trajectory(run, session_id, children)
}

/// What importing the JSON lines of a run gives.
fn imported(record: &StoredRecord) -> ForeignRecord {
    let defaults = LineDefaults {
        run_id: None,
        source: Source::new("import", Channel::Import),
        at: FILE_TIME,
        schema_version: 0,
        decision_point: None,
    };
    parse_line(&record.to_json().to_string(), &defaults).unwrap()
}

/// Checks the rules that Harbor's validator checks.
fn check_rules(trajectory: &Value) {
    let steps = trajectory["steps"].as_array().unwrap();
    assert!(!steps.is_empty());
    for (number, step) in (1_u64..).zip(steps) {
        assert_eq!(step["step_id"], number);
        let is_agent = step["source"] == "agent";
        for field in ["reasoning_content", "tool_calls", "metrics"] {
            assert!(is_agent || step.get(field).is_none(), "{step}");
        }
        assert!(step["message"].is_string() || step["message"].is_array());
        let calls = step.get("tool_calls").and_then(Value::as_array);
        let calls: Vec<&Value> = calls.into_iter().flatten().collect();
        for call in &calls {
            assert!(call["arguments"].is_object(), "{call}");
        }
        let results = step.pointer("/observation/results").and_then(Value::as_array);
        for result in results.into_iter().flatten() {
            if let Some(id) = result.get("source_call_id") {
                assert!(calls.iter().any(|call| call["tool_call_id"] == *id), "{step}");
            }
        }
    }
}

proptest! {
    #[test]
    fn a_document_follows_the_rules_and_gives_the_same_records(run in stored_run()) {
        let document = document(&run);
        check_rules(&document);
        let expected: Vec<ForeignRecord> = run.all_records().map(imported).collect();
        let found = read(document.to_string().as_bytes());
        prop_assert_eq!(found.problem, None);
        prop_assert_eq!(found.records, expected);
    }

    /// A program that keeps only the standard fields loses no call and no result.
    #[test]
    fn the_standard_fields_have_every_call(run in stored_run()) {
        let mut document = document(&run);
        without_own_data(&mut document);
        let found = read(document.to_string().as_bytes());
        prop_assert_eq!(&found.problem, &None);
        let kept = count(found.records.iter().flat_map(|record| &record.events)
            .map(|event| &event.payload));
        let payloads = run.all_records().map(|record| imported(record).events.swap_remove(0).payload);
        let original = count(&payloads.collect::<Vec<_>>());
        prop_assert!(kept >= original, "{} of {} calls", kept, original);
    }

    #[test]
    fn importing_again_gives_the_same_keys_and_no_key_occurs_twice(run in stored_run()) {
        let mut document = document(&run);
        without_own_data(&mut document);
        let text = document.to_string();
        let keys = keys(&read(text.as_bytes()));
        prop_assert_eq!(&keys, &self::keys(&read(text.as_bytes())));
        let unique: HashSet<&String> = keys.iter().collect();
        prop_assert_eq!(unique.len(), keys.len(), "{:?}", keys);
    }
}

/// The number of different calls that ended or were refused.
fn count<'a>(payloads: impl IntoIterator<Item = &'a TrajectoryPayload>) -> usize {
    let ends = payloads.into_iter().filter(|payload| {
        matches!(payload, TrajectoryPayload::ToolEnded { .. } | TrajectoryPayload::Denied { .. })
    });
    let ids: HashSet<String> = ends.filter_map(|end| Some(end.call_id()?.to_string())).collect();
    ids.len()
}

fn keys(found: &Found) -> Vec<String> {
    let events = found.records.iter().flat_map(|record| &record.events);
    let key =
        |event: &Event| format!("{} {} {:?}", event.run.run_id, event.payload.kind(), event.fact);
    events.map(key).collect()
}

fn without_own_data(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(extra) = fields.get_mut("extra").and_then(Value::as_object_mut) {
                extra.shift_remove("midcourse");
            }
            fields.values_mut().for_each(without_own_data);
        }
        Value::Array(items) => items.iter_mut().for_each(without_own_data),
        _ => {}
    }
}

#[test]
fn texts_are_in_the_document_once() {
    let text = "a text that is long enough to be moved out of the record".to_owned();
    let run = StoredRun::of(vec![
        serde_json::json!({"kind": "message_appended", "message": {"role": "user", "content": text}}),
    ]);
    let document = document(&run).to_string();
    assert_eq!(document.matches(&text).count(), 1, "{document}");
}
