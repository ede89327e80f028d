//! OpenAI's Responses API, and servers compatible with it.
//!
//! Messages, tool calls and tool results are items of one list. Guidance (a message to the agent
//! that goes into one request only) is appended to the text of the last item, as in the Chat
//! Completions API; if that item has no text, it becomes a message with the role `developer`.
//! Reasoning, encrypted content and items of unknown types are not touched.
//!
//! A client may let the server keep the conversation and send only what is new. Then a text that was
//! added once stays in the conversation.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::insertion::InsertionPoint;
use super::reply::{Reply, ReplyBuilder};
use super::request::{Item, Request, Role, present};
use super::sse;
use midcourse::{AssistantBlock, StopReason, TextContent, ToolCallBlock, Usage};

#[derive(Deserialize)]
struct RequestWire<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<Vec<ToolWire<'a>>>,
    previous_response_id: Option<String>,
    conversation: Option<ConversationWire>,
    store: Option<bool>,
    text: Option<TextWire>,
}

#[derive(Deserialize)]
struct ToolWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ConversationWire {
    Id(String),
    Object { id: String },
}

#[derive(Deserialize)]
struct TextWire {
    format: Option<FormatWire>,
}

#[derive(Deserialize)]
struct FormatWire {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct ItemWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    operation: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    output: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PartWire<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

pub(super) fn parse_request(body: &str) -> Option<Request<'_>> {
    let wire: RequestWire<'_> = serde_json::from_str(body).ok()?;
    let mut reader = Reader { body, ..Reader::default() };
    reader.read_input(wire.input)?;
    let mut system: Vec<&RawValue> =
        wire.instructions.into_iter().filter(|it| is_text(it)).collect();
    system.append(&mut reader.system);
    let name = |tool: ToolWire<'_>| tool.name.or(tool.kind).map(Cow::into_owned);
    let conversation = wire.conversation.map(|conversation| match conversation {
        ConversationWire::Id(id) | ConversationWire::Object { id } => id,
    });
    let format = wire.text.and_then(|text| text.format?.kind);
    Some(Request {
        body,
        model: wire.model.map(Cow::into_owned),
        // The server stores a response unless the client forbids it.
        is_kept_by_server: wire.store != Some(false) || conversation.is_some(),
        session: conversation,
        previous_response: wire.previous_response_id,
        system,
        tools: wire.tools.into_iter().flatten().filter_map(name).collect(),
        has_response_format: format.is_some_and(|kind| kind != "text"),
        message_count: reader.item_count,
        insertion_point: reader.insertion_point,
        tail_start: reader.tail_start,
        items: reader.items,
    })
}

/// Reads the items of a request one after the other.
#[derive(Default)]
struct Reader<'a> {
    body: &'a str,
    system: Vec<&'a RawValue>,
    items: Vec<Item<'a>>,
    item_count: usize,
    tail_start: usize,
    /// Where to insert guidance if no other item follows.
    insertion_point: Option<InsertionPoint>,
}

impl<'a> Reader<'a> {
    fn read_input(&mut self, input: &'a RawValue) -> Option<()> {
        if is_text(input) {
            self.item_count = 1;
            self.insertion_point = InsertionPoint::at_end_of_content(self.body, input.get());
            self.items.push(Item::Message { role: Role::User, text: input });
            return Some(());
        }
        let items: Vec<ItemWire<'_>> = serde_json::from_str(input.get()).ok()?;
        self.item_count = items.len();
        let at_end = InsertionPoint::as_last_message(self.body, input.get(), "developer");
        for item in items {
            self.insertion_point = at_end;
            self.read_item(item)?;
        }
        Some(())
    }

