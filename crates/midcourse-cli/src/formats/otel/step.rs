//! The spans of single steps: a tool call, and a model request with its response.

use serde_json::Value;

use super::content::{finish_reason, genai_message, plain_text};
use super::ids::SpanId;
use super::names;
use super::packed::{Place, pack};
use super::record::{ends_call, kind, message, nanos, role, text};
use super::span::{Attributes, Span, SpanEvent, SpanKind, Status};

/// The longest description of a failure in the status of a span, in characters.
const MAX_STATUS_CHARS: usize = 200;

/// What the spans of a run have in common.
pub(super) struct Frame<'a> {
    pub(super) run_id: &'a str,
    pub(super) trace_id: [u8; 16],
    pub(super) agent: SpanId,
    /// The time of the latest record, in nanoseconds.
    pub(super) latest: u64,
    pub(super) model: Option<&'a str>,
}

/// A tool call, with the records in its span.
pub(super) struct Call {
    pub(super) key: String,
    pub(super) span_id: SpanId,
    pub(super) first_seq: u64,
    pub(super) records: Vec<Value>,
    pub(super) events: Vec<SpanEvent>,
}

impl Frame<'_> {
    /// A span with the times of these records.
    fn span<'r>(
        &self,
        span_id: SpanId,
        name: String,
        records: impl Iterator<Item = &'r Value> + Clone,
    ) -> Span {
        let mut span = Span {
            trace_id: self.trace_id,
            span_id,
            parent_span_id: Some(self.agent),
            name,
            start: records.clone().map(nanos).min().unwrap_or_default(),
            end: records.map(nanos).max().unwrap_or_default(),
            ..Span::default()
        };
        span.attributes.set(names::RUN_ID, self.run_id);
        span
    }

    pub(super) fn call_span(&self, call: Call) -> Span {
        let is_own = |record: &&Value| kind(record) == "tool_started" || ends_call(kind(record));
        let own = call.records.iter().filter(is_own);
        let field = |name| own.clone().find_map(|record| text(record, name));
        let tool = field("tool_name").unwrap_or_default();
        let mut span = self.span(call.span_id, format!("execute_tool {tool}"), own.clone());
        let attributes = &mut span.attributes;
        attributes.set(names::OPERATION, "execute_tool");
        attributes.set(names::TOOL_NAME, tool);
        attributes.set(names::TOOL_TYPE, "function");
        attributes.set_some(names::TOOL_CALL_ID, field("tool_call_id"));
        if !own.clone().any(|record| ends_call(kind(record))) {
            attributes.set("midcourse.unfinished", true);
            span.end = span.end.max(self.latest);
        }
        let mut places = Vec::new();
        for record in &call.records {
            places.push(match kind(record) {
                "tool_started" => record.pointer("/payload/args").map(|arguments| {
                    attributes.set_json(names::TOOL_ARGUMENTS, arguments);
                    Place::Arguments
                }),
                "tool_ended" => Some(set_result(attributes, &mut span.status, record)),
                "denied" => {
                    let reason = text(record, "reason");
                    attributes.set(names::ERROR_TYPE, "denied");
                    attributes.set_some("midcourse.denied.reason", reason);
                    let reason = reason.unwrap_or("no reason was given");
                    span.status = Status::Error(first_line(&format!("denied: {reason}")));
                    None
                }
                _ => None,
            });
        }
        pack(attributes, call.records.into_iter().zip(places).collect());
        span.events = call.events;
        span
    }

    /// A model request and its response, from the records since the last span. If no response is
    /// recorded, the request is known by the messages in it.
    pub(super) fn chat_span(&self, span_id: SpanId, records: Vec<Value>, end: u64) -> Span {
        let name = self.model.map_or("chat".to_owned(), |model| format!("chat {model}"));
        let mut span = self.span(span_id, name, records.iter());
        span.end = span.end.max(end);
        span.kind = SpanKind::Client;
        let attributes = &mut span.attributes;
        attributes.set(names::OPERATION, "chat");
        set_model(attributes, self.model);
        let (mut input, mut output, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for record in &records {
            set_usage(attributes, record);
            // A turn that ended repeats its messages; they are shown once.
            let of_turn = record.pointer("/payload/assistant");
            let of_turn =
                of_turn.filter(|_| !records.iter().any(|it| role(it) == Some("assistant")));
            let shown = message(record).or(of_turn);
            let is_output = of_turn.is_some() || role(record) == Some("assistant");
            if let Some(message) = shown.filter(|_| is_output) {
                set_response(attributes, &mut span.status, message);
            }
            let messages = if is_output { &mut output } else { &mut input };
            let place = if is_output { Place::Output } else { Place::Input }(messages.len());
            let genai = shown.and_then(genai_message);
            places.push(Some(place).filter(|_| genai.is_some() && of_turn.is_none()));
            messages.extend(genai);
        }
        for (name, messages) in [(names::INPUT_MESSAGES, input), (names::OUTPUT_MESSAGES, output)] {
            if !messages.is_empty() {
                attributes.set_json(name, &Value::Array(messages));
            }
        }
        pack(attributes, records.into_iter().zip(places).collect());
        span
    }
}

