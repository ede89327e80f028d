//! OpenAI's Chat Completions API, and servers compatible with it.
//!
//! A tool result is a message of its own. Guidance (a message to the agent that goes into one
//! request only) is appended to the text of the last message, which may be a user message or a tool
//! result. It is not added as a new message: some servers reject two messages with the same role in
//! a row, others reject a user message after a tool message, but all accept a longer text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::insertion::InsertionPoint;
use super::reply::{Reply, ReplyBuilder};
use super::request::{Item, Request, Role, present, text_of};
use super::sse;
use midcourse::{AssistantBlock, StopReason, TextContent, ToolCallBlock, Usage};

#[derive(Deserialize)]
struct RequestWire<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Vec<MessageWire<'a>>,
    #[serde(borrow)]
    tools: Option<Vec<ToolWire<'a>>>,
    response_format: Option<FormatWire>,
}

#[derive(Deserialize)]
struct FormatWire {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct ToolWire<'a> {
    #[serde(borrow)]
    function: Option<NameWire<'a>>,
    #[serde(borrow)]
    custom: Option<NameWire<'a>>,
}

#[derive(Deserialize)]
struct NameWire<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct MessageWire<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallWire<'a>>>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallWire<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionWire<'a>>,
    #[serde(borrow)]
    custom: Option<CustomWire<'a>>,
}

#[derive(Deserialize)]
struct CustomWire<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionWire<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PartWire<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

pub(super) fn parse_request(body: &str) -> Option<Request<'_>> {
    let RequestWire { model, messages, tools, response_format } =
        serde_json::from_str(body).ok()?;
    let insertion_point = insertion_point(body, messages.last()?);
    let message_count = messages.len();
    let (mut items, mut system, mut tail_start) = (Vec::new(), Vec::new(), 0);
    for message in messages {
        let MessageWire { role, content, tool_calls, tool_call_id } = message;
        let role = match role.as_ref() {
            "assistant" => Role::Assistant,
            "system" | "developer" => Role::System,
            "tool" => {
                let Some(raw_id) = tool_call_id else { continue };
                let insertion_point = match content {
                    Some(content) => InsertionPoint::at_end_of_content(body, content.get()),
                    None => InsertionPoint::after_field(body, raw_id.get()),
                };
                let id = text_of(raw_id);
                items.push(Item::ToolResult { id, content, is_error: None, insertion_point });
                continue;
            }
            _ => Role::User,
        };
        let texts = content.map_or_else(|| Some(Vec::new()), texts)?;
        if role == Role::System && items.is_empty() {
            system.extend(texts);
            continue;
        }
        items.extend(texts.into_iter().map(|text| Item::Message { role, text }));
        for CallWire { id, function, custom } in tool_calls.into_iter().flatten() {
            let function = function.map(|function| (function.name, function.arguments));
            let call = function.or_else(|| custom.map(|custom| (custom.name, custom.input)));
            let (Some(id), Some((tool, args))) = (id, call) else { continue };
            items.push(Item::ToolCall { id, tool: tool.unwrap_or_default(), args });
        }
        if role == Role::Assistant {
            tail_start = items.len();
        }
    }
    let name = |tool: ToolWire<'_>| Some(tool.function.or(tool.custom)?.name?.into_owned());
    let format = response_format.and_then(|format| format.kind);
    Some(Request {
        body,
        model: model.map(Cow::into_owned),
        session: None,
        previous_response: None,
        is_kept_by_server: false,
        system,
        tools: tools.into_iter().flatten().filter_map(name).collect(),
        has_response_format: format.is_some_and(|kind| kind != "text"),
        message_count,
        items,
        tail_start,
        insertion_point,
    })
}

/// Where to insert guidance into this request. `None` if the last message has no content, or if its
/// role is `assistant`: the model would continue that message, so nothing may come after it.
fn insertion_point(body: &str, last: &MessageWire<'_>) -> Option<InsertionPoint> {
    match (last.role.as_ref(), last.content) {
        ("assistant", _) => None,
        (_, Some(content)) => InsertionPoint::at_end_of_content(body, content.get()),
        _ => None,
    }
}

fn texts(content: &RawValue) -> Option<Vec<&RawValue>> {
    if content.get().starts_with('"') {
        return Some(vec![content]);
    }
    if content.get() == "null" {
        return Some(Vec::new());
    }
    let parts: Vec<PartWire<'_>> = serde_json::from_str(content.get()).ok()?;
    Some(parts.into_iter().filter_map(|part| part.text).collect())
}

