//! Limits how deep the JSON of a payload is nested, so that what is stored can be read again.
//!
//! The JSON parser refuses more than 128 levels. A payload can have more: a model may write the
//! arguments of a call as a text that contains JSON, which is parsed on its own and then becomes
//! part of the payload.

use std::ops::BitOr;

use serde_json::Value;

/// The deepest nesting of a stored payload. Exports and spill files add a few levels around it.
const MAX_LEVELS: usize = 100;

/// Replaces everything below the deepest level by its JSON as text. Returns whether the value
/// changed.
pub(super) fn limit(value: &mut Value) -> bool {
    limit_to(value, MAX_LEVELS)
}

fn limit_to(value: &mut Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        let is_nested = value.is_array() || value.is_object();
        if is_nested {
            *value = Value::String(value.to_string());
        }
        return is_nested;
    };
    match value {
        Value::Array(items) => {
            items.iter_mut().map(|item| limit_to(item, below)).fold(false, BitOr::bitor)
        }
        Value::Object(fields) => {
            fields.values_mut().map(|field| limit_to(field, below)).fold(false, BitOr::bitor)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MAX_LEVELS, limit, limit_to};

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn what_is_below_the_limit_becomes_text() {
        let mut value = json!({"a": [[1], {"b": {"c": 2}}], "d": [3]});
        assert!(limit_to(&mut value, 2));
        assert_eq!(value, json!({"a": ["[1]", "{\"b\":{\"c\":2}}"], "d": [3]}));
        assert!(!limit_to(&mut value, 2), "once is enough");
    }

    #[test]
    fn only_a_payload_that_is_too_deep_changes() {
        let mut value = nested(MAX_LEVELS);
        assert!(!limit(&mut value));
        let mut value = nested(MAX_LEVELS + 1);
        assert!(limit(&mut value));
        assert!(serde_json::from_str::<Value>(&value.to_string()).is_ok());
    }
}
