//! OpenAI's Chat Completions API, and what others serve under its name.
//!
//! A tool's result is a message of its own. Words for one request go to the end of the last message,
//! whoever it is of: some servers refuse two messages of a role in a row, others a person's word
//! behind a tool's, and all take a text that is longer.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{Answer, Part, Parts};
use super::place::Place;
use super::request::{Item, Request, Role, present, text_of};
use super::sse;
use midcourse::{StopReason, Usage};

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

pub(super) fn request(body: &str) -> Option<Request<'_>> {
    let RequestWire { model, messages, tools, response_format } =
        serde_json::from_str(body).ok()?;
    let place = place(body, messages.last()?);
    let count = messages.len();
    let (mut items, mut system, mut current) = (Vec::new(), Vec::new(), 0);
    for message in messages {
        let MessageWire { role, content, tool_calls, tool_call_id } = message;
        let role = match role.as_ref() {
            "assistant" => Role::Assistant,
            "system" | "developer" => Role::System,
            "tool" => {
                let Some(raw_id) = tool_call_id else { continue };
                let place = match content {
                    Some(content) => Place::end_of(body, content.get()),
                    None => Place::behind(body, raw_id.get()),
                };
                let id = text_of(raw_id);
                items.push(Item::Returns { id, content, is_error: false, place });
                continue;
            }
            _ => Role::User,
        };
        let texts = content.map_or_else(|| Some(Vec::new()), texts)?;
        if role == Role::System && items.is_empty() {
            system.extend(texts);
            continue;
        }
        items.extend(texts.into_iter().map(|text| Item::Says { role, text }));
        for CallWire { id, function, custom } in tool_calls.into_iter().flatten() {
            let function = function.map(|function| (function.name, function.arguments));
            let called = function.or_else(|| custom.map(|custom| (custom.name, custom.input)));
            let (Some(id), Some((tool, args))) = (id, called) else { continue };
            items.push(Item::Calls { id, tool: tool.unwrap_or_default(), args });
        }
        if role == Role::Assistant {
            current = items.len();
        }
    }
    let name = |tool: ToolWire<'_>| Some(tool.function.or(tool.custom)?.name?.into_owned());
    let form = response_format.and_then(|format| format.kind);
    Some(Request {
        model: model.map(Cow::into_owned),
        session: None,
        system,
        tools: tools.into_iter().flatten().filter_map(name).collect(),
        has_form: form.is_some_and(|kind| kind != "text"),
        messages: count,
        items,
        current,
        place,
    })
}

/// Where words for this request fit in; nowhere, if the model's answer has begun already.
fn place(body: &str, last: &MessageWire<'_>) -> Option<Place> {
    match (last.role.as_ref(), last.content) {
        ("assistant", _) => None,
        (_, Some(content)) => Place::end_of(body, content.get()),
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
struct AnswerWire {
    choices: Vec<ChoiceWire>,
    usage: Option<UsageWire>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChoiceWire {
    #[serde(default)]
    index: usize,
    message: Option<SaidWire>,
    delta: Option<SaidWire>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct SaidWire {
    content: Option<Value>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<CalledWire>>,
}

#[derive(Deserialize)]
struct CalledWire {
    index: Option<usize>,
    id: Option<String>,
    function: Option<CalledFunctionWire>,
    custom: Option<CalledFunctionWire>,
}

#[derive(Deserialize)]
struct CalledFunctionWire {
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
        }
    }
}

/// The first choice, as far as it has come.
#[derive(Default)]
struct Choice {
    text: String,
    thoughts: String,
    calls: Vec<Called>,
    finish: Option<String>,
}

#[derive(Default)]
struct Called {
    index: Option<usize>,
    id: String,
    tool: String,
    args: String,
}

impl Choice {
    fn take(&mut self, wire: ChoiceWire) {
        self.finish = wire.finish_reason.or(self.finish.take());
        let Some(said) = wire.message.or(wire.delta) else { return };
        let SaidWire { content, refusal, reasoning_content, reasoning, tool_calls } = said;
        for text in [content.as_ref().and_then(Value::as_str), refusal.as_deref()] {
            self.text.push_str(text.unwrap_or_default());
        }
        // Some send both, and the same in both.
        let thoughts = reasoning_content.or(reasoning);
        self.thoughts.push_str(thoughts.as_deref().unwrap_or_default());
        for CalledWire { index, id, function, custom } in tool_calls.into_iter().flatten() {
            let known = self.calls.iter().position(|call| index.is_some() && call.index == index);
            let place = known.unwrap_or_else(|| {
                self.calls.push(Called { index, ..Called::default() });
                self.calls.len().saturating_sub(1)
            });
            let called = function.or(custom);
            let (Some(call), Some(called)) = (self.calls.get_mut(place), called) else { continue };
            // Some repeat them with every piece.
            if call.id.is_empty() {
                call.id = id.unwrap_or_default();
            }
            if call.tool.is_empty() {
                call.tool = called.name.unwrap_or_default();
            }
            match called.arguments.or(called.input) {
                Some(Value::String(piece)) => call.args.push_str(&piece),
                Some(Value::Null) | None => {}
                Some(other) => call.args.push_str(&other.to_string()),
            }
        }
    }

    fn into_parts(self, mut parts: Parts) -> Parts {
        parts.stop_reason = self.finish.as_deref().map(reason);
        parts.put(Some(Part::Thinks(self.thoughts)));
        parts.put(Some(Part::Says(self.text)));
        for Called { id, tool, args, .. } in self.calls {
            let args = serde_json::from_str(&args).unwrap_or(Value::String(args));
            parts.put(Some(Part::Calls { id, tool, args }));
        }
        parts
    }
}

fn reason(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        _ => StopReason::Other,
    }
}

pub(super) fn answer(body: &[u8]) -> Option<Answer> {
    let AnswerWire { choices, usage, error } = serde_json::from_slice(body).ok()?;
    let mut choice = Choice::default();
    choices.into_iter().take(1).for_each(|wire| choice.take(wire));
    let error = error.filter(|error| !error.is_null()).map(|error| error.to_string());
    let parts = Parts { usage: usage.map(Usage::from), error, ..Parts::default() };
    Some(choice.into_parts(parts).into_answer())
}

#[derive(Deserialize)]
struct ChunkWire {
    #[serde(default)]
    choices: Vec<ChoiceWire>,
    usage: Option<UsageWire>,
    error: Option<Value>,
}

/// Reads a stream as far as it came.
pub(super) fn streamed(body: &[u8]) -> Option<Answer> {
    let (mut choice, mut parts, mut is_message) = (Choice::default(), Parts::default(), false);
    for data in sse::data(body) {
        if data == "[DONE]" {
            parts.is_whole = true;
            continue;
        }
        let Ok(ChunkWire { choices, usage, error }) = serde_json::from_str(&data) else { continue };
        is_message = true;
        parts.usage = usage.map(Usage::from).or(parts.usage);
        let error = error.filter(|error| !error.is_null()).map(|error| error.to_string());
        parts.error = parts.error.or(error);
        choices.into_iter().filter(|wire| wire.index == 0).for_each(|wire| choice.take(wire));
    }
    is_message.then_some(())?;
    // Not everybody says that it is done.
    parts.is_whole |= choice.finish.is_some();
    parts.is_streamed = true;
    Some(choice.into_parts(parts).into_answer())
}
