//! Finds the spans in a document, or in JSON lines, wherever they are nested. A document that is cut
//! off gives the spans before the cut.

use std::borrow::Cow;
use std::fmt;

use midcourse::Timestamp;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::attributes::{Attributes, text_value};
use crate::session_file::{Found, parse_time};

/// If one of the first lines is an object, each line is read on its own.
const MAX_FIRST_LINES: usize = 20;

/// Fields in which spans are nested.
const NESTING: [&str; 10] = [
    "resourceSpans",
    "resource_spans",
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "spans",
    "child_spans",
    "children",
    "data",
    "traces",
];

/// Fields that are kept from an object that may be a span.
const KEPT: [&str; 28] = [
    "attributes",
    "context",
    "duration",
    "endTime",
    "endTimeUnixNano",
    "end_time",
    "end_time_unix_nano",
    "events",
    "name",
    "parentSpanId",
    "parent_id",
    "parent_span_id",
    "service_name",
    "spanId",
    "span_attributes",
    "span_id",
    "span_kind",
    "span_name",
    "startTime",
    "startTimeUnixNano",
    "start_time",
    "start_time_unix_nano",
    "status",
    "status_code",
    "status_message",
    "timestamp",
    "traceId",
    "trace_id",
];

/// A span with its fields as they are in the document.
pub(super) struct RawSpan<'d> {
    fields: Vec<(Cow<'d, str>, &'d RawValue)>,
}

/// A span, parsed.
pub(super) struct ReadSpan {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    pub(super) parent_id: Option<String>,
    pub(super) name: String,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<ReadEvent>,
    pub(super) status: ReadStatus,
    pub(super) service: Option<String>,
}

pub(super) struct ReadEvent {
    pub(super) name: String,
    pub(super) attributes: Attributes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadStatus {
    /// The span does not say whether it failed.
    Unset,
    Ok,
    Error(String),
}

/// The spans in a text, at most `max`. Counts what could not be read.
pub(super) fn collect<'d>(text: &'d str, max: usize, found: &mut Found) -> Vec<RawSpan<'d>> {
    let mut spans = Vec::new();
    let mut read = |text: &'d str, kind| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let node = Node { spans: &mut spans, max };
        let read = node.deserialize(&mut deserializer).and_then(|()| deserializer.end());
        if let Err(error) = read {
            found.invalid(kind, error);
        }
    };
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    if lines().take(MAX_FIRST_LINES).any(is_object) {
        lines().for_each(|line| read(line, "(invalid line)"));
    } else {
        read(text, "(invalid document)");
    }
    if spans.len() >= max {
        found.invalid("(further spans)", format!("used only the first {max} spans"));
    }
    spans
}

/// Whether a line is an object of its own, and not a part of a document with several lines.
fn is_object(line: &str) -> bool {
    line.trim_start().starts_with("{\"") && serde_json::from_str::<IgnoredAny>(line).is_ok()
}

/// An object that is a span or has spans, or a list of these.
struct Node<'s, 'd> {
    spans: &'s mut Vec<RawSpan<'d>>,
    max: usize,
}

impl<'d> DeserializeSeed<'d> for Node<'_, 'd> {
    type Value = ();

    fn deserialize<D: Deserializer<'d>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'d> Visitor<'d> for Node<'_, 'd> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("spans")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Node { spans: &mut *self.spans, max: self.max })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Vec::new();
        let place = self.spans.len();
        let read = read_fields(&mut map, &mut fields, self.spans, self.max);
        let span = RawSpan { fields };
        if self.spans.len() < self.max && span.id().is_some() {
            // Before the spans that are nested in it.
            self.spans.insert(place, span);
        }
        read
    }
}

fn read_fields<'d, A: MapAccess<'d>>(
    map: &mut A,
    fields: &mut Vec<(Cow<'d, str>, &'d RawValue)>,
    spans: &mut Vec<RawSpan<'d>>,
    max: usize,
) -> Result<(), A::Error> {
    while let Some(key) = map.next_key::<Cow<'d, str>>()? {
        if NESTING.contains(&&*key) {
            map.next_value_seed(Node { spans: &mut *spans, max })?;
        } else if KEPT.contains(&&*key) || key.starts_with("attributes.") {
            fields.push((key, map.next_value()?));
        } else {
            map.next_value::<IgnoredAny>()?;
        }
    }
    Ok(())
}

