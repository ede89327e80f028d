//! OTLP in JSON: one request object per line, as a collector's file exporter writes it too.
//!
//! Ids are hexadecimal and times are texts, as the protocol wants them.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::span::{Attribute, Attributes, Span};

/// The request object for these spans, on one line.
pub(crate) fn request_line(spans: &[Span]) -> String {
    let spans: Vec<Value> = spans.iter().map(span_json).collect();
    let resource = json!([
        {"key": "service.name", "value": {"stringValue": super::SERVICE_NAME}},
        {"key": "service.version", "value": {"stringValue": env!("CARGO_PKG_VERSION")}},
    ]);
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{
            "scope": {"name": super::SERVICE_NAME, "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
    .to_string()
}

fn span_json(span: &Span) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("traceId", hex(&span.trace_id).into());
    set("spanId", hex(&span.span_id).into());
    if let Some(parent) = &span.parent_span_id {
        set("parentSpanId", hex(parent).into());
    }
    set("name", span.name.as_str().into());
    set("kind", (span.kind as i32).into());
    set("startTimeUnixNano", span.start.to_string().into());
    set("endTimeUnixNano", span.end.to_string().into());
    set("attributes", attributes_json(&span.attributes));
    if !span.events.is_empty() {
        let events = span.events.iter().map(|event| {
            json!({
                "timeUnixNano": event.at.to_string(),
                "name": event.name,
                "attributes": attributes_json(&event.attributes),
            })
        });
        set("events", events.collect());
    }
    if span.status.code() != 0 {
        set("status", json!({"code": span.status.code(), "message": span.status.message()}));
    }
    Value::Object(fields)
}

fn attributes_json(attributes: &Attributes) -> Value {
    let attributes = attributes.iter();
    attributes.map(|(name, value)| json!({"key": name, "value": attribute_json(value)})).collect()
}

fn attribute_json(attribute: &Attribute) -> Value {
    let text = |text: &String| json!({"stringValue": text});
    let number = |number: &i64| json!({"intValue": number.to_string()});
    match attribute {
        Attribute::Text(value) => text(value),
        Attribute::Flag(flag) => json!({"boolValue": flag}),
        Attribute::Number(value) => number(value),
        Attribute::Numbers(values) => {
            json!({"arrayValue": {"values": values.iter().map(number).collect::<Value>()}})
        }
        Attribute::Texts(values) => {
            json!({"arrayValue": {"values": values.iter().map(text).collect::<Value>()}})
        }
    }
}

/// Bytes in hexadecimal, as OTLP writes ids in JSON.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
