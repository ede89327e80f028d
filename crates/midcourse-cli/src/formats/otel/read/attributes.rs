//! The attributes of a span that another program wrote, as a flat list of names with dots.
//!
//! OTLP has a list of names and typed values; other exports have objects, flat or nested, or JSON in
//! a text.

use serde_json::{Map, Value};

/// Attributes whose value is not split into single attributes, even if it is an object.
const WHOLE: [&str; 12] = [
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "input.value",
    "llm.invocation_parameters",
    "metadata",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
    "output.value",
    "tool.parameters",
    "tool_call.function.arguments",
];

#[derive(Debug, Default)]
pub(super) struct Attributes(Map<String, Value>);

impl Attributes {
    /// Adds attributes. `name` is empty for all attributes of the span.
    pub(super) fn add(&mut self, name: &str, value: Value) {
        match value {
            Value::Array(list) if name.is_empty() => {
                for item in list {
                    let Some(key) = item.get("key").and_then(Value::as_str) else { continue };
                    let value = item.get("value").map(any_value).unwrap_or_default();
                    self.flatten(key, value);
                }
            }
            // A table of spans has the attributes as JSON in a text.
            Value::String(text) if name.is_empty() => {
                if let Ok(value @ Value::Object(_)) = serde_json::from_str(&text) {
                    self.flatten("", value);
                }
            }
            value => self.flatten(name, value),
        }
    }

    pub(super) fn add_missing(&mut self, name: &str, value: String) {
        self.0.entry(name.to_owned()).or_insert(Value::String(value));
    }

    fn flatten(&mut self, name: &str, value: Value) {
        let is_whole = WHOLE.iter().any(|whole| name.ends_with(whole));
        let inner = |key: &str| match name {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        };
        match value {
            Value::Null => {}
            Value::Object(fields) if !is_whole => {
                for (key, value) in fields {
                    self.flatten(&inner(&key), value);
                }
            }
            Value::Array(list) if !is_whole && list.iter().any(Value::is_object) => {
                for (position, value) in list.into_iter().enumerate() {
                    self.flatten(&inner(&position.to_string()), value);
                }
            }
            value => {
                self.0.insert(name.to_owned(), value);
            }
        }
    }

    /// The first of these attributes that is there and is a text that is not empty.
    pub(super) fn text(&self, names: &[&str]) -> Option<&str> {
        let text = |name: &&str| self.0.get(*name)?.as_str().filter(|text| !text.is_empty());
        names.iter().find_map(text)
    }

    /// The first of these attributes that is there.
    pub(super) fn value(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.0.get(*name))
    }

    /// The first of these attributes that is a number, or a text with one.
    pub(super) fn number(&self, names: &[&str]) -> Option<i64> {
        names.iter().find_map(|name| match self.0.get(*name)? {
            Value::String(text) => text.parse().ok(),
            value => value.as_i64(),
        })
    }

    /// Whether there is an attribute whose name satisfies the condition.
    pub(super) fn has_name(&self, has: impl Fn(&str) -> bool) -> bool {
        self.0.keys().any(|name| has(name))
    }

    /// The attributes `PREFIX.N.REST`, as N, REST and value.
    pub(super) fn numbered<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (usize, &'a str, &'a Value)> {
        self.0.iter().filter_map(move |(name, value)| {
            let (number, rest) = name.strip_prefix(prefix)?.strip_prefix('.')?.split_once('.')?;
            Some((number.parse().ok()?, rest, value))
        })
    }
}

/// The value of a typed value of OTLP.
fn any_value(value: &Value) -> Value {
    let Some((kind, value)) = value.as_object().and_then(|fields| fields.iter().next()) else {
        return value.clone();
    };
    match kind.as_str() {
        "intValue" | "int_value" => match value {
            Value::String(text) => text.parse::<i64>().map_or(value.clone(), Value::from),
            value => value.clone(),
        },
        "arrayValue" | "array_value" => {
            let values = value.get("values").and_then(Value::as_array);
            values.into_iter().flatten().map(any_value).collect()
        }
        "kvlistValue" | "kvlist_value" => {
            let values = value.get("values").and_then(Value::as_array);
            let field = |item: &Value| {
                let key = item.get("key")?.as_str()?.to_owned();
                Some((key, item.get("value").map(any_value).unwrap_or_default()))
            };
            Value::Object(values.into_iter().flatten().filter_map(field).collect())
        }
        _ => value.clone(),
    }
}

/// A value as a text: a text as it is, everything else as JSON.
pub(super) fn text_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

/// A value that may be JSON in a text.
pub(super) fn json_value(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(['{', '[', '"']) => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        value => value.clone(),
    }
}