impl RawSpan<'_> {
    fn raw(&self, names: &[&str]) -> Option<&RawValue> {
        let named = |name: &&str| self.fields.iter().find(|(key, _)| key == name);
        names.iter().find_map(|name| named(name).map(|(_, value)| *value))
    }

    fn value(&self, names: &[&str]) -> Option<Value> {
        let value: Value = serde_json::from_str(self.raw(names)?.get()).ok()?;
        Some(value).filter(|value| !value.is_null())
    }

    /// An id, which is a field of the span or of its `context`.
    fn id_of(&self, names: &[&str]) -> Option<String> {
        let in_context = || {
            let context = self.value(&["context"])?;
            names.iter().find_map(|name| context.get(name).cloned())
        };
        let id = text_value(&self.value(names).or_else(in_context)?);
        let id = id.strip_prefix("0x").unwrap_or(&id).to_owned();
        Some(id).filter(|id| !id.is_empty())
    }

    fn id(&self) -> Option<String> {
        self.id_of(&["span_id", "spanId"])
    }

    /// Whether the attributes or events contain this text.
    pub(super) fn mentions(&self, text: &str) -> bool {
        let finder = memchr::memmem::Finder::new(text);
        self.fields.iter().any(|(_, value)| finder.find(value.get().as_bytes()).is_some())
    }

    /// What a span of midcourse describes: the first word of its name.
    pub(super) fn operation(&self) -> String {
        let name = self.value(&["name"]).map(|name| text_value(&name)).unwrap_or_default();
        name.split(' ').next().unwrap_or_default().to_owned()
    }

    /// Parses the span; `None` if it has no id. `default_time` is for spans without times.
    pub(super) fn parse(&self, default_time: Timestamp) -> Option<ReadSpan> {
        let span_id = self.id()?;
        let text = |names: &[&str]| self.value(names).map(|value| text_value(&value));
        let time = |names: &[&str]| self.value(names).and_then(|value| time_of(&value));
        let start = time(&[
            "startTimeUnixNano",
            "start_time_unix_nano",
            "start_time",
            "startTime",
            "timestamp",
        ]);
        let end = time(&["endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime"]);
        let duration = || self.value(&["duration"]).and_then(|value| duration_ms(&value));
        let start = start.or(end).unwrap_or(default_time);
        let later = || start.unix_ms().saturating_add(duration().unwrap_or_default());
        let end = end.unwrap_or_else(|| Timestamp::from_unix_ms(later())).max(start);
        let mut attributes = Attributes::default();
        for (key, value) in &self.fields {
            let key = match key.strip_prefix("attributes.") {
                Some(key) => key,
                None if *key == "attributes" || *key == "span_attributes" => "",
                None => continue,
            };
            attributes.add(key, serde_json::from_str(value.get()).unwrap_or_default());
        }
        if let Some(kind) = text(&["span_kind"]) {
            attributes.add_missing("span_kind", kind);
        }
        let parent = self.id_of_field(&["parent_span_id", "parentSpanId", "parent_id"]);
        Some(ReadSpan {
            trace_id: self.id_of(&["trace_id", "traceId"]).unwrap_or_else(|| span_id.clone()),
            parent_id: parent.filter(|parent| *parent != span_id),
            name: text(&["name", "span_name"]).unwrap_or_default(),
            start,
            end,
            attributes,
            events: self.events(),
            status: self.status(),
            service: text(&["service_name"]).filter(|name| !name.is_empty()),
            span_id,
        })
    }

    fn id_of_field(&self, names: &[&str]) -> Option<String> {
        let id = text_value(&self.value(names)?);
        Some(id.strip_prefix("0x").unwrap_or(&id).to_owned()).filter(|id| !id.is_empty())
    }

    fn events(&self) -> Vec<ReadEvent> {
        let Some(Value::Array(events)) = self.value(&["events"]) else { return Vec::new() };
        let field = |event: &mut Value, names: [&str; 2]| {
            names.iter().find_map(|name| event.get_mut(name).map(Value::take)).unwrap_or_default()
        };
        let event = |mut event: Value| {
            let name = text_value(&field(&mut event, ["name", "Name"]));
            let mut attributes = Attributes::default();
            attributes.add("", field(&mut event, ["attributes", "Attributes"]));
            ReadEvent { name, attributes }
        };
        events.into_iter().map(event).collect()
    }

    fn status(&self) -> ReadStatus {
        let status = self.value(&["status"]).unwrap_or_default();
        let field = |names: &[&str]| names.iter().find_map(|name| status.get(name));
        let code =
            field(&["code", "status_code"]).cloned().or_else(|| self.value(&["status_code"]));
        let code = code.map_or_else(|| text_value(&status), |code| text_value(&code));
        let code = code.to_ascii_uppercase();
        let message = field(&["message", "description"]).map(text_value);
        let message =
            message.or_else(|| self.value(&["status_message"]).map(|value| text_value(&value)));
        match code.strip_prefix("STATUS_CODE_").unwrap_or(&code) {
            "2" | "ERROR" => ReadStatus::Error(message.unwrap_or_default()),
            "1" | "OK" => ReadStatus::Ok,
            _ => ReadStatus::Unset,
        }
    }
}

/// A time: a date, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970.
fn time_of(value: &Value) -> Option<Timestamp> {
    let number = match value {
        Value::String(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => return parse_time(text),
        },
        Value::Number(number) => match number.as_u64() {
            Some(number) => number,
            // Seconds with a fraction.
            None => jiff::SignedDuration::try_from_secs_f64(number.as_f64()?)
                .ok()
                .and_then(|seconds| u64::try_from(seconds.as_nanos()).ok())?,
        },
        _ => return None,
    };
    Some(Timestamp::from_unix_ms(match number {
        0..100_000_000_000 => number.saturating_mul(1_000),
        100_000_000_000..100_000_000_000_000 => number,
        100_000_000_000_000..100_000_000_000_000_000 => number / 1_000,
        _ => number / 1_000_000,
    }))
}

/// A duration in the form of ISO 8601, in milliseconds.
fn duration_ms(value: &Value) -> Option<u64> {
    let duration: jiff::SignedDuration = value.as_str()?.parse().ok()?;
    u64::try_from(duration.as_millis()).ok()
}