    fn read_item(&mut self, item: ItemWire<'a>) -> Option<()> {
        let ItemWire { kind, role, content, call_id, name, .. } = item;
        let kind = kind.as_deref().unwrap_or("message");
        match (kind, role.as_deref(), call_id) {
            ("message", Some(role), _) => self.read_message(role, content?)?,
            (kind, _, Some(id)) if kind.ends_with("_output") => {
                let content = item.output;
                let point = content.and_then(|content| self.at_end_of_text(content));
                self.insertion_point = point.or(self.insertion_point);
                let (is_error, insertion_point) = (None, point);
                self.items.push(Item::ToolResult { id, content, is_error, insertion_point });
            }
            (kind, _, Some(id)) if kind.ends_with("_call") => {
                let args = item.arguments.or(item.input).or(item.action).or(item.operation);
                let tool = name.unwrap_or_else(|| Cow::Owned(tool_name(kind).to_owned()));
                self.items.push(Item::ToolCall { id, tool, args });
                self.end_of_model();
            }
            // Reasoning, and calls that the server itself has run.
            (kind, ..) if kind == "reasoning" || kind.ends_with("_call") => self.end_of_model(),
            _ => {}
        }
        Some(())
    }

    fn read_message(&mut self, role: &str, content: &'a RawValue) -> Option<()> {
        let role = match role {
            "assistant" => Role::Assistant,
            "system" | "developer" => Role::System,
            _ => Role::User,
        };
        let texts = texts(content)?;
        if role == Role::System && self.items.is_empty() {
            self.system.extend(texts);
            return Some(());
        }
        self.items.extend(texts.into_iter().map(|text| Item::Message { role, text }));
        if role == Role::Assistant {
            self.end_of_model();
        } else {
            self.insertion_point = self.at_end_of_text(content).or(self.insertion_point);
        }
        Some(())
    }

    /// The item that was just read is the model's. If it is the last one, the model would continue
    /// it, so nothing may come after it.
    fn end_of_model(&mut self) {
        self.tail_start = self.items.len();
        self.insertion_point = None;
    }

    /// A position at the end of a text, or of a list of contents that begins with a text.
    fn at_end_of_text(&self, content: &RawValue) -> Option<InsertionPoint> {
        let point = InsertionPoint::at_end_of_content(self.body, content.get())?;
        if is_text(content) {
            return Some(point);
        }
        let parts: Vec<PartWire<'_>> = serde_json::from_str(content.get()).ok()?;
        parts.iter().any(|part| part.text.is_some()).then_some(point.as_input_text())
    }
}

fn is_text(content: &RawValue) -> bool {
    content.get().starts_with('"')
}

/// The name of a tool that belongs to the API itself: `shell` for items of the type `shell_call`.
fn tool_name(kind: &str) -> &str {
    kind.trim_end_matches("_call")
}

fn texts(content: &RawValue) -> Option<Vec<&RawValue>> {
    if is_text(content) {
        return Some(vec![content]);
    }
    if content.get() == "null" {
        return Some(Vec::new());
    }
    let parts: Vec<PartWire<'_>> = serde_json::from_str(content.get()).ok()?;
    Some(parts.into_iter().filter_map(|part| part.text).collect())
}

#[derive(Default, Deserialize)]
struct ResponseWire {
    id: Option<String>,
    status: Option<String>,
    #[serde(default)]
    output: Vec<Value>,
    usage: Option<UsageWire>,
    error: Option<Value>,
    incomplete_details: Option<IncompleteWire>,
}

