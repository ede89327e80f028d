//! A model response that is put together from several lines.

use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, StopReason, TextContent, Timestamp,
    ToolCallBlock, Usage,
};
use serde_json::Value;

use super::wire::{BlockWire, Text};

/// The blocks of a response that have been read and not recorded yet.
#[derive(Default)]
pub(super) struct OpenResponse {
    /// Id and time of the response; `None` before the first one.
    latest: Option<(String, Timestamp)>,
    blocks: Vec<AssistantBlock>,
    calls: Vec<Call>,
    usage: Option<Usage>,
    api_error: Option<String>,
    /// How many parts of the latest response have been taken. A response has a second part if the
    /// result of one of its calls comes before its last line.
    parts: usize,
}

pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) args: Value,
    pub(super) at: Timestamp,
}

pub(super) struct Finished {
    pub(super) id: String,
    /// Identifies this part of the response.
    pub(super) key: String,
    pub(super) at: Timestamp,
    /// `None` if the response only calls tools.
    pub(super) message: Option<AgentMessage>,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Option<Usage>,
}

impl OpenResponse {
    pub(super) fn id(&self) -> Option<&str> {
        self.latest.as_ref().map(|(id, _)| id.as_str())
    }

    /// Adds a block; returns whether its kind is known.
    pub(super) fn add(
        &mut self,
        id: &str,
        at: Timestamp,
        block: BlockWire<'_>,
        is_api_error: bool,
    ) -> bool {
        if self.id() != Some(id) {
            self.parts = 0;
        }
        self.latest = Some((id.to_owned(), at));
        let text = |text: Option<Text<'_>>| TextContent {
            text: text.map_or_else(String::new, |text| text.0.into_owned()),
        };
        match &*block.kind {
            "text" => {
                let text = text(block.text);
                if is_api_error {
                    self.api_error = Some(text.text.clone());
                }
                self.blocks.push(AssistantBlock::Text(text));
            }
            "thinking" => self.blocks.push(AssistantBlock::Reasoning(text(block.thinking))),
            // Encrypted.
            "redacted_thinking" => {}
            "tool_use" | "server_tool_use" => {
                let (Some(id), Some(name)) = (block.id, block.name) else { return false };
                let (id, tool) = (id.0.into_owned(), name.0.into_owned());
                let args = block.input.unwrap_or_default();
                self.blocks.push(AssistantBlock::ToolCall(ToolCallBlock {
                    id: id.as_str().into(),
                    name: tool.as_str().into(),
                    arguments: Value::Null,
                }));
                self.calls.push(Call { id, tool, args, at });
            }
            _ => return false,
        }
        true
    }

    /// Sets the tokens of the response. The last line of a response has the final count.
    pub(super) fn set_usage(&mut self, usage: Option<Usage>) {
        self.usage = usage.or(self.usage);
    }

    /// Takes what has been read since the last call; `None` if that is nothing.
    pub(super) fn take(&mut self) -> Option<Finished> {
        let (id, at) = self.latest.clone()?;
        let (blocks, calls) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.calls));
        let (usage, error) = (self.usage.take(), self.api_error.take());
        if blocks.is_empty() && usage.is_none() {
            return None;
        }
        self.parts += 1;
        let key = match self.parts {
            1 => id.clone(),
            part => format!("{id}:{part}"),
        };
        let is_text = |block: &AssistantBlock| !matches!(block, AssistantBlock::ToolCall(_));
        let stop_reason = match (&error, calls.is_empty()) {
            (Some(_), _) => StopReason::Error,
            (None, true) => StopReason::EndTurn,
            (None, false) => StopReason::ToolUse,
        };
        let message = blocks.iter().any(is_text).then(|| AgentMessage::Assistant {
            content: AssistantContent { blocks },
            stop_reason,
            error_message: error,
            timestamp: None,
            usage: None,
        });
        Some(Finished { id, key, at, message, calls, usage })
    }
}
