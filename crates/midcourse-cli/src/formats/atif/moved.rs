//! Leaves out of a record what its step contains anyway: texts, and arguments of tool calls.
//!
//! `shorten` replaces each such value by an empty text, and notes the place of the value in the
//! record's payload and in the step, both as JSON pointers. `restore` puts the values back. Both limit
//! how often a value is used, so that a short document cannot expand to long records.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Shorter texts are not moved: the two pointers would be longer.
const MIN_MOVED_LEN: usize = 40;

/// Name of the field with the pointers.
const MOVED: &str = "moved";

/// How often records may refer to one value of their step.
const MAX_USES: u32 = 2;

/// What the records of one step restore is at most this many times as long as the step: values can
/// be inside each other.
const MAX_GROWTH: usize = 4;

/// The texts and arguments in one step that its records can refer to, each with its JSON pointer.
#[derive(Default)]
pub(super) struct StepValues {
    texts: HashMap<String, Place>,
    /// Keyed by JSON text: objects that differ only in the order of their fields are equal as values,
    /// but must be restored in their own order.
    arguments: HashMap<String, Place>,
}

struct Place {
    pointer: String,
    uses: u32,
}

impl StepValues {
    pub(super) fn of(step: &Value) -> Self {
        let mut values = Self::default();
        values.add_content(step, "/message");
        values.add_content(step, "/reasoning_content");
        let calls = step.get("tool_calls").and_then(Value::as_array);
        for at in 0..calls.map_or(0, Vec::len) {
            let pointer = format!("/tool_calls/{at}/arguments");
            if let Some(arguments) = step.pointer(&pointer) {
                add(&mut values.arguments, arguments.to_string(), &pointer);
                // Arguments that are no object are in an object with one field.
                values.add_content(step, &format!("{pointer}/input"));
            }
        }
        let results = step.pointer("/observation/results").and_then(Value::as_array);
        for at in 0..results.map_or(0, Vec::len) {
            values.add_content(step, &format!("/observation/results/{at}/content"));
        }
        values
    }

    fn add_content(&mut self, step: &Value, pointer: &str) {
        match step.pointer(pointer) {
            Some(Value::String(text)) => add(&mut self.texts, text.clone(), pointer),
            Some(Value::Array(parts)) => {
                for at in 0..parts.len() {
                    self.add_content(step, &format!("{pointer}/{at}/text"));
                }
            }
            _ => {}
        }
    }

    fn place_of(&mut self, key: &str, value: &Value) -> Option<&str> {
        let place = match value {
            Value::String(text) => self.texts.get_mut(text),
            Value::Object(_) if matches!(key, "args" | "arguments") => {
                self.arguments.get_mut(&value.to_string())
            }
            _ => None,
        };
        let place = place.filter(|place| place.uses < MAX_USES)?;
        place.uses += 1;
        Some(&place.pointer)
    }
}

fn add(values: &mut HashMap<String, Place>, text: String, pointer: &str) {
    if text.len() >= MIN_MOVED_LEN {
        values.entry(text).or_insert_with(|| Place { pointer: pointer.to_owned(), uses: 0 });
    }
}

/// Moves what the step contains out of the payload of a record.
pub(super) fn shorten(record: &mut Value, values: &mut StepValues) {
    let Some(payload) = record.get_mut("payload") else { return };
    let mut moved = Map::new();
    take(payload, "", String::new(), values, &mut moved);
    if let Some(fields) = record.as_object_mut().filter(|_| !moved.is_empty()) {
        fields.insert(MOVED.to_owned(), moved.into());
    }
}

fn take(
    value: &mut Value,
    key: &str,
    pointer: String,
    values: &mut StepValues,
    moved: &mut Map<String, Value>,
) {
    if let Some(place) = values.place_of(key, value) {
        moved.insert(pointer, place.into());
        *value = "".into();
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                take(field, key, format!("{pointer}/{escaped}"), values, moved);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                take(item, "", format!("{pointer}/{at}"), values, moved);
            }
        }
        _ => {}
    }
}

/// How much `restore` may still copy out of a step, in bytes.
pub(super) struct CopyLimit(usize);

impl CopyLimit {
    pub(super) const fn for_step(len: usize) -> Self {
        Self(len.saturating_mul(MAX_GROWTH))
    }
}

/// Puts back what `shorten` moved; `None` if the step does not have it, or if it is too much.
pub(super) fn restore(record: &mut Value, step: &Value, limit: &mut CopyLimit) -> Option<()> {
    let moved = record.as_object_mut()?.shift_remove(MOVED);
    let Some(moved) = moved else { return Some(()) };
    for (pointer, place) in moved.as_object()? {
        let value = step.pointer(place.as_str()?)?;
        let len = value.as_str().map_or_else(|| value.to_string().len(), str::len);
        limit.0 = limit.0.checked_sub(len)?;
        *record.get_mut("payload")?.pointer_mut(pointer)? = value.clone();
    }
    Some(())
}