#[derive(Deserialize)]
struct IncompleteWire {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct UsageWire {
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    input_tokens_details: Option<DetailsWire>,
}

#[derive(Deserialize)]
struct DetailsWire {
    cached_tokens: Option<i64>,
}

impl From<UsageWire> for Usage {
    fn from(wire: UsageWire) -> Self {
        let cached = wire.input_tokens_details.and_then(|details| details.cached_tokens);
        let cached = cached.unwrap_or(0);
        Self {
            input_tokens: wire.input_tokens.unwrap_or(0).saturating_sub(cached),
            output_tokens: wire.output_tokens.unwrap_or(0),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            is_estimate: false,
        }
    }
}

pub(super) fn parse_response(body: &[u8]) -> Option<Reply> {
    let response: ResponseWire = serde_json::from_slice(body).ok()?;
    response.status.as_ref()?;
    Some(reply_of(response, ReplyBuilder::default()))
}

fn reply_of(response: ResponseWire, mut reply: ReplyBuilder) -> Reply {
    let ResponseWire { id, status, output, usage, error, incomplete_details } = response;
    for item in &output {
        blocks_of(item).into_iter().for_each(|block| reply.push(block));
    }
    let has_calls = reply.blocks.iter().any(|it| matches!(it, AssistantBlock::ToolCall(_)));
    let reason = incomplete_details.and_then(|details| details.reason);
    reply.stop_reason = Some(match (status.as_deref(), reason.as_deref()) {
        (Some("incomplete"), Some("max_output_tokens")) => StopReason::MaxTokens,
        (Some("incomplete"), _) => StopReason::Other,
        (Some("failed"), _) => StopReason::Error,
        // A response in the background, or one that was cancelled.
        (Some("queued" | "in_progress" | "cancelled"), _) => StopReason::Aborted,
        _ if has_calls => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    });
    let error = error.filter(|error| !error.is_null()).map(|error| error.to_string());
    reply.error = reply.error.or(error);
    reply.usage = usage.map(Usage::from).or(reply.usage);
    reply.response_id = id.or(reply.response_id);
    reply.build()
}

/// The blocks of one output item: texts, reasoning summaries or a tool call.
fn blocks_of(item: &Value) -> Vec<AssistantBlock> {
    let field = |name: &str| item.get(name).and_then(Value::as_str);
    let texts = |name: &str| {
        let parts = item.get(name).and_then(Value::as_array).into_iter().flatten();
        let text = |part: &Value| {
            let text = part.get("text").or_else(|| part.get("refusal"))?.as_str()?;
            Some(TextContent { text: text.to_owned() })
        };
        parts.filter_map(text).collect::<Vec<_>>()
    };
    match (field("type"), field("call_id")) {
        (Some("message"), _) => texts("content").into_iter().map(AssistantBlock::Text).collect(),
        (Some("reasoning"), _) => {
            let parts = texts("summary").into_iter().chain(texts("content"));
            parts.map(AssistantBlock::Reasoning).collect()
        }
        (Some(kind), Some(id)) if kind.ends_with("_call") => {
            let names = ["arguments", "input", "action", "operation"];
            let arguments = names.iter().find_map(|name| item.get(*name)).cloned();
            let arguments = match arguments.unwrap_or_default() {
                Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                other => other,
            };
            let name = field("name").unwrap_or_else(|| tool_name(kind)).into();
            vec![AssistantBlock::ToolCall(ToolCallBlock { id: id.into(), name, arguments })]
        }
        _ => Vec::new(),
    }
}

#[derive(Deserialize)]
struct EventWire {
    #[serde(rename = "type")]
    kind: String,
    response: Option<ResponseWire>,
    item: Option<Value>,
    delta: Option<Value>,
    message: Option<String>,
}

/// Parses a response that was sent as an event stream. If the stream was cut off, the part that
/// arrived is parsed.
pub(super) fn parse_stream(body: &[u8]) -> Option<Reply> {
    let mut reply = ReplyBuilder { is_streamed: true, ..ReplyBuilder::default() };
    let (mut items, mut text, mut last) = (Vec::new(), String::new(), None);
    for data in sse::data(body) {
        let Ok(event) = serde_json::from_str::<EventWire>(&data) else { continue };
        let EventWire { kind, response, item, delta, message } = event;
        match kind.as_str() {
            "response.output_item.done" => {
                items.extend(item);
                text.clear();
            }
            "response.output_text.delta" => {
                text.push_str(delta.as_ref().and_then(Value::as_str).unwrap_or_default());
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                reply.is_finished = true;
                last = response;
            }
            "error" => {
                let error = message.unwrap_or_else(|| data.clone());
                reply.error = reply.error.or(Some(error));
            }
            kind if kind.starts_with("response.") => last = last.or(response),
            _ => {}
        }
    }
    let has_started = last.is_some() || !items.is_empty() || reply.error.is_some();
    has_started.then_some(())?;
    let mut response = last.unwrap_or_default();
    // Some servers leave the output out of the last event.
    if response.output.is_empty() {
        response.output = items;
        if !text.is_empty() {
            let part = serde_json::json!({"type": "output_text", "text": text});
            response.output.push(serde_json::json!({"type": "message", "content": [part]}));
        }
    }
    if reply.is_finished && response.status.is_none() {
        response.status = Some("completed".to_owned());
    }
    Some(reply_of(response, reply))
}
