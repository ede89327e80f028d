//! An answer of a model, as a message.

use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, StopReason, TextContent, ToolCallBlock, Usage,
};
use serde_json::Value;

/// The most that is kept of what an API says when it refuses, in characters.
const REFUSAL_MAX: usize = 2_000;

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its text, its thoughts and its calls, in order.
    pub blocks: Vec<AssistantBlock>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// The tokens it took.
    pub usage: Option<Usage>,
}

/// A part of an answer.
pub(super) enum Part {
    Says(String),
    Thinks(String),
    Calls { id: String, tool: String, args: Value },
}

/// The parts of an answer, as they come.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) blocks: Vec<AssistantBlock>,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) error: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) is_streamed: bool,
    /// Whether a stream has come to its end.
    pub(super) is_whole: bool,
}

impl Parts {
    pub(super) fn put(&mut self, part: Option<Part>) {
        let text = |text| TextContent { text };
        match part {
            Some(Part::Says(said)) if !said.is_empty() => {
                self.blocks.push(AssistantBlock::Text(text(said)));
            }
            Some(Part::Thinks(thought)) if !thought.is_empty() => {
                self.blocks.push(AssistantBlock::Reasoning(text(thought)));
            }
            Some(Part::Calls { id, tool, args }) => {
                self.blocks.push(AssistantBlock::ToolCall(ToolCallBlock {
                    id: id.into(),
                    name: tool.into(),
                    arguments: args,
                }));
            }
            _ => {}
        }
    }

    pub(super) fn into_answer(self) -> Answer {
        let Self { blocks, stop_reason, error, usage, is_streamed, is_whole } = self;
        let is_cut = is_streamed && !is_whole;
        let stop_reason = match (&error, is_cut) {
            (Some(_), _) => StopReason::Error,
            (None, true) => StopReason::Aborted,
            (None, false) => stop_reason.unwrap_or(StopReason::Other),
        };
        Answer { blocks, stop_reason, error, usage }
    }
}

impl Answer {
    /// What an API says when it refuses a request.
    pub(super) fn refusal(status: u16, body: &[u8]) -> Self {
        let said: String = String::from_utf8_lossy(body).chars().take(REFUSAL_MAX).collect();
        let error = format!("HTTP status {status}: {said}");
        Self::broken(StopReason::Error, error)
    }

    /// An answer that did not come.
    pub fn broken(stop_reason: StopReason, error: String) -> Self {
        Self { blocks: Vec::new(), stop_reason, error: Some(error), usage: None }
    }

    /// Whether the model has answered, and the client has something to go on with.
    pub const fn is_whole(&self) -> bool {
        !matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }

    /// The calls in it. Those of an answer that was cut off are not made.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCallBlock> {
        let blocks = if self.is_whole() { self.blocks.as_slice() } else { &[] };
        blocks.iter().filter_map(|block| match block {
            AssistantBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Its texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| match block {
            AssistantBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
    }

    /// The message that it is.
    pub fn into_message(self) -> AgentMessage {
        let Self { blocks, stop_reason, error, usage } = self;
        AgentMessage::Assistant {
            content: AssistantContent { blocks },
            stop_reason,
            error_message: error,
            timestamp: None,
            usage,
        }
    }
}
