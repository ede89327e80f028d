//! Google's Gemini API: `generateContent` and `streamGenerateContent`.
//!
//! A message is a list of parts: texts, function calls and function responses. Calls may have no id;
//! then they are told apart by their order. Guidance (a message to the agent that goes into one
//! request only) is appended to the text of the last function response, or else becomes a text part
//! of the last message. Thoughts and their signatures are not touched.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::insertion::InsertionPoint;
use super::reply::{Reply, ReplyBuilder};
use super::request::{Item, Request, Role};
use super::sse;
use midcourse::{AssistantBlock, StopReason, TextContent, ToolCallBlock, Usage};

/// The id of every call that has none. `Request::with_unique_call_ids` numbers such calls.
const CALL_WITHOUT_ID: &str = "call";

/// Fields of a function response that may contain its text, in the order of preference.
const TEXT_FIELDS: [&str; 5] = ["output", "result", "error", "content", "response"];

#[derive(Deserialize)]
struct RequestWire<'a> {
    #[serde(borrow)]
    contents: &'a RawValue,
    #[serde(borrow, alias = "system_instruction", rename = "systemInstruction")]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(alias = "generation_config", rename = "generationConfig")]
    config: Option<ConfigWire>,
}

#[derive(Deserialize)]
struct ToolWire {
    #[serde(default, alias = "function_declarations", rename = "functionDeclarations")]
    functions: Vec<FunctionWire>,
}

#[derive(Deserialize)]
struct FunctionWire {
    name: String,
}

#[derive(Deserialize)]
struct ConfigWire {
    #[serde(alias = "response_mime_type", rename = "responseMimeType")]
    mime_type: Option<String>,
}

#[derive(Deserialize)]
struct ContentWire<'a> {
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PartWire<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow, alias = "function_call", rename = "functionCall")]
    call: Option<CallWire<'a>>,
    #[serde(borrow, alias = "function_response", rename = "functionResponse")]
    response: Option<FunctionResponseWire<'a>>,
}

#[derive(Deserialize)]
struct CallWire<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionResponseWire<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

pub(super) fn parse_request(body: &str) -> Option<Request<'_>> {
    let wire: RequestWire<'_> = serde_json::from_str(body).ok()?;
    let contents: Vec<ContentWire<'_>> = serde_json::from_str(wire.contents.get()).ok()?;
    let mut reader = Reader { body, ..Reader::default() };
    for content in &contents {
        reader.read_content(content)?;
    }
    let is_model = |content: &ContentWire<'_>| content.role.as_deref() == Some("model");
    // The model would continue a message of its own, so nothing may come after it.
    let insertion_point = reader.last_point.filter(|_| !contents.last().is_none_or(is_model));
    let system = wire.system.map(|system| {
        let content: Option<ContentWire<'_>> = serde_json::from_str(system.get()).ok();
        content.and_then(|content| parts(&content)).unwrap_or_default()
    });
    let system = system.into_iter().flatten().filter_map(|part| part.text).collect();
    let mime_type = wire.config.and_then(|config| config.mime_type);
    Some(Request {
        body,
        // The model is in the URL, which is not known here.
        model: None,
        session: None,
        previous_response: None,
        is_kept_by_server: false,
        system,
        tools: wire.tools.map(tool_names).unwrap_or_default(),
        has_response_format: mime_type.is_some_and(|kind| kind != "text/plain"),
        message_count: contents.len(),
        insertion_point,
        tail_start: reader.tail_start,
        items: reader.items,
    })
}

/// The names of the functions in a list of tools, or in a single tool.
fn tool_names(tools: &RawValue) -> Vec<String> {
    let list: Option<Vec<ToolWire>> = serde_json::from_str(tools.get()).ok();
    let list = list.or_else(|| Some(vec![serde_json::from_str(tools.get()).ok()?]));
    let functions = list.unwrap_or_default().into_iter().flat_map(|tool| tool.functions);
    functions.map(|function| function.name).collect()
}

/// The parts of a message; a single part may stand without a list.
fn parts<'a>(content: &ContentWire<'a>) -> Option<Vec<PartWire<'a>>> {
    let Some(raw) = content.parts else { return Some(Vec::new()) };
    if raw.get().starts_with('[') {
        serde_json::from_str(raw.get()).ok()
    } else {
        Some(vec![serde_json::from_str(raw.get()).ok()?])
    }
}

#[derive(Default)]
struct Reader<'a> {
    body: &'a str,
    items: Vec<Item<'a>>,
    tail_start: usize,
    /// Where to insert guidance if no other part follows.
    last_point: Option<InsertionPoint>,
}

impl<'a> Reader<'a> {
    fn read_content(&mut self, content: &ContentWire<'a>) -> Option<()> {
        let role = match content.role.as_deref() {
            Some("model") => Role::Assistant,
            _ => Role::User,
        };
        let parts = parts(content)?;
        let at_end =
            content.parts.and_then(|parts| InsertionPoint::as_part(self.body, parts.get()));
        for PartWire { text, thought, call, response } in parts {
            self.last_point = at_end;
            if let Some(text) = text.filter(|_| !thought) {
                self.items.push(Item::Message { role, text });
            } else if let Some(CallWire { id, name, args }) = call {
                let id = id.unwrap_or(Cow::Borrowed(CALL_WITHOUT_ID));
                self.items.push(Item::ToolCall { id, tool: name.unwrap_or_default(), args });
            } else if let Some(FunctionResponseWire { id, response }) = response {
                let id = id.unwrap_or(Cow::Borrowed(CALL_WITHOUT_ID));
                let (content, is_error) = response.map_or((None, None), result_of);
                let point = content.and_then(|content| {
                    let is_text = content.get().starts_with('"');
                    let point = InsertionPoint::at_end_of_content(self.body, content.get());
                    point.filter(|_| is_text)
                });
                self.last_point = point.or(at_end);
                self.items.push(Item::ToolResult { id, content, is_error, insertion_point: point });
            }
        }
        if role == Role::Assistant {
            self.tail_start = self.items.len();
        }
        Some(())
    }
}