/// Sets the result of a call. Returns its place.
fn set_result(attributes: &mut Attributes, status: &mut Status, record: &Value) -> Place {
    let content = record.pointer("/payload/result/content").and_then(Value::as_array);
    let blocks = content.map_or(&[][..], Vec::as_slice);
    let plain = plain_text(blocks);
    let flag = record.get("failed").or_else(|| record.pointer("/payload/is_error"));
    match flag.and_then(Value::as_bool) {
        Some(true) => {
            attributes.set(names::ERROR_TYPE, "tool_error");
            *status = Status::Error(first_line(&plain));
        }
        Some(false) => *status = Status::Ok,
        None => {}
    }
    match blocks {
        [only] if only.get("text").is_some() => {
            attributes.set(names::TOOL_RESULT, plain);
            Place::ResultText
        }
        blocks => {
            attributes.set_json(names::TOOL_RESULT, &Value::Array(blocks.to_vec()));
            Place::ResultBlocks
        }
    }
}

fn set_response(attributes: &mut Attributes, status: &mut Status, message: &Value) {
    let field = |name: &str| message.get(name).and_then(Value::as_str);
    let reason = field("stop_reason").map(|reason| vec![finish_reason(reason).to_owned()]);
    attributes.set_some(names::FINISH_REASONS, reason);
    if let Some(error) = field("error_message") {
        attributes.set(names::ERROR_TYPE, "model_error");
        *status = Status::Error(first_line(error));
    }
}

fn set_usage(attributes: &mut Attributes, record: &Value) {
    let usage = record.pointer("/payload/message/usage");
    let Some(usage) = usage.or_else(|| record.pointer("/payload/usage")) else { return };
    for (name, field) in [
        (names::INPUT_TOKENS, "input_tokens"),
        (names::OUTPUT_TOKENS, "output_tokens"),
        (names::CACHE_READ_TOKENS, "cache_read_input_tokens"),
        (names::CACHE_CREATION_TOKENS, "cache_creation_input_tokens"),
    ] {
        attributes.set_some(name, usage.get(field).and_then(Value::as_i64));
    }
}

/// Sets the model, and the company whose model it is, if the name of the model says it.
pub(super) fn set_model(attributes: &mut Attributes, model: Option<&str>) {
    let Some(model) = model else { return };
    attributes.set(names::REQUEST_MODEL, model);
    let known = [("claude", "anthropic"), ("gpt", "openai"), ("gemini", "gcp.gemini")];
    let provider = known.into_iter().find(|(name, _)| model.contains(name));
    attributes.set_some(names::PROVIDER, provider.map(|(_, provider)| provider));
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(MAX_STATUS_CHARS).collect()
}
