//! Messages of the conversation between user, model and tools, in the JSON format of `clark-agent`,
//! a crate with an agent loop.
//!
//! Field names, tags and omitted fields are the same as in `clark-agent`, so that each project
//! reads the other's files. One difference: if a message has no timestamp, this crate does not add
//! one, because this crate reads no clock. In this file, "model API" is the service that runs the
//! model.

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CallId;
use crate::time::Timestamp;

/// One message of the conversation between user, model and tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum AgentMessage {
    /// The system prompt, which instructs the model.
    System {
        /// Text of the system prompt.
        content: String,
        /// When the message was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
    /// A message of the user, or of the program that drives the agent.
    User {
        /// Text, or text and images.
        content: UserContent,
        /// When the message was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
    /// A response of the model.
    Assistant {
        /// Text, reasoning and tool calls, in order.
        content: AssistantContent,
        /// Why the model stopped.
        stop_reason: StopReason,
        /// The error message, if the model failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        /// When the message was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
        /// Tokens of the request and the response; `None` if the model API does not report them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// The result of a tool call, as the model sees it.
    ToolResult {
        /// Id of the tool call that returned this result.
        tool_call_id: CallId,
        /// Name of the tool that was called.
        tool_name: CompactString,
        /// Text and images.
        content: ToolResultContent,
        /// Whether the tool reported a failure.
        #[serde(default)]
        is_error: bool,
        /// A sentence for the user about what the tool did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        narration: Option<String>,
        /// Structured data for the host, which the model does not see.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// When the message was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
    /// A message of a kind that only the host knows.
    Custom {
        /// The host's name for the kind.
        kind: String,
        /// The host's data, in any form.
        #[serde(default)]
        payload: Value,
        /// When the message was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
}

impl AgentMessage {
    /// A message of the user that is only this text, without a timestamp.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: UserContent::Text(text.into()), timestamp: None }
    }

    /// A complete response of the model that is only this text, without a timestamp.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant {
            content: AssistantContent::text(text),
            stop_reason: StopReason::EndTurn,
            error_message: None,
            timestamp: None,
            usage: None,
        }
    }
}

/// Tokens of one model request and its response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent to the model.
    #[serde(default)]
    pub input_tokens: i64,
    /// Tokens received from the model.
    #[serde(default)]
    pub output_tokens: i64,
    /// Tokens of the request that were written to the prompt cache of the model API.
    #[serde(default)]
    pub cache_creation_input_tokens: i64,
    /// Tokens of the request that were read from the prompt cache of the model API.
    #[serde(default)]
    pub cache_read_input_tokens: i64,
    /// Whether the counts are estimated from the length of the texts, because the model API did not
    /// report any.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_estimate: bool,
}

impl Usage {
    /// Adds the tokens of another request and its response.
    pub fn add(&mut self, other: &Self) {
        let add = |total: &mut i64, part: i64| *total = total.saturating_add(part);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.cache_creation_input_tokens, other.cache_creation_input_tokens);
        add(&mut self.cache_read_input_tokens, other.cache_read_input_tokens);
        self.is_estimate |= other.is_estimate;
    }
}

/// Serialises [`Usage`] for checkpoints, whose format cannot leave out a field.
pub(crate) mod all_counts {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Usage;

    pub(crate) fn serialize<S: Serializer>(usage: &Usage, to: S) -> Result<S::Ok, S::Error> {
        let Usage { input_tokens, output_tokens, is_estimate, .. } = usage;
        let (written, read) = (usage.cache_creation_input_tokens, usage.cache_read_input_tokens);
        (input_tokens, output_tokens, written, read, is_estimate).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Usage, D::Error> {
        let (input_tokens, output_tokens, written, read, is_estimate) =
            <(i64, i64, i64, i64, bool)>::deserialize(from)?;
        Ok(Usage {
            input_tokens,
            output_tokens,
            cache_creation_input_tokens: written,
            cache_read_input_tokens: read,
            is_estimate,
        })
    }
}

/// Why the model ended its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The response is complete.
    EndTurn,
    /// The model stopped to call tools.
    ToolUse,
    /// The response reached the limit on output tokens.
    MaxTokens,
    /// The model API reported an error.
    Error,
    /// The user or the host cancelled the request.
    Aborted,
    /// Any other reason, or an unknown one.
    Other,
}

