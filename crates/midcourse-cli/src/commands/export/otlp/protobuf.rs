//! OTLP in protobuf: the request with spans that an endpoint receives, and its response.
//!
//! The messages have only the fields that midcourse uses; their numbers are those of
//! `opentelemetry/proto/trace/v1/trace.proto` and `collector/trace/v1/trace_service.proto`.

use prost::Message as _;

use crate::formats::otel::{Attribute, Attributes, SERVICE_NAME, Span};

#[derive(prost::Message)]
struct RequestWire {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpansWire>,
}

#[derive(prost::Message)]
struct ResourceSpansWire {
    #[prost(message, optional, tag = "1")]
    resource: Option<ResourceWire>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpansWire>,
}

#[derive(prost::Message)]
struct ResourceWire {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValueWire>,
}

#[derive(prost::Message)]
struct ScopeSpansWire {
    #[prost(message, optional, tag = "1")]
    scope: Option<ScopeWire>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanWire>,
}

#[derive(prost::Message)]
struct ScopeWire {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(prost::Message)]
struct SpanWire {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValueWire>,
    #[prost(message, repeated, tag = "11")]
    events: Vec<EventWire>,
    #[prost(message, optional, tag = "15")]
    status: Option<StatusWire>,
}

#[derive(prost::Message)]
struct EventWire {
    #[prost(fixed64, tag = "1")]
    at: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    attributes: Vec<KeyValueWire>,
}

#[derive(prost::Message)]
struct StatusWire {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(prost::Message)]
struct KeyValueWire {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValueWire>,
}

#[derive(prost::Message)]
struct AnyValueWire {
    #[prost(oneof = "AnyWire", tags = "1, 2, 3, 5")]
    value: Option<AnyWire>,
}

#[derive(prost::Oneof)]
enum AnyWire {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(message, tag = "5")]
    Array(ArrayWire),
}

#[derive(prost::Message)]
struct ArrayWire {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValueWire>,
}

#[derive(prost::Message)]
struct ResponseWire {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccessWire>,
}

#[derive(prost::Message)]
struct PartialSuccessWire {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// What the endpoint says about a request that it accepted as a whole or in part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// How many spans of the request the endpoint refused.
    pub(crate) rejected: i64,
    /// Why, or a warning; often empty.
    pub(crate) message: String,
}

/// The body of a request with these spans.
pub(crate) fn request(spans: &[Span]) -> Vec<u8> {
    let name_and_version = || (SERVICE_NAME.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let (name, version) = name_and_version();
    let resource = ResourceWire {
        attributes: vec![
            key_value("service.name", AnyWire::Text(name)),
            key_value("service.version", AnyWire::Text(version)),
        ],
    };
    let (name, version) = name_and_version();
    let spans = ScopeSpansWire {
        scope: Some(ScopeWire { name, version }),
        spans: spans.iter().map(span_wire).collect(),
    };
    let spans = ResourceSpansWire { resource: Some(resource), scope_spans: vec![spans] };
    RequestWire { resource_spans: vec![spans] }.encode_to_vec()
}

/// Reads the response to a request. A response that cannot be read counts as one without remarks,
/// because its status said that the spans were accepted.
pub(crate) fn response(body: &[u8]) -> Accepted {
    let response = ResponseWire::decode(body).unwrap_or_default();
    response.partial_success.map_or_else(Accepted::default, |part| Accepted {
        rejected: part.rejected_spans,
        message: part.error_message,
    })
}

fn span_wire(span: &Span) -> SpanWire {
    let events = span.events.iter().map(|event| EventWire {
        at: event.at,
        name: event.name.clone(),
        attributes: attributes_wire(&event.attributes),
    });
    SpanWire {
        trace_id: span.trace_id.to_vec(),
        span_id: span.span_id.to_vec(),
        parent_span_id: span.parent_span_id.map(Vec::from).unwrap_or_default(),
        name: span.name.clone(),
        kind: span.kind as i32,
        start: span.start,
        end: span.end,
        attributes: attributes_wire(&span.attributes),
        events: events.collect(),
        status: Some(StatusWire {
            message: span.status.message().to_owned(),
            code: span.status.code(),
        }),
    }
}

fn attributes_wire(attributes: &Attributes) -> Vec<KeyValueWire> {
    let attributes = attributes.iter();
    attributes.map(|(name, value)| key_value(name, any_wire(value))).collect()
}

fn key_value(key: &str, value: AnyWire) -> KeyValueWire {
    KeyValueWire { key: key.to_owned(), value: Some(AnyValueWire { value: Some(value) }) }
}

fn any_wire(attribute: &Attribute) -> AnyWire {
    let array = |values: Vec<AnyWire>| {
        let values = values.into_iter().map(|value| AnyValueWire { value: Some(value) });
        AnyWire::Array(ArrayWire { values: values.collect() })
    };
    match attribute {
        Attribute::Text(text) => AnyWire::Text(text.clone()),
        Attribute::Flag(flag) => AnyWire::Flag(*flag),
        Attribute::Number(number) => AnyWire::Number(*number),
        Attribute::Numbers(numbers) => {
            array(numbers.iter().map(|it| AnyWire::Number(*it)).collect())
        }
        Attribute::Texts(texts) => {
            array(texts.iter().map(|text| AnyWire::Text(text.clone())).collect())
        }
    }
}
