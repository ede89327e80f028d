//! How much of a run is shipped.

use midcourse::{ChainEntry, ChainRecord, RunHeader};
use serde_json::Value;

/// How much of each run is shipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// Everything that is stored.
    #[default]
    Full,
    /// What happened, when and with which outcome, but no text that the user, the model or a tool
    /// wrote: no prompts, responses, arguments, results, commands and paths.
    Metadata,
}

impl Level {
    /// The name of the level in options and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Metadata => "metadata",
        }
    }
}

/// What is left of a report: an object without fields.
const NOTHING: &[u8] = b"{}";

/// Removes the texts of an entry. Its link stays, but no longer matches the content.
pub(super) fn without_texts(entry: &mut ChainEntry) {
    match entry {
        ChainEntry::Record(record) => strip_record(record),
        ChainEntry::Report(report) => {
            report.hash = *blake3::hash(NOTHING).as_bytes();
            // Compressing two bytes cannot fail; if it did, the report would be shown as damaged.
            report.zstd = zstd::bulk::compress(NOTHING, 1).unwrap_or_default();
        }
    }
}

/// Removes the texts of a header.
pub(super) fn header_without_texts(header: &mut RunHeader) {
    header.remove_texts();
}

fn strip_record(record: &mut ChainRecord) {
    record.bodies.clear();
    let Ok(mut payload) = serde_json::from_str::<Value>(&record.payload) else {
        record.payload = format!("{{\"kind\":{}}}", Value::from(record.kind.as_str()));
        return;
    };
    strip(&mut payload);
    record.payload = payload.to_string();
}

/// The fields whose text is kept: names and identifiers that hosts and midcourse choose from a short
/// list, or that link records to each other.
const KEPT: [&str; 25] = [
    "kind",
    "run_id",
    "parent_run_id",
    "tool_call_id",
    "id",
    "call_id",
    "tool_name",
    "role",
    "type",
    "status",
    "outcome",
    "verdict",
    "stop_reason",
    "provider_name",
    "cause",
    "category",
    "severity",
    "decision_point",
    "assignment",
    "mode",
    "model",
    "model_id",
    "host",
    "host_version",
    "source",
];

/// Objects that consist of what the model or the user wrote, down to their keys.
const EMPTIED: [&str; 4] = ["args", "arguments", "input", "details"];

/// Makes every text empty that is not kept. The structure stays, so that a reader of records can still
/// read the payload.
fn strip(value: &mut Value) {
    match value {
        Value::String(text) => text.clear(),
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(_) if KEPT.contains(&name.as_str()) => {}
                    _ if EMPTIED.contains(&name.as_str()) => {
                        *value = Value::Object(serde_json::Map::new());
                    }
                    _ => strip(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::strip;

    #[test]
    fn no_text_is_left_but_names() {
        let mut value = json!({
            "kind": "tool_started", "tool_name": "bash", "tool_call_id": "c1",
            "args": {"secret key": "value", "n": 4},
            "result": {"content": [{"type": "text", "text": "output"}], "is_error": true},
            "message": {"role": "user", "content": "prompt", "usage": {"input_tokens": 5}},
        });
        strip(&mut value);
        let expected = json!({
            "kind": "tool_started", "tool_name": "bash", "tool_call_id": "c1",
            "args": {},
            "result": {"content": [{"type": "text", "text": ""}], "is_error": true},
            "message": {"role": "user", "content": "", "usage": {"input_tokens": 5}},
        });
        assert_eq!(value, expected);
    }
}
