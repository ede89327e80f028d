//! How a second report of a fact relates to the record of it.
//!
//! The first source wins. Another source may only fill what is missing; one source that says the
//! same event twice in different words has diverged, and its other words are kept beside.

use midcourse_core::TrajectoryPayload;
use serde_json::{Map, Value};

/// What a report turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A fact that was not known: it is a record now.
    New,
    /// Nothing that was not known.
    Known,
    /// Known, and something that was missing in it is there now.
    Filled,
    /// One source said the same event differently: the first record stands.
    Diverged,
}

impl Standing {
    /// The standing as one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Known => "known",
            Self::Filled => "filled",
            Self::Diverged => "diverged",
        }
    }
}

/// What a second report adds to a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Relation {
    /// Nothing.
    Same,
    /// Values that were missing, by their place (JSON pointers).
    Fills(Map<String, Value>),
    /// Other content from the same source.
    Diverges,
}

/// The kind of the other way in which a call can end. A call ends once: who reports later that it
/// was refused, or that it returned after all, says nothing new.
pub(crate) const fn other_end(payload: &TrajectoryPayload) -> Option<&'static str> {
    match payload {
        TrajectoryPayload::ToolEnded { .. } => Some("denied"),
        TrajectoryPayload::Denied { .. } => Some("tool_ended"),
        _ => None,
    }
}

/// Compares the record of a fact with another report of it.
pub(crate) fn relate(known: &Value, reported: &Value, same_source: bool) -> Relation {
    if known == reported {
        return Relation::Same;
    }
    if same_source {
        return Relation::Diverges;
    }
    let mut fills = Map::new();
    missing(known, reported, &mut String::new(), &mut fills);
    if fills.is_empty() { Relation::Same } else { Relation::Fills(fills) }
}

/// Puts the values that were missing into a record.
pub(crate) fn fill(known: &mut Value, fills: &Map<String, Value>) {
    for (pointer, value) in fills {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Object(fields)) = known.pointer_mut(parent) {
            fields.insert(name, value.clone());
        }
    }
}

/// Collects what `reported` has where `known` has nothing. Lists are taken as they are: two
/// sources need not agree on how they cut them.
fn missing(known: &Value, reported: &Value, pointer: &mut String, fills: &mut Map<String, Value>) {
    let (Value::Object(known), Value::Object(reported)) = (known, reported) else { return };
    for (name, value) in reported {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        match known.get(name) {
            None | Some(Value::Null) if !value.is_null() => {
                fills.insert(pointer.clone(), value.clone());
            }
            Some(known) => missing(known, value, pointer, fills),
            None => {}
        }
        pointer.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Relation, fill, relate};

    fn filled(known: &Value, reported: &Value) -> Value {
        let mut known = known.clone();
        if let Relation::Fills(fills) = relate(&known, reported, false) {
            fill(&mut known, &fills);
        }
        known
    }

    #[test]
    fn another_source_fills_and_changes_nothing() {
        let first = json!({"result": {"content": ["a"], "details": null}, "is_error": false});
        let second = json!({"result": {"content": ["b"], "details": {"x/y": 1}, "narration": "n"},
                            "is_error": true});
        assert_eq!(
            filled(&first, &second),
            json!({"result": {"content": ["a"], "details": {"x/y": 1}, "narration": "n"},
                   "is_error": false})
        );
        assert_eq!(relate(&filled(&first, &second), &second, false), Relation::Same);
    }

    #[test]
    fn one_source_that_says_otherwise_diverges() {
        let (first, second) = (json!({"a": 1}), json!({"a": 1, "b": 2}));
        assert_eq!(relate(&first, &second, true), Relation::Diverges);
        assert_eq!(relate(&first, &first, true), Relation::Same);
    }
}
