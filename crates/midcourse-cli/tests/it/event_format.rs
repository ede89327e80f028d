//! The event format for programs in other languages. Three things have to agree: the JSON Schema
//! that `midcourse record --schema` prints, what `record` accepts, and the page that describes the
//! fields.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use jsonschema::Validator;
use midcourse::TrajectoryPayload;
use serde_json::{Value, json};

use crate::archive::everything;
use crate::events::TempStore;

const SCHEMA: &str = include_str!("../../src/formats/event.schema.json");
const PAGE: &str = include_str!("../../../../docs/events.md");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// The schemas of all payloads.
fn kinds() -> Vec<Value> {
    schema()["$defs"]["payload"]["oneOf"].as_array().unwrap().clone()
}

fn event(payload: &Value) -> Value {
    json!({"payload": payload})
}

fn midcourse(place: &TempStore, args: &[&str], input: &str) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .args(args)
        .env("MIDCOURSE_HOME", place.data_dir().path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends events to `midcourse record`, one after the other, and returns the replies.
fn record(events: &[Value]) -> Vec<Value> {
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let replies = midcourse(&TempStore::new(), &["record", "--run", "r"], &lines);
    assert_eq!(replies.len(), events.len());
    replies
}

/// Each event without one of the fields that the schema requires, and the field's name.
fn incomplete(schema: &Validator) -> Vec<(Value, String)> {
    let mut events = Vec::new();
    for kind in kinds() {
        for field in kind["required"].as_array().unwrap() {
            let mut payload = kind["examples"][0].clone();
            payload.as_object_mut().unwrap().remove(field.as_str().unwrap());
            assert!(!schema.is_valid(&event(&payload)), "{payload}");
            events.push((event(&payload), field.as_str().unwrap().to_owned()));
        }
    }
    events
}

#[test]
fn record_accepts_the_example_of_every_kind() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let names: Vec<Value> = kinds().iter().map(|kind| kind["title"].clone()).collect();
    let mut known: Vec<Value> = TrajectoryPayload::KINDS.map(Value::from).to_vec();
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    known.retain(|kind| !names.contains(kind));
    assert!(known.is_empty(), "the schema does not have {known:?}");
    let events: Vec<Value> = kinds().iter().map(|kind| event(&kind["examples"][0])).collect();
    for event in &events {
        assert!(validator.is_valid(event), "{event}");
    }
    for (reply, event) in record(&events).iter().zip(&events) {
        assert_eq!(reply["status"], "new", "{event}: {reply}");
    }
}

#[test]
fn an_event_without_a_required_field_is_refused_and_the_error_names_the_field() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let (events, fields): (Vec<Value>, Vec<String>) = incomplete(&validator).into_iter().unzip();
    assert!(events.len() > 60, "{}", events.len());
    for ((reply, event), field) in record(&events).iter().zip(&events).zip(&fields) {
        assert_eq!(reply["status"], "unreadable", "{event}: {reply}");
        let error = reply["error"].as_str().unwrap();
        assert!(error.contains(&format!("`{field}`")), "{event}: {error}");
    }
}

#[test]
fn a_field_of_a_wrong_type_is_refused_by_the_schema_and_by_record() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut events = Vec::new();
    for kind in kinds() {
        for (name, field) in kind["properties"].as_object().unwrap() {
            // A field with neither a type nor a `$ref` takes any value.
            let takes_anything = field.get("type").is_none() && field.get("$ref").is_none();
            if name == "kind" || takes_anything {
                continue;
            }
            let wrong = if field["type"] == "array" { json!("text") } else { json!([[1.5]]) };
            let mut payload = kind["examples"][0].clone();
            payload[name] = wrong;
            assert!(!validator.is_valid(&event(&payload)), "{payload}");
            events.push(event(&payload));
        }
    }
    for (reply, event) in record(&events).iter().zip(&events) {
        assert_eq!(reply["status"], "unreadable", "{event}: {reply}");
    }
}

#[test]
fn exported_records_fit_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let place = TempStore::new();
    everything(&mut place.open());
    let lines = midcourse(&place, &["export", "r", "--tree"], "");
    assert!(lines.len() > 12, "{}", lines.len());
    for line in &lines {
        let errors: Vec<String> = validator.iter_errors(line).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{line}: {errors:?}");
    }
}

/// The type of a field, as the page shows it.
fn type_of(field: &Value) -> String {
    if let Some(name) = field["$ref"].as_str() {
        let name = name.trim_start_matches("#/$defs/");
        return format!("[{name}](#{name})");
    }
    match (&field["type"], field.get("oneOf"), field.get("const")) {
        (_, _, Some(word)) => word.to_string(),
        (Value::String(name), ..) if name == "array" => match &field["items"]["$ref"] {
            Value::String(item) => {
                let name = item.trim_start_matches("#/$defs/");
                format!("list of [{name}](#{name})")
            }
            _ => "list".to_owned(),
        },
        (Value::String(name), ..) => name.clone(),
        (Value::Array(names), ..) => names[0].as_str().unwrap().to_owned(),
        (_, Some(Value::Array(options)), _) => {
            options.iter().map(type_of).filter(|it| it != "null").collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// A Markdown table of an object's fields.
fn table(object: &Value) -> String {
    let required = object["required"].as_array().cloned().unwrap_or_default();
    let mut text = String::from("| field | type | |\n|---|---|---|\n");
    for (name, field) in object["properties"].as_object().unwrap() {
        if field.get("const").is_some() {
            continue;
        }
        let mark =
            if required.contains(&Value::from(name.as_str())) { " **required**" } else { "" };
        let description = field["description"].as_str().unwrap_or_default();
        writeln!(text, "| `{name}`{mark} | {} | {description} |", type_of(field)).unwrap();
    }
    text
}

/// The part of the page that is generated from the schema.
fn reference() -> String {
    let schema = schema();
    let mut text = format!("## The line\n\n{}\n## Payloads\n", table(&schema));
    for (by, heading) in [("host", "Your program writes"), ("midcourse", "midcourse writes")] {
        write!(text, "\n### {heading}\n").unwrap();
        for kind in kinds().iter().filter(|kind| kind["x-written-by"] == by) {
            let (name, what) = (kind["title"].as_str().unwrap(), &kind["description"]);
            write!(text, "\n#### {name}\n\n{}\n", what.as_str().unwrap()).unwrap();
            if kind["properties"].as_object().unwrap().len() > 1 {
                write!(text, "\n{}", table(kind)).unwrap();
            }
            write!(text, "\n```json\n{}\n```\n", kind["examples"][0]).unwrap();
        }
    }
    text.push_str("\n## Parts of payloads\n");
    for name in ["run_identity", "usage", "tool_result"] {
        write!(text, "\n### {name}\n\n{}", table(&schema["$defs"][name])).unwrap();
    }
    text.push_str("\n### message\n\nA message is one of these, told apart by `role`.\n");
    for role in schema["$defs"]["message"]["oneOf"].as_array().unwrap() {
        write!(text, "\n`\"role\": {}`\n\n{}", role["title"], table(role)).unwrap();
    }
    text
}

#[test]
fn the_page_describes_every_field_of_the_schema() {
    let start = PAGE.find("## The line").unwrap_or(PAGE.len());
    let expected = reference();
    if PAGE.get(start..) != Some(expected.as_str()) {
        let file = std::env::temp_dir().join("midcourse-events.md");
        std::fs::write(&file, &expected).unwrap();
        panic!("docs/events.md must end with the text of {}", file.display());
    }
}
