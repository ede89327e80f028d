//! Anthropic's Messages API.
//!
//! A tool's result is a block of a user message. Words for one request go behind the last block,
//! hence behind the last mark of the prompt cache. While the model thinks between calls, a block of
//! text would end its turn and cost it its thoughts, so they go to the end of the result then; and
//! where the client itself sends messages of the role `system` among the others, as one of those.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{Answer, Parts};
use super::place::Place;
use super::request::{Item, Request, Role, present};
use super::sse;
use midcourse::{StopReason, Usage};

#[derive(Deserialize)]
struct RequestWire<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: &'a RawValue,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<Vec<ToolWire<'a>>>,
    metadata: Option<MetadataWire>,
    output_format: Option<&'a RawValue>,
    output_config: Option<OutputWire<'a>>,
}

#[derive(Deserialize)]
struct ToolWire<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct MetadataWire {
    user_id: Option<String>,
}

#[derive(Deserialize)]
struct OutputWire<'a> {
    #[serde(borrow)]
    format: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageWire<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct BlockWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
}

pub(super) fn request(body: &str) -> Option<Request<'_>> {
    let wire: RequestWire<'_> = serde_json::from_str(body).ok()?;
    let messages: Vec<MessageWire<'_>> = serde_json::from_str(wire.messages.get()).ok()?;
    let mut reading = Reading { body, ..Reading::default() };
    for message in &messages {
        reading.message(message)?;
    }
    let has_format = wire.output_config.is_some_and(|output| output.format.is_some());
    Some(Request {
        model: wire.model.map(Cow::into_owned),
        session: wire.metadata.and_then(|metadata| session_in(&metadata.user_id?)),
        system: wire.system.map_or_else(|| Some(Vec::new()), texts)?,
        tools: names(wire.tools.unwrap_or_default()),
        has_form: wire.output_format.is_some() || has_format,
        messages: messages.len(),
        place: reading.place(messages.last()?, wire.messages.get()),
        current: reading.current,
        items: reading.items,
    })
}

fn names(tools: Vec<ToolWire<'_>>) -> Vec<String> {
    tools.into_iter().filter_map(|tool| Some(tool.name?.into_owned())).collect()
}

/// The session that Claude Code names: in a JSON object, or at the end of a longer name.
fn session_in(user: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct UserWire {
        session_id: String,
    }
    if let Ok(UserWire { session_id }) = serde_json::from_str(user) {
        return Some(session_id);
    }
    user.rsplit_once("_session_").map(|(_, session)| session.to_owned())
}

/// The texts of content that is a text or has some.
fn texts(content: &RawValue) -> Option<Vec<&RawValue>> {
    if content.get().starts_with('"') {
        return Some(vec![content]);
    }
    let blocks: Vec<BlockWire<'_>> = serde_json::from_str(content.get()).ok()?;
    Some(blocks.into_iter().filter_map(|block| block.text).collect())
}

#[derive(Default)]
struct Reading<'a> {
    body: &'a str,
    items: Vec<Item<'a>>,
    current: usize,
    /// Whether the client sends messages of the role `system`.
    has_system: bool,
    /// Whether the model has thought in the turn that is under way.
    is_thinking: bool,
    /// Where words fit into the last block, if that is a tool's result.
    result: Option<Place>,
}

impl<'a> Reading<'a> {
    fn message(&mut self, message: &MessageWire<'a>) -> Option<()> {
        let role = match message.role.as_ref() {
            "assistant" => Role::Assistant,
            "system" => Role::System,
            _ => Role::User,
        };
        self.has_system |= role == Role::System;
        self.result = None;
        // A turn ends where somebody says something, and not with results.
        let mut is_word = message.content.get().starts_with('"');
        if is_word {
            self.items.push(Item::Says { role, text: message.content });
        } else {
            let blocks: Vec<BlockWire<'_>> = serde_json::from_str(message.content.get()).ok()?;
            is_word = blocks.iter().any(|block| block.kind != "tool_result");
            for block in blocks {
                self.block(role, block);
            }
        }
        self.is_thinking &= role != Role::User || !is_word;
        if role == Role::Assistant {
            self.current = self.items.len();
        }
        Some(())
    }

    fn block(&mut self, role: Role, block: BlockWire<'a>) {
        let BlockWire { kind, text, id, name, input, tool_use_id, content, is_error } = block;
        self.result = None;
        match (kind.as_ref(), text, id, tool_use_id) {
            ("text", Some(text), ..) => self.items.push(Item::Says { role, text }),
            ("tool_use", _, Some(id), _) => {
                self.items.push(Item::Calls { id, tool: name.unwrap_or_default(), args: input });
            }
            ("tool_result", _, _, Some(raw_id)) => {
                let place = match content {
                    Some(content) => Place::end_of(self.body, content.get()),
                    None => Place::behind(self.body, raw_id.get()),
                };
                self.result = place;
                let id = super::request::text_of(raw_id);
                let is_error = is_error.unwrap_or(false);
                self.items.push(Item::Returns { id, content, is_error, place });
            }
            ("thinking" | "redacted_thinking", ..) => self.is_thinking = true,
            _ => {}
        }
    }