#[derive(Deserialize)]
struct ResponseWire {
    choices: Vec<ChoiceWire>,
    usage: Option<UsageWire>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChoiceWire {
    #[serde(default)]
    index: usize,
    message: Option<OutputWire>,
    delta: Option<OutputWire>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct OutputWire {
    content: Option<Value>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<OutputCallWire>>,
}

#[derive(Deserialize)]
struct OutputCallWire {
    index: Option<usize>,
    id: Option<String>,
    function: Option<OutputFunctionWire>,
    custom: Option<OutputFunctionWire>,
}

#[derive(Deserialize)]
struct OutputFunctionWire {
    name: Option<String>,
    arguments: Option<Value>,
    input: Option<Value>,
}

#[derive(Deserialize)]
struct UsageWire {
    prompt_tokens: Option<i64>,
    completion_tokens: Option<i64>,
    prompt_tokens_details: Option<DetailsWire>,
}

#[derive(Deserialize)]
struct DetailsWire {
    cached_tokens: Option<i64>,
}

impl From<UsageWire> for Usage {
    fn from(wire: UsageWire) -> Self {
        let cached = wire.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let cached = cached.unwrap_or(0);
        Self {
            input_tokens: wire.prompt_tokens.unwrap_or(0).saturating_sub(cached),
            output_tokens: wire.completion_tokens.unwrap_or(0),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            is_estimate: false,
        }
    }
}

/// The first of the alternative completions (`choices`) in a response. If the response is streamed,
/// it is completed delta by delta.
#[derive(Default)]
struct Choice {
    text: String,
    reasoning: String,
    calls: Vec<PartialCall>,
    finish_reason: Option<String>,
}

#[derive(Default)]
struct PartialCall {
    index: Option<usize>,
    id: String,
    name: String,
    /// The JSON of the call's arguments, as far as it was received.
    arguments: String,
}

impl Choice {
    fn add(&mut self, wire: ChoiceWire) {
        self.finish_reason = wire.finish_reason.or(self.finish_reason.take());
        let Some(output) = wire.message.or(wire.delta) else { return };
        let OutputWire { content, refusal, reasoning_content, reasoning, tool_calls } = output;
        for text in [content.as_ref().and_then(Value::as_str), refusal.as_deref()] {
            self.text.push_str(text.unwrap_or_default());
        }
        // Some servers send the same reasoning in both fields, so only one is used.
        let reasoning = reasoning_content.or(reasoning);
        self.reasoning.push_str(reasoning.as_deref().unwrap_or_default());
        for OutputCallWire { index, id, function, custom } in tool_calls.into_iter().flatten() {
            let known = self.calls.iter().position(|call| index.is_some() && call.index == index);
            let position = known.unwrap_or_else(|| {
                self.calls.push(PartialCall { index, ..PartialCall::default() });
                self.calls.len().saturating_sub(1)
            });
            let (Some(call), Some(delta)) = (self.calls.get_mut(position), function.or(custom))
            else {
                continue;
            };
            // Some servers repeat the id and the name in every delta; keep the first.
            if call.id.is_empty() {
                call.id = id.unwrap_or_default();
            }
            if call.name.is_empty() {
                call.name = delta.name.unwrap_or_default();
            }
            match delta.arguments.or(delta.input) {
                Some(Value::String(piece)) => call.arguments.push_str(&piece),
                Some(Value::Null) | None => {}
                Some(other) => call.arguments.push_str(&other.to_string()),
            }
        }
    }

    fn build(self, mut reply: ReplyBuilder) -> Reply {
        reply.stop_reason = self.finish_reason.as_deref().map(stop_reason_of);
        reply.push(AssistantBlock::Reasoning(TextContent { text: self.reasoning }));
        reply.push(AssistantBlock::Text(TextContent { text: self.text }));
        for PartialCall { id, name, arguments, .. } in self.calls {
            let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
            let (id, name) = (id.into(), name.into());
            reply.push(AssistantBlock::ToolCall(ToolCallBlock { id, name, arguments }));
        }
        reply.build()
    }
}

fn stop_reason_of(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        _ => StopReason::Other,
    }
}

pub(super) fn parse_response(body: &[u8]) -> Option<Reply> {
    let ResponseWire { choices, usage, error } = serde_json::from_slice(body).ok()?;
    let mut choice = Choice::default();
    choices.into_iter().take(1).for_each(|wire| choice.add(wire));
    let error = error.filter(|error| !error.is_null()).map(|error| error.to_string());
    let reply = ReplyBuilder { usage: usage.map(Usage::from), error, ..ReplyBuilder::default() };
    Some(choice.build(reply))
}

#[derive(Deserialize)]
struct ChunkWire {
    #[serde(default)]
    choices: Vec<ChoiceWire>,
    usage: Option<UsageWire>,
    error: Option<Value>,
}

/// Parses a response that was sent as an event stream. If the stream was cut off, the part that
/// arrived is parsed.
pub(super) fn parse_stream(body: &[u8]) -> Option<Reply> {
    let mut reply = ReplyBuilder { is_streamed: true, ..ReplyBuilder::default() };
    let (mut choice, mut has_started) = (Choice::default(), false);
    for data in sse::data(body) {
        if data == "[DONE]" {
            reply.is_finished = true;
            continue;
        }
        let Ok(ChunkWire { choices, usage, error }) = serde_json::from_str(&data) else { continue };
        has_started = true;
        reply.usage = usage.map(Usage::from).or(reply.usage);
        let error = error.filter(|error| !error.is_null()).map(|error| error.to_string());
        reply.error = reply.error.or(error);
        choices.into_iter().filter(|wire| wire.index == 0).for_each(|wire| choice.add(wire));
    }
    has_started.then_some(())?;
    // Not every server ends its stream with `[DONE]`, so a stream with a finish reason also counts
    // as complete.
    reply.is_finished |= choice.finish_reason.is_some();
    Some(choice.build(reply))
}