/// The content of a user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UserContent {
    /// Plain text.
    Text(String),
    /// Text and images.
    Blocks(Vec<UserBlock>),
}

/// A part of a user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UserBlock {
    /// A part that is text.
    Text(TextContent),
    /// A part that is an image.
    Image(ImageContent),
}

/// The content of a model response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AssistantContent {
    /// The parts of the response, in the model's order.
    pub blocks: Vec<AssistantBlock>,
}

impl AssistantContent {
    /// A response that is only this text, without reasoning and tool calls.
    pub fn text(text: impl Into<String>) -> Self {
        Self { blocks: vec![AssistantBlock::Text(TextContent { text: text.into() })] }
    }

    /// The visible text, without reasoning and tool calls. Several parts are joined with newlines.
    pub fn plain_text(&self) -> Cow<'_, str> {
        joined(self.blocks.iter().filter_map(|block| match block {
            AssistantBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        }))
    }

    /// Whether the response calls a tool.
    pub fn has_tool_calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, AssistantBlock::ToolCall(_)))
    }
}

/// A part of a model response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantBlock {
    /// Visible text.
    Text(TextContent),
    /// Reasoning that the prompt asked for, which the model wrote as visible text.
    Thinking(TextContent),
    /// Reasoning that the model API returned as plain text, separate from the visible text.
    Reasoning(TextContent),
    /// Reasoning that the model API returned as structured data, which may be signed or encrypted.
    ReasoningDetails(ReasoningDetailsContent),
    /// A request of the model to call a tool.
    ToolCall(ToolCallBlock),
}

/// A tool call in a model response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallBlock {
    /// Id of the call. The result of the call has the same id.
    pub id: CallId,
    /// Name of the tool that the model calls.
    pub name: CompactString,
    /// Arguments, as the model wrote them.
    pub arguments: Value,
}

/// Reasoning of the model, stored unchanged as the model API sent it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReasoningDetailsContent {
    /// The reasoning items in the format of the model API, in the order in which it sent them.
    pub details: Vec<Value>,
}

/// The content of a tool result, as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolResultContent {
    /// The parts of the result, in order.
    pub blocks: Vec<ToolResultBlock>,
}

/// A part of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolResultBlock {
    /// A part that is text.
    Text(TextContent),
    /// A part that is an image.
    Image(ImageContent),
}

/// A part of a message that is text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextContent {
    /// The text of this part.
    pub text: String,
}

/// An image in a message, given by its URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageContent {
    /// A `data:` URL, or a URL that the model API can fetch.
    pub source: String,
    /// Media type, such as `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// A description of the image, for readers who cannot see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt: Option<String>,
}

/// The result of a tool call, as the tool returned it to the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Text and images for the model.
    pub content: Vec<ToolResultBlock>,
    /// Whether the tool reported a failure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// Whether nobody reported if the call failed, because the host has no such flag or left it
    /// out. `is_error` is then false and means nothing; the text decides (see
    /// [`call_failed`](crate::call_failed)).
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error_unknown: bool,
    /// Structured data for the host, which the model does not see.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Whether the tool asks the host to end the run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub terminate: bool,
    /// A sentence for the user about what the tool did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narration: Option<String>,
}

pub(super) fn is_false(flag: &bool) -> bool {
    !*flag
}

impl ToolResult {
    /// A successful result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ToolResultBlock::Text(TextContent { text: text.into() })],
            ..Self::default()
        }
    }

    /// A failed result that is only text.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// A result that is only text, from a host that does not report whether the call failed.
    pub fn unflagged(text: impl Into<String>) -> Self {
        Self { is_error_unknown: true, ..Self::text(text) }
    }

    /// The result as one text, for comparing two results: the texts and the URLs of the images, in
    /// order, joined with newlines.
    pub fn comparable_text(&self) -> Cow<'_, str> {
        joined(self.content.iter().map(|block| match block {
            ToolResultBlock::Text(text) => text.text.as_str(),
            ToolResultBlock::Image(image) => image.source.as_str(),
        }))
    }
}

/// Joins the parts with newlines; a single part is not copied.
fn joined<'a>(mut parts: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    let Some(first) = parts.next() else { return Cow::Borrowed("") };
    let mut text = Cow::Borrowed(first);
    for part in parts {
        let text = text.to_mut();
        text.push('\n');
        text.push_str(part);
    }
    text
}