    /// Where words for this request fit in; nowhere, if the model's answer has begun already.
    fn place(&self, last: &MessageWire<'a>, messages: &str) -> Option<Place> {
        match (last.role.as_ref(), self.result) {
            ("assistant", _) => None,
            ("user", Some(_)) if self.has_system => Place::message(self.body, messages, "system"),
            ("user", Some(result)) if self.is_thinking => Some(result).filter(Place::is_open),
            _ => Place::end_of(self.body, last.content.get()),
        }
    }
}

#[derive(Deserialize)]
struct AnswerWire {
    content: Vec<Value>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Value,
}

pub(super) fn answer(body: &[u8]) -> Option<Answer> {
    let AnswerWire { content, stop_reason, usage } = serde_json::from_slice(body).ok()?;
    let mut parts = Parts { usage: counted(usage), ..Parts::default() };
    for block in content {
        parts.put(block_of(&block, None));
    }
    parts.stop_reason = stop_reason.as_deref().map(reason);
    Some(parts.into_answer())
}

/// A block of an answer: what it is, and what of it has come by now.
fn block_of(block: &Value, streamed: Option<&str>) -> Option<super::answer::Part> {
    use super::answer::Part;
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let said = |name: &str| streamed.map_or_else(|| text(name), str::to_owned);
    Some(match block.get("type")?.as_str()? {
        "text" => Part::Says(said("text")),
        "thinking" => Part::Thinks(said("thinking")),
        "tool_use" => {
            let input = streamed.filter(|json| !json.is_empty()).map_or_else(
                || block.get("input").cloned().unwrap_or_default(),
                |json| serde_json::from_str(json).unwrap_or_else(|_| Value::from(json)),
            );
            Part::Calls { id: text("id"), tool: text("name"), args: input }
        }
        _ => return None,
    })
}

fn reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        _ => StopReason::Other,
    }
}

#[derive(Deserialize)]
struct EventWire {
    #[serde(rename = "type")]
    kind: String,
    index: Option<usize>,
    message: Option<StartWire>,
    content_block: Option<Value>,
    #[serde(default)]
    delta: Value,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct StartWire {
    usage: Option<Value>,
}

/// Reads a stream as far as it came.
pub(super) fn streamed(body: &[u8]) -> Option<Answer> {
    let mut parts = Parts::default();
    let mut blocks: Vec<(usize, Value, String)> = Vec::new();
    let mut usage = Value::Null;
    let mut is_message = false;
    for data in sse::data(body) {
        let Ok(event) = serde_json::from_str::<EventWire>(&data) else { continue };
        let EventWire { kind, index, message, content_block, delta, usage: used, error } = event;
        match kind.as_str() {
            "message_start" => {
                is_message = true;
                merge(&mut usage, message.and_then(|message| message.usage));
            }
            "content_block_start" => {
                let block = content_block.unwrap_or_default();
                let begun = block.get("text").and_then(Value::as_str).unwrap_or_default();
                let begun = begun.to_owned();
                blocks.push((index.unwrap_or(blocks.len()), block, begun));
            }
            "content_block_delta" => {
                let names = ["text", "thinking", "partial_json"];
                let piece = names.iter().find_map(|name| delta.get(*name)?.as_str());
                let block = blocks.iter_mut().find(|(place, ..)| Some(*place) == index);
                if let (Some((_, _, text)), Some(piece)) = (block, piece) {
                    text.push_str(piece);
                }
            }
            "message_delta" => {
                merge(&mut usage, used);
                let said = delta.get("stop_reason").and_then(Value::as_str);
                parts.stop_reason = said.map(reason).or(parts.stop_reason);
            }
            "message_stop" => parts.is_whole = true,
            "error" => parts.error = Some(error.unwrap_or_default().to_string()),
            _ => {}
        }
    }
    (is_message || parts.error.is_some()).then_some(())?;
    for (_, block, text) in &blocks {
        parts.put(block_of(block, Some(text)));
    }
    parts.usage = counted(usage);
    parts.is_streamed = true;
    Some(parts.into_answer())
}

/// The tokens, where they are counted: some servers send nothing for nought.
fn counted(usage: Value) -> Option<Usage> {
    let Value::Object(mut counts) = usage else { return None };
    counts.retain(|_, count| !count.is_null());
    Usage::deserialize(Value::Object(counts)).ok()
}

/// Later counts stand for earlier ones.
fn merge(usage: &mut Value, more: Option<Value>) {
    match (usage, more) {
        (Value::Object(known), Some(Value::Object(more))) => {
            known.extend(more.into_iter().filter(|(_, count)| !count.is_null()));
        }
        (usage, Some(more)) => *usage = more,
        (_, None) => {}
    }
}
