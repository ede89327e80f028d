//! Anthropic's Messages API.
//!
//! A tool result is a content block of a user message. Guidance (a message to the agent that goes
//! into one request only) is inserted after the last content block of the request. That is after
//! the last prompt-cache breakpoint, so the cached part of the prompt stays the same. There are two
//! exceptions. If the current turn contains thinking blocks, a new text block would end the turn
//! and make the API discard them, so guidance is appended to the last tool result. If the client
//! itself sends messages with the role `system` in the middle of the conversation, guidance is
//! added as another `system` message. Claude Code with an older model marks its own notes in user
//! messages with `<system-reminder>`, and its safety check takes all other text as the user's
//! words. So guidance gets the same mark there.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::insertion::InsertionPoint;
use super::reply::{Reply, ReplyBuilder};
use super::request::{Item, Request, Role, is_client_note, present, text_of};
use super::sse;
use midcourse::{AssistantBlock, StopReason, TextContent, ToolCallBlock, Usage};

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

pub(super) fn parse_request(body: &str) -> Option<Request<'_>> {
    let wire: RequestWire<'_> = serde_json::from_str(body).ok()?;
    let messages: Vec<MessageWire<'_>> = serde_json::from_str(wire.messages.get()).ok()?;
    let mut reader = Reader { body, ..Reader::default() };
    for message in &messages {
        reader.read_message(message)?;
    }
    let has_format = wire.output_config.is_some_and(|output| output.format.is_some());
    Some(Request {
        body,
        model: wire.model.map(Cow::into_owned),
        session: wire.metadata.and_then(|metadata| session_in(&metadata.user_id?)),
        previous_response: None,
        is_kept_by_server: false,
        system: wire.system.map_or_else(|| Some(Vec::new()), texts)?,
        tools: names(wire.tools.unwrap_or_default()),
        has_response_format: wire.output_format.is_some() || has_format,
        message_count: messages.len(),
        insertion_point: reader.insertion_point(messages.last()?, wire.messages.get()),
        tail_start: reader.tail_start,
        items: reader.items,
    })
}

fn names(tools: Vec<ToolWire<'_>>) -> Vec<String> {
    tools.into_iter().filter_map(|tool| Some(tool.name?.into_owned())).collect()
}

/// The session id in Claude Code's `user_id`, which is either a JSON object with the field
/// `session_id`, or a string that ends with `_session_` and the id.
fn session_in(user_id: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct UserWire {
        session_id: String,
    }
    if let Ok(UserWire { session_id }) = serde_json::from_str(user_id) {
        return Some(session_id);
    }
    user_id.rsplit_once("_session_").map(|(_, session)| session.to_owned())
}

/// The texts in a message's content, which is either one string or a list of content blocks. `None`
/// if it is neither.
fn texts(content: &RawValue) -> Option<Vec<&RawValue>> {
    if content.get().starts_with('"') {
        return Some(vec![content]);
    }
    let blocks: Vec<BlockWire<'_>> = serde_json::from_str(content.get()).ok()?;
    Some(blocks.into_iter().filter_map(|block| block.text).collect())
}

/// Reads the messages of a request one after the other and collects the texts, tool calls and tool
/// results in them.
#[derive(Default)]
struct Reader<'a> {
    body: &'a str,
    items: Vec<Item<'a>>,
    tail_start: usize,
    /// Whether one of the messages has the role `system`. If so, the model accepts this role, and
    /// guidance can be added as a `system` message.
    has_system_messages: bool,
    /// Whether a user message has a note of the client, marked with `<system-reminder>`.
    has_reminders: bool,
    /// Whether the model has sent thinking blocks since the user's last text.
    has_thinking: bool,
    /// Where to insert text into the last content block, if that block is a tool result.
    last_result: Option<InsertionPoint>,
}

impl<'a> Reader<'a> {
    fn read_message(&mut self, message: &MessageWire<'a>) -> Option<()> {
        let role = match message.role.as_ref() {
            "assistant" => Role::Assistant,
            "system" => Role::System,
            _ => Role::User,
        };
        self.has_system_messages |= role == Role::System;
        self.last_result = None;
        // A user message that contains only tool results continues the current turn. Any other user
        // message begins a new turn, in which the model has not sent thinking blocks yet.
        let mut has_text = message.content.get().starts_with('"');
        if has_text {
            self.items.push(Item::Message { role, text: message.content });
        } else {
            let blocks: Vec<BlockWire<'_>> = serde_json::from_str(message.content.get()).ok()?;
            has_text = blocks.iter().any(|block| block.kind != "tool_result");
            for block in blocks {
                self.read_block(role, block);
            }
        }
        self.has_thinking &= role != Role::User || !has_text;
        if role == Role::Assistant {
            self.tail_start = self.items.len();
        }
        Some(())
    }

    fn read_block(&mut self, role: Role, block: BlockWire<'a>) {
        let BlockWire { kind, text, id, name, input, tool_use_id, content, is_error } = block;
        self.last_result = None;
        match (kind.as_ref(), text, id, tool_use_id) {
            ("text", Some(text), ..) => {
                self.has_reminders |= role == Role::User && is_client_note(text);
                self.items.push(Item::Message { role, text });
            }
            ("tool_use", _, Some(id), _) => {
                let tool = name.unwrap_or_default();
                self.items.push(Item::ToolCall { id, tool, args: input });
            }
            ("tool_result", _, _, Some(raw_id)) => {
                let insertion_point = match content {
                    Some(content) => InsertionPoint::at_end_of_content(self.body, content.get()),
                    None => InsertionPoint::after_field(self.body, raw_id.get()),
                };
                self.last_result = insertion_point;
                let id = text_of(raw_id);
                self.items.push(Item::ToolResult { id, content, is_error, insertion_point });
            }
            ("thinking" | "redacted_thinking", ..) => self.has_thinking = true,
            _ => {}
        }
    }

