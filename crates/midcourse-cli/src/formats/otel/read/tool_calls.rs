//! The tool calls of a run. A call can be in several spans: the model call that asks for it, the span
//! of the tool, and the next model call, which has its result.

use std::collections::{HashMap, VecDeque};

use midcourse::Timestamp;
use serde_json::{Value, json};

use super::attributes::{json_value, text_value};
use super::collect::{ReadSpan, ReadStatus};
use super::messages::{CallRequest, Message};

/// The tool name that smolagents gives to the code that its model writes.
const CODE_TOOL: &str = "python_interpreter";

const ARGUMENTS: [&str; 5] = [
    "gen_ai.tool.call.arguments",
    "input.value",
    "mlflow.spanInputs",
    "traceloop.entity.input",
    "tool.parameters",
];
const RESULT: [&str; 4] =
    ["gen_ai.tool.call.result", "output.value", "mlflow.spanOutputs", "traceloop.entity.output"];

/// A tool call.
#[derive(Debug, Clone)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) start: Timestamp,
    /// When it ended, and its result; `None` if no span has it.
    pub(super) end: Option<(Timestamp, CallEnd)>,
}

#[derive(Debug, Clone)]
pub(super) enum CallEnd {
    Result { text: String, is_error: Option<bool> },
    Denied { reason: Option<String> },
}

/// Collects the calls of a run. Spans are given in the order in which they began.
#[derive(Default)]
pub(super) struct ToolCalls {
    calls: Vec<ToolCall>,
    by_id: HashMap<String, usize>,
    /// Calls that a model asked for and that have no span yet, by the name of the tool.
    requested: HashMap<String, VecDeque<usize>>,
}

impl ToolCalls {
    /// The model asks for a call.
    pub(super) fn request(&mut self, call: CallRequest, span_id: &str, at: Timestamp) -> String {
        let number = self.calls.len();
        let id = match call.id {
            id if id.is_empty() || self.by_id.contains_key(&id) => format!("{span_id}-{number}"),
            id => id,
        };
        self.requested.entry(call.name.clone()).or_default().push_back(number);
        self.push(ToolCall {
            id: id.clone(),
            name: call.name,
            arguments: call.arguments,
            start: at,
            end: None,
        });
        id
    }

    /// A span of a tool.
    pub(super) fn add_tool_span(&mut self, span: &ReadSpan) {
        let attributes = &span.attributes;
        let name = attributes.text(&["gen_ai.tool.name", "tool.name", "traceloop.entity.name"]);
        let name =
            name.unwrap_or_else(|| span.name.strip_prefix("execute_tool ").unwrap_or(&span.name));
        let id = attributes.text(&["gen_ai.tool.call.id", "tool_call.id", "tool.id"]);
        let requested = match id {
            Some(id) => self.by_id.get(id).copied(),
            None => self.requested.get_mut(name).and_then(VecDeque::pop_front),
        };
        let requested = requested.and_then(|at| self.calls.get_mut(at));
        let arguments = attributes.value(&ARGUMENTS).map(json_value);
        let end = Some((span.end, end_of(span)));
        match requested.filter(|call| call.end.is_none()) {
            Some(call) => {
                call.start = call.start.max(span.start);
                call.end = end;
                if let Some(arguments) = arguments {
                    call.arguments = arguments;
                }
            }
            None => {
                let id = id.filter(|id| !self.by_id.contains_key(*id)).unwrap_or(&span.span_id);
                self.push(ToolCall {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    arguments: arguments.unwrap_or(Value::Null),
                    start: span.start,
                    end,
                });
            }
        }
    }

    /// A later model request has the result of a call that has no span of its own.
    pub(super) fn add_result(&mut self, message: &Message, at: Timestamp) {
        let Some(id) = &message.result_of else { return };
        let call = self.by_id.get(id).and_then(|at| self.calls.get_mut(*at));
        if let Some(call) = call.filter(|call| call.end.is_none()) {
            call.end = Some((at, CallEnd::Result { text: message.text.clone(), is_error: None }));
        }
    }

    /// A step in which an agent ran the code that its model wrote.
    pub(super) fn add_code_step(&mut self, step: &ReadSpan, response: &Message, at: Timestamp) {
        let has_result = step.attributes.value(&RESULT).is_some();
        if !response.calls.is_empty() || (!has_result && step.status == ReadStatus::Unset) {
            return;
        }
        self.push(ToolCall {
            id: step.span_id.clone(),
            name: CODE_TOOL.to_owned(),
            arguments: json!({"code": code_in(&response.text)}),
            start: at.min(step.end),
            end: Some((step.end, end_of(step))),
        });
    }

    pub(super) fn into_calls(self) -> Vec<ToolCall> {
        self.calls
    }

    fn push(&mut self, call: ToolCall) {
        self.by_id.insert(call.id.clone(), self.calls.len());
        self.calls.push(call);
    }
}

/// Whether a span is a step of an agent whose actions are code, as smolagents names it.
pub(super) fn is_code_step(span: &ReadSpan) -> bool {
    span.name.strip_prefix("Step ").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// How a span of a call ended.
fn end_of(span: &ReadSpan) -> CallEnd {
    let attributes = &span.attributes;
    let text = attributes.value(&RESULT).map(text_value);
    let is_error = match &span.status {
        ReadStatus::Error(reason) if attributes.text(&["error.type"]) == Some("denied") => {
            let reason = reason.strip_prefix("denied: ").unwrap_or(reason);
            return CallEnd::Denied { reason: Some(reason.to_owned()).filter(|it| !it.is_empty()) };
        }
        ReadStatus::Error(_) => Some(true),
        ReadStatus::Ok => Some(false),
        ReadStatus::Unset => None,
    };
    let exception = || {
        let event = span.events.iter().find(|event| event.name == "exception")?;
        event.attributes.text(&["exception.message"]).map(ToOwned::to_owned)
    };
    let reason = || match &span.status {
        ReadStatus::Error(reason) if !reason.is_empty() => Some(reason.clone()),
        _ => None,
    };
    let text = match text {
        Some(text) => text,
        None => exception().or_else(reason).unwrap_or_default(),
    };
    CallEnd::Result { text, is_error }
}

/// The code in a response: what is between the first pair of fences, or the whole text.
fn code_in(text: &str) -> &str {
    let fenced = text.split_once("```").and_then(|(_, rest)| {
        let (_, code) = rest.split_once('\n')?;
        Some(code.split_once("```").map_or(code, |(code, _)| code))
    });
    fenced.unwrap_or(text)
}
