//! Values that are text, whatever JSON they are.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A text; any other JSON is its own text.
#[derive(Debug, Clone)]
pub(super) struct AnyText<'a>(Cow<'a, str>);

impl AnyText<'_> {
    pub(super) fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for AnyText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        if raw.starts_with('"') {
            let text: Cow<'de, str> =
                serde_json::from_str::<Borrowed<'de>>(raw).map_err(serde::de::Error::custom)?.0;
            return Ok(Self(text));
        }
        Ok(Self(Cow::Borrowed(raw)))
    }
}

/// A string that is borrowed where it holds no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

/// What a tool was asked. Some hosts write the arguments as a string of JSON.
#[derive(Debug, Clone)]
pub(super) struct Arguments(pub(super) Value);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Value::String(text) = &value
            && text.trim_start().starts_with('{')
            && let Ok(inner) = serde_json::from_str(text)
        {
            return Ok(Self(inner));
        }
        Ok(Self(value))
    }
}
