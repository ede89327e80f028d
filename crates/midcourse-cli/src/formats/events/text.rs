//! Fields that should be text but may contain any JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A field that should be a string but may be any JSON value. A string, the usual case, is read
/// directly. For any other value, the caller parses the event a second time ([`RawWire`]) and uses
/// the value's JSON as the text.
#[derive(Debug, Clone)]
pub(super) enum AnyText<'a> {
    Text(Cow<'a, str>),
    /// Not a string and not null.
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for AnyText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyTextVisitor;
        impl<'de> Visitor<'de> for AnyTextVisitor {
            type Value = AnyText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<AnyText<'de>, E> {
                Ok(AnyText::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<AnyText<'de>, E> {
                Ok(AnyText::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_bool<E>(self, _: bool) -> Result<AnyText<'de>, E> {
                Ok(AnyText::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<AnyText<'de>, E> {
                Ok(AnyText::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<AnyText<'de>, E> {
                Ok(AnyText::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<AnyText<'de>, E> {
                Ok(AnyText::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AnyText<'de>, A::Error> {
                IgnoredAny.visit_map(map).map(|_| AnyText::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<AnyText<'de>, A::Error> {
                IgnoredAny.visit_seq(list).map(|_| AnyText::Other)
            }
        }
        deserializer.deserialize_any(AnyTextVisitor)
    }
}

/// The two fields of an event whose value may be any JSON, as raw JSON.
#[derive(Deserialize)]
pub(super) struct RawWire<'a> {
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
}

/// The arguments of a tool call. Some agents write them as a string that contains a JSON object;
/// then the object is parsed from the string.
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
