//! A model's response, parsed into the blocks of an assistant message.

use midcourse::{AgentMessage, AssistantBlock, AssistantContent, StopReason, ToolCallBlock, Usage};

/// How much of an error response's body is kept, in characters.
const MAX_ERROR_CHARS: usize = 2_000;

/// How many bytes of text one token has on average, for estimates.
const BYTES_PER_TOKEN: usize = 4;

/// A parsed model response, or an error if there was no usable response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    /// Text, reasoning and tool calls, in the order in which the model produced them.
    pub(crate) blocks: Vec<AssistantBlock>,
    pub(crate) stop_reason: StopReason,
    pub(crate) error: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// The id by which a later request can continue the conversation that the server keeps.
    pub(crate) response_id: Option<String>,
}

/// Builds a [`Reply`] from a complete JSON body or from the events of a stream.
#[derive(Default)]
pub(super) struct ReplyBuilder {
    pub(super) blocks: Vec<AssistantBlock>,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) error: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) response_id: Option<String>,
    pub(super) is_streamed: bool,
    /// Whether the last event of the stream was received.
    pub(super) is_finished: bool,
}

impl ReplyBuilder {
    /// Adds a block, except a text or reasoning block that is empty.
    pub(super) fn push(&mut self, block: AssistantBlock) {
        let is_empty = match &block {
            AssistantBlock::Text(content) | AssistantBlock::Reasoning(content) => {
                content.text.is_empty()
            }
            _ => false,
        };
        if !is_empty {
            self.blocks.push(block);
        }
    }

    pub(super) fn build(self) -> Reply {
        let Self { blocks, stop_reason, error, usage, response_id, is_streamed, is_finished } =
            self;
        let is_cut_off = is_streamed && !is_finished;
        let stop_reason = match (&error, is_cut_off) {
            (Some(_), _) => StopReason::Error,
            (None, true) => StopReason::Aborted,
            (None, false) => stop_reason.unwrap_or(StopReason::Other),
        };
        Reply { blocks, stop_reason, error, usage, response_id }
    }
}

impl Reply {
    /// The reply for a response with an HTTP error status.
    pub(super) fn from_error_status(status: u16, body: &[u8]) -> Self {
        let body: String = String::from_utf8_lossy(body).chars().take(MAX_ERROR_CHARS).collect();
        Self::failed(StopReason::Error, format!("HTTP status {status}: {body}"))
    }

    /// The reply for a response that did not arrive or could not be parsed.
    pub(crate) fn failed(stop_reason: StopReason, error: String) -> Self {
        let blocks = Vec::new();
        Self { blocks, stop_reason, error: Some(error), usage: None, response_id: None }
    }

    /// Whether the model finished its response. If not, the client may retry the request.
    pub(crate) const fn is_complete(&self) -> bool {
        !matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }

    /// The tool calls that the client will execute: none if the response was cut off.
    pub(crate) fn tool_calls(&self) -> impl Iterator<Item = &ToolCallBlock> {
        let blocks = if self.is_complete() { self.blocks.as_slice() } else { &[] };
        blocks.iter().filter_map(|block| match block {
            AssistantBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| match block {
            AssistantBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
    }

    /// If the API did not report token counts, estimates them from the length of the request's texts
    /// in bytes and from that of the reply.
    pub(crate) fn estimate_usage(&mut self, request_len: usize) {
        if self.usage.is_some() || !self.is_complete() {
            return;
        }
        let length = |block: &AssistantBlock| match block {
            AssistantBlock::Text(text) | AssistantBlock::Reasoning(text) => text.text.len(),
            AssistantBlock::ToolCall(call) => call.arguments.to_string().len(),
            _ => 0,
        };
        let tokens = |length: usize| i64::try_from(length / BYTES_PER_TOKEN).unwrap_or(i64::MAX);
        self.usage = Some(Usage {
            input_tokens: tokens(request_len),
            output_tokens: tokens(self.blocks.iter().map(length).sum()),
            is_estimate: true,
            ..Usage::default()
        });
    }

    pub(crate) fn into_message(self) -> AgentMessage {
        let Self { blocks, stop_reason, error, usage, .. } = self;
        AgentMessage::Assistant {
            content: AssistantContent { blocks },
            stop_reason,
            error_message: error,
            timestamp: None,
            usage,
        }
    }
}