/// The content of a function response, and whether it reports a failure. The content is the text in
/// it, or the whole object if there is no text. A response with the field `error` and no other text
/// has failed; whether another one has failed is unknown.
fn result_of(response: &RawValue) -> (Option<&RawValue>, Option<bool>) {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Fields<'a>(#[serde(borrow)] std::collections::BTreeMap<Cow<'a, str>, &'a RawValue>);
    let Ok(Fields(fields)) = serde_json::from_str(response.get()) else {
        return (Some(response), None);
    };
    let text = |name: &&str| fields.get(*name).is_some_and(|value| value.get().starts_with('"'));
    let name = TEXT_FIELDS.iter().find(|name| text(name));
    let content = name.and_then(|name| fields.get(*name)).copied().unwrap_or(response);
    (Some(content), (name == Some(&"error")).then_some(true))
}

#[derive(Deserialize)]
struct ResponseWire {
    #[serde(default)]
    candidates: Vec<CandidateWire>,
    #[serde(rename = "usageMetadata")]
    usage: Option<UsageWire>,
    #[serde(rename = "promptFeedback")]
    feedback: Option<FeedbackWire>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct CandidateWire {
    #[serde(default)]
    index: usize,
    content: Option<OutputWire>,
    #[serde(rename = "finishReason")]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct OutputWire {
    #[serde(default)]
    parts: Vec<OutputPartWire>,
}

#[derive(Deserialize)]
struct OutputPartWire {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(rename = "functionCall")]
    call: Option<OutputCallWire>,
}

#[derive(Deserialize)]
struct OutputCallWire {
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
struct FeedbackWire {
    #[serde(rename = "blockReason")]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageWire {
    prompt_token_count: Option<i64>,
    candidates_token_count: Option<i64>,
    thoughts_token_count: Option<i64>,
    cached_content_token_count: Option<i64>,
}

impl From<UsageWire> for Usage {
    fn from(wire: UsageWire) -> Self {
        let cached = wire.cached_content_token_count.unwrap_or(0);
        let thoughts = wire.thoughts_token_count.unwrap_or(0);
        Self {
            input_tokens: wire.prompt_token_count.unwrap_or(0).saturating_sub(cached),
            output_tokens: wire.candidates_token_count.unwrap_or(0).saturating_add(thoughts),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            is_estimate: false,
        }
    }
}

pub(super) fn parse_response(body: &[u8]) -> Option<Reply> {
    // Without `alt=sse`, a streamed response is a JSON list. A list that was cut off is not parsed.
    if body.trim_ascii_start().starts_with(b"[") {
        return reply_of(serde_json::from_slice(body).ok()?, true);
    }
    reply_of(vec![serde_json::from_slice(body).ok()?], false)
}

/// Parses a response that was sent as an event stream. If the stream was cut off, the part that
/// arrived is parsed.
pub(super) fn parse_stream(body: &[u8]) -> Option<Reply> {
    let chunks = sse::data(body).into_iter().filter_map(|data| serde_json::from_str(&data).ok());
    reply_of(chunks.collect(), true)
}

fn reply_of(chunks: Vec<ResponseWire>, is_streamed: bool) -> Option<Reply> {
    (!chunks.is_empty()).then_some(())?;
    let mut reply = ReplyBuilder { is_streamed, ..ReplyBuilder::default() };
    let (mut text, mut thoughts, mut calls) = (String::new(), String::new(), Vec::new());
    for ResponseWire { candidates, usage, feedback, error } in chunks {
        reply.usage = usage.map(Usage::from).or(reply.usage);
        let blocked = feedback.and_then(|feedback| feedback.block_reason);
        let error = error.filter(|error| !error.is_null()).map(|error| error.to_string());
        reply.error = reply.error.or(error).or(blocked);
        for candidate in candidates.into_iter().filter(|candidate| candidate.index == 0) {
            let reason = candidate.finish_reason.as_deref().map(stop_reason_of);
            reply.is_finished |= reason.is_some();
            reply.stop_reason = reason.or(reply.stop_reason);
            for part in candidate.content.into_iter().flat_map(|content| content.parts) {
                let piece = part.text.unwrap_or_default();
                if part.thought { &mut thoughts } else { &mut text }.push_str(&piece);
                calls.extend(part.call);
            }
        }
    }
    reply.push(AssistantBlock::Reasoning(TextContent { text: thoughts }));
    reply.push(AssistantBlock::Text(TextContent { text }));
    if !calls.is_empty() && reply.stop_reason == Some(StopReason::EndTurn) {
        reply.stop_reason = Some(StopReason::ToolUse);
    }
    for OutputCallWire { id, name, args } in calls {
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| CALL_WITHOUT_ID.to_owned());
        let call = ToolCallBlock { id: id.into(), name: name.into(), arguments: args };
        reply.push(AssistantBlock::ToolCall(call));
    }
    Some(reply.build())
}

fn stop_reason_of(reason: &str) -> StopReason {
    match reason {
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxTokens,
        _ => StopReason::Other,
    }
}
