//! Compares a second report of an event with the stored record of that event.
//!
//! The first report becomes the record. A report from another source may add fields that the record
//! lacks. A report from the same source with other content is a conflict: the record does not
//! change, and the database keeps the other version in a table of its own.

use midcourse_core::TrajectoryPayload;
use serde_json::{Map, Value};

/// What became of a reported event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordStatus {
    /// The event was not stored before and is a new record.
    New,
    /// The event was stored already; nothing changed.
    Duplicate,
    /// The event was stored already; this report added fields that the record lacked.
    Merged,
    /// The same source reported this event before with other content; the stored version is kept.
    Conflict,
}

impl RecordStatus {
    /// The name of the status in stored and exported data, the same in all releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Duplicate => "duplicate",
            Self::Merged => "merged",
            Self::Conflict => "conflict",
        }
    }
}

/// How a second report of an event compares with the stored record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Comparison {
    /// The report has nothing that the record lacks.
    Same,
    /// The report has values that the record lacks. The map's keys are JSON pointers.
    Adds(Map<String, Value>),
    /// The same source reported this event before with other content.
    Conflicts,
}

/// The other payload kind with which a tool call can end: `denied` for a result, `tool_ended` for a
/// denial, and `None` for other payloads. A call ends once, so if its result and its denial are
/// both reported, the second report is a duplicate.
pub(crate) const fn other_end(payload: &TrajectoryPayload) -> Option<&'static str> {
    match payload {
        TrajectoryPayload::ToolEnded { .. } => Some("denied"),
        TrajectoryPayload::Denied { .. } => Some("tool_ended"),
        _ => None,
    }
}

/// Compares a stored payload with another report of the same event.
pub(crate) fn compare(stored: &Value, reported: &Value, same_source: bool) -> Comparison {
    if stored == reported {
        return Comparison::Same;
    }
    if same_source {
        return Comparison::Conflicts;
    }
    let mut added = Map::new();
    collect_missing(stored, reported, &mut String::new(), &mut added);
    if added.is_empty() { Comparison::Same } else { Comparison::Adds(added) }
}

/// Adds values to a payload. The keys of `added` are JSON pointers to their places in the payload.
pub(crate) fn merge(record: &mut Value, added: &Map<String, Value>) {
    for (pointer, value) in added {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Object(fields)) = record.pointer_mut(parent) {
            fields.insert(name, value.clone());
        }
    }
}

/// Collects the fields that `reported` has and `stored` lacks. The items of lists are not compared,
/// because two sources may split the same content into different items.
fn collect_missing(
    stored: &Value,
    reported: &Value,
    pointer: &mut String,
    added: &mut Map<String, Value>,
) {
    let (Value::Object(stored), Value::Object(reported)) = (stored, reported) else { return };
    for (name, value) in reported {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        match stored.get(name) {
            // `is_error_unknown` means that this source cannot tell whether the call failed. The
            // source of the stored record could tell, so the field is not added.
            None if name == "is_error_unknown" => {}
            None | Some(Value::Null) if !value.is_null() => {
                added.insert(pointer.clone(), value.clone());
            }
            Some(stored) => collect_missing(stored, value, pointer, added),
            None => {}
        }
        pointer.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Comparison, compare, merge};

    fn merged(known: &Value, reported: &Value) -> Value {
        let mut known = known.clone();
        if let Comparison::Adds(added) = compare(&known, reported, false) {
            merge(&mut known, &added);
        }
        known
    }

    #[test]
    fn another_source_adds_fields_and_changes_none() {
        let first = json!({"result": {"content": ["a"], "details": null}, "is_error": false});
        let second = json!({"result": {"content": ["b"], "details": {"x/y": 1}, "narration": "n"},
                            "is_error": true});
        assert_eq!(
            merged(&first, &second),
            json!({"result": {"content": ["a"], "details": {"x/y": 1}, "narration": "n"},
                   "is_error": false})
        );
        assert_eq!(compare(&merged(&first, &second), &second, false), Comparison::Same);
    }

    #[test]
    fn the_same_source_with_other_content_conflicts() {
        let (first, second) = (json!({"a": 1}), json!({"a": 1, "b": 2}));
        assert_eq!(compare(&first, &second, true), Comparison::Conflicts);
        assert_eq!(compare(&first, &first, true), Comparison::Same);
    }
}
