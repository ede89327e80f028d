//! Messages of the conversation, in the shape `clark-agent` writes them.
//!
//! The field names, tags and omissions are that crate's wire format, not a choice: stored files of
//! either side are read by the other. What differs is time: a message without a timestamp stays
//! without one, because nothing here asks a clock.

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CallId;
use crate::time::Timestamp;

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum AgentMessage {
    /// The system prompt.
    System {
        /// Its text.
        content: String,
        /// When it was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
    /// Words from the person, or from whoever drives the agent.
    User {
        /// Text, or text and images.
        content: UserContent,
        /// When it was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
    /// What the model answered.
    Assistant {
        /// Text, reasoning and tool calls, in order.
        content: AssistantContent,
        /// Why the model stopped.
        stop_reason: StopReason,
        /// What went wrong, if the model failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        /// When it was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
        /// Tokens, where the model's provider counts them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// What a tool answered, as the model sees it.
    ToolResult {
        /// The call it answers.
        tool_call_id: CallId,
        /// The tool.
        tool_name: CompactString,
        /// Text and images.
        content: ToolResultContent,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
        /// A sentence for people about what the tool did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        narration: Option<String>,
        /// Structured data for the host, which the model does not see.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// When it was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
    /// Something of the host's own.
    Custom {
        /// What it is.
        kind: String,
        /// Its data.
        #[serde(default)]
        payload: Value,
        /// When it was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
    },
}

impl AgentMessage {
    /// Words of a person.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: UserContent::Text(text.into()), timestamp: None }
    }

    /// An answer of the model that is only text.
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

/// Tokens of one model call, as its provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent.
    #[serde(default)]
    pub input_tokens: i64,
    /// Tokens received.
    #[serde(default)]
    pub output_tokens: i64,
    /// Tokens written to the provider's prompt cache.
    #[serde(default)]
    pub cache_creation_input_tokens: i64,
    /// Tokens read from the provider's prompt cache.
    #[serde(default)]
    pub cache_read_input_tokens: i64,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It asked for tools.
    ToolUse,
    /// It ran into the limit of its output.
    MaxTokens,
    /// Its provider failed.
    Error,
    /// Somebody cancelled it.
    Aborted,
    /// Another reason.
    Other,
}

/// What a user message holds.
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
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
}

/// What the model answered, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AssistantContent {
    /// The parts.
    pub blocks: Vec<AssistantBlock>,
}

impl AssistantContent {
    /// An answer that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { blocks: vec![AssistantBlock::Text(TextContent { text: text.into() })] }
    }

    /// The text a reader sees, without reasoning and tool calls.
    pub fn plain_text(&self) -> Cow<'_, str> {
        joined(self.blocks.iter().filter_map(|block| match block {
            AssistantBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        }))
    }

    /// Whether the model asked for a tool.
    pub fn has_tool_calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, AssistantBlock::ToolCall(_)))
    }
}

/// A part of the model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantBlock {
    /// Text for the reader.
    Text(TextContent),
    /// Thoughts the prompt asked for, in the visible text.
    Thinking(TextContent),
    /// The provider's own reasoning.
    Reasoning(TextContent),
    /// The provider's own reasoning, signed or sealed.
    ReasoningDetails(ReasoningDetailsContent),
    /// A request to run a tool.
    ToolCall(ToolCallBlock),
}

/// A request to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallBlock {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub name: CompactString,
    /// What the tool is asked.
    pub arguments: Value,
}

/// Reasoning items, kept as the provider sent them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReasoningDetailsContent {
    /// The items.
    pub details: Vec<Value>,
}

/// What a tool answered, as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolResultContent {
    /// The parts.
    pub blocks: Vec<ToolResultBlock>,
}

/// A part of a tool's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolResultBlock {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
}

/// Text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextContent {
    /// The text.
    pub text: String,
}

/// An image, by address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageContent {
    /// A `data:` URL or an address the provider can fetch.
    pub source: String,
    /// The image's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What it shows, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt: Option<String>,
}

/// What a tool returned to the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// What the model gets to see.
    pub content: Vec<ToolResultBlock>,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// Structured data for the host.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Whether the tool asks for the run to end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub terminate: bool,
    /// A sentence for people about what the tool did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narration: Option<String>,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

impl ToolResult {
    /// A result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ToolResultBlock::Text(TextContent { text: text.into() })],
            ..Self::default()
        }
    }

    /// A failure that is only text.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// All of the answer that can be compared: the texts, and an image's address for the image.
    pub fn comparable_text(&self) -> Cow<'_, str> {
        joined(self.content.iter().map(|block| match block {
            ToolResultBlock::Text(text) => text.text.as_str(),
            ToolResultBlock::Image(image) => image.source.as_str(),
        }))
    }
}

/// The parts as one text; borrowed where there is only one part.
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