    /// Where to insert guidance into this request; `None` if there is no suitable place. If the
    /// last message has the role `assistant`, the model would continue that message, so nothing may
    /// come after it.
    fn insertion_point(&self, last: &MessageWire<'a>, messages: &str) -> Option<InsertionPoint> {
        match (last.role.as_ref(), self.last_result) {
            ("assistant", _) => None,
            ("user", _) if self.has_system_messages => {
                InsertionPoint::as_last_message(self.body, messages, "system")
            }
            ("user", Some(result)) if self.has_thinking => {
                Some(result).filter(InsertionPoint::accepts_several)
            }
            ("user", _) if self.has_reminders => {
                InsertionPoint::at_end_of_content(self.body, last.content.get())?.as_reminder()
            }
            _ => InsertionPoint::at_end_of_content(self.body, last.content.get()),
        }
    }
}

#[derive(Deserialize)]
struct ResponseWire {
    content: Vec<Value>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Value,
}

pub(super) fn parse_response(body: &[u8]) -> Option<Reply> {
    let ResponseWire { content, stop_reason, usage } = serde_json::from_slice(body).ok()?;
    let mut reply = ReplyBuilder { usage: parse_usage(usage), ..ReplyBuilder::default() };
    for block in content {
        block_of(&block, None).into_iter().for_each(|block| reply.push(block));
    }
    reply.stop_reason = stop_reason.as_deref().map(stop_reason_of);
    Some(reply.build())
}

/// Parses one content block of a response. If the response was streamed, `deltas` is the text or
/// JSON of the block, joined from the stream's delta events.
fn block_of(block: &Value, deltas: Option<&str>) -> Option<AssistantBlock> {
    let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let content =
        |name: &str| TextContent { text: deltas.map_or_else(|| field(name), str::to_owned) };
    Some(match block.get("type")?.as_str()? {
        "text" => AssistantBlock::Text(content("text")),
        "thinking" => AssistantBlock::Reasoning(content("thinking")),
        "tool_use" => {
            let arguments = deltas.filter(|json| !json.is_empty()).map_or_else(
                || block.get("input").cloned().unwrap_or_default(),
                |json| serde_json::from_str(json).unwrap_or_else(|_| Value::from(json)),
            );
            let (id, name) = (field("id").into(), field("name").into());
            AssistantBlock::ToolCall(ToolCallBlock { id, name, arguments })
        }
        _ => return None,
    })
}

fn stop_reason_of(reason: &str) -> StopReason {
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

/// Parses a response that was sent as an event stream. If the stream was cut off, the part that
/// arrived is parsed.
pub(super) fn parse_stream(body: &[u8]) -> Option<Reply> {
    let mut reply = ReplyBuilder { is_streamed: true, ..ReplyBuilder::default() };
    // For each content block: its index, the JSON object from the event that started the block, and
    // the joined text of its deltas.
    let mut blocks: Vec<(usize, Value, String)> = Vec::new();
    let mut usage = Value::Null;
    let mut has_started = false;
    for data in sse::data(body) {
        let Ok(event) = serde_json::from_str::<EventWire>(&data) else { continue };
        let EventWire { kind, index, message, content_block, delta, usage: counts, error } = event;
        match kind.as_str() {
            "message_start" => {
                has_started = true;
                merge_usage(&mut usage, message.and_then(|message| message.usage));
            }
            "content_block_start" => {
                let block = content_block.unwrap_or_default();
                let text = block.get("text").and_then(Value::as_str).unwrap_or_default();
                let text = text.to_owned();
                blocks.push((index.unwrap_or(blocks.len()), block, text));
            }
            "content_block_delta" => {
                let names = ["text", "thinking", "partial_json"];
                let piece = names.iter().find_map(|name| delta.get(*name)?.as_str());
                let block = blocks.iter_mut().find(|(known, ..)| Some(*known) == index);
                if let (Some((_, _, text)), Some(piece)) = (block, piece) {
                    text.push_str(piece);
                }
            }
            "message_delta" => {
                merge_usage(&mut usage, counts);
                let reason = delta.get("stop_reason").and_then(Value::as_str);
                reply.stop_reason = reason.map(stop_reason_of).or(reply.stop_reason);
            }
            "message_stop" => reply.is_finished = true,
            "error" => reply.error = Some(error.unwrap_or_default().to_string()),
            _ => {}
        }
    }
    (has_started || reply.error.is_some()).then_some(())?;
    for (_, block, deltas) in &blocks {
        block_of(block, Some(deltas)).into_iter().for_each(|block| reply.push(block));
    }
    reply.usage = parse_usage(usage);
    Some(reply.build())
}

/// Parses token counts; `None` if the response contains none. Some servers send `null` instead of
/// the number 0, so `null` counts are ignored.
fn parse_usage(usage: Value) -> Option<Usage> {
    let Value::Object(mut counts) = usage else { return None };
    counts.retain(|_, count| !count.is_null());
    Usage::deserialize(Value::Object(counts)).ok()
}

/// Merges token counts from a later stream event into `usage`, replacing earlier counts.
fn merge_usage(usage: &mut Value, later: Option<Value>) {
    match (usage, later) {
        (Value::Object(known), Some(Value::Object(later))) => {
            known.extend(later.into_iter().filter(|(_, count)| !count.is_null()));
        }
        (usage, Some(later)) => *usage = later,
        (_, None) => {}
    }
}
