//! Spans as midcourse reads and writes them, independent of their encoding.
//!
//! `json` and `proto` encode them as OTLP; `write` makes them from records, and `read` makes
//! records from them.

use serde_json::Value;

/// A span: something that took time, with its attributes and events.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
    pub(crate) parent_span_id: Option<[u8; 8]>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    /// Nanoseconds since 1970.
    pub(crate) start: u64,
    /// Nanoseconds since 1970.
    pub(crate) end: u64,
    pub(crate) attributes: Attributes,
    pub(crate) events: Vec<SpanEvent>,
    pub(crate) status: Status,
}

/// Something that happened at one moment of a span.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SpanEvent {
    pub(crate) name: String,
    /// Nanoseconds since 1970.
    pub(crate) at: u64,
    pub(crate) attributes: Attributes,
}

/// Whether the span is a call to another service. The numbers are those of OTLP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SpanKind {
    #[default]
    Internal = 1,
    Client = 3,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Status {
    #[default]
    Unset,
    Ok,
    Error(String),
}

impl Status {
    /// The number of the status in OTLP.
    pub(crate) const fn code(&self) -> i32 {
        match self {
            Self::Unset => 0,
            Self::Ok => 1,
            Self::Error(_) => 2,
        }
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Error(message) => message,
            Self::Unset | Self::Ok => "",
        }
    }
}

/// Attributes in their order. A name occurs once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Attributes(Vec<(String, Attribute)>);

/// The value of an attribute, of the types that midcourse writes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    Text(String),
    Flag(bool),
    Number(i64),
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl Attributes {
    /// Sets an attribute.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Attribute>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets an attribute, if there is a value.
    pub(crate) fn set_some(&mut self, name: &str, value: Option<impl Into<Attribute>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets an attribute to the JSON of a value.
    pub(crate) fn set_json(&mut self, name: &str, value: &Value) {
        self.set(name, value.to_string());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The text of an attribute; `None` if there is none, or if it is no text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).and_then(|(_, value)| match value {
            Attribute::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Attribute {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<Vec<i64>> for Attribute {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Numbers(numbers)
    }
}

impl From<Vec<String>> for Attribute {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}
