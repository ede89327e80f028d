//! Generates the request bodies of an agent that makes one tool call after the other.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// OpenAI's Chat Completions.
    Chat,
    /// Anthropic's Messages.
    Messages,
}

/// One tool call of a conversation. The id of the call contains both numbers, so the stub of the
/// model server can compute the next call from a request alone and need not remember conversations.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) conversation: u64,
    pub(crate) turn: u64,
}

impl Step {
    pub(crate) const PREFIX: &'static str = "step_";

    pub(crate) fn next(self) -> Self {
        Self { turn: self.turn + 1, ..self }
    }

    pub(crate) fn input(self) -> Value {
        json!({"command": format!("make target-{}", self.turn), "description": "build a target"})
    }

    /// The tool's output, of about this many bytes.
    pub(crate) fn output(self, length: usize) -> String {
        let line = format!("target-{}: compiled unit {}\n", self.turn, self.turn * 7 % 101);
        line.repeat(length.div_ceil(line.len()))
    }

    /// Finds the last id of a call in a request or response body; `None` if there is no id.
    pub(crate) fn last_in(body: &[u8]) -> Option<Self> {
        let prefix = Self::PREFIX.as_bytes();
        let start = body.windows(prefix.len()).rposition(|bytes| bytes == prefix)? + prefix.len();
        let of_step = |byte: &u8| byte.is_ascii_digit() || *byte == b'_';
        let digits: Vec<u8> = body[start..].iter().copied().take_while(of_step).collect();
        let (conversation, turn) = std::str::from_utf8(&digits).ok()?.split_once('_')?;
        Some(Self { conversation: conversation.parse().ok()?, turn: turn.parse().ok()? })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As long as the ids of the vendors. midcourse compares more if ids are short.
        write!(formatter, "{}{:012}_{:08}", Self::PREFIX, self.conversation, self.turn)
    }
}

/// A conversation of an agent with its model.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) api: Api,
    /// The latest call in the conversation.
    pub(crate) step: Step,
    /// The messages so far as JSON text, separated by commas.
    pub(crate) messages: String,
}

impl Conversation {
    pub(crate) fn of_length(api: Api, length: usize) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let step = Step { conversation: NUMBERS.fetch_add(1, Ordering::Relaxed), turn: 0 };
        let task =
            format!("Build all targets of project {}; begin with {step}.", step.conversation);
        let messages = json!({"role": "user", "content": task}).to_string();
        let mut conversation = Self { api, step, messages };
        let overhead = conversation.body(false).len() - conversation.messages.len();
        while overhead + conversation.messages.len() + 2_000 < length {
            conversation.grow(1_500);
        }
        conversation
    }

    /// Adds the next call, with a result of about this many bytes.
    pub(crate) fn grow(&mut self, length: usize) {
        self.step = self.step.next();
        let (id, input) = (self.step.to_string(), self.step.input());
        let output = self.step.output(length);
        let (call, result) = match self.api {
            Api::Chat => (
                json!({"role": "assistant", "content": null, "tool_calls": [chat_call(self.step)]}),
                json!({"role": "tool", "tool_call_id": id, "content": output}),
            ),
            Api::Messages => {
                let call = json!({"type": "tool_use", "id": id, "name": "bash", "input": input});
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": output});
                (
                    json!({"role": "assistant", "content": [call]}),
                    json!({"role": "user", "content": [result]}),
                )
            }
        };
        self.messages.push_str(&format!(",{call},{result}"));
    }

    /// The body of a request with all messages so far. `streamed` asks for a streamed response.
    pub(crate) fn body(&self, streamed: bool) -> Bytes {
        let system = "You are an agent that builds software. Work in small steps. ".repeat(12);
        let schema = json!({"type": "object", "required": ["command"], "properties":
            {"command": {"type": "string"}, "description": {"type": "string"}}});
        let text = "Runs a command in a shell.";
        let messages = &self.messages;
        let body = match self.api {
            Api::Chat => {
                let system = json!({"role": "system", "content": system});
                let tool = json!({"type": "function", "function":
                    {"name": "bash", "description": text, "parameters": schema}});
                format!(
                    r#"{{"model":"stub","stream":{streamed},"tools":[{tool}],"messages":[{system},{messages}]}}"#
                )
            }
            Api::Messages => {
                let system = json!(system);
                let tool = json!({"name": "bash", "description": text, "input_schema": schema});
                format!(
                    r#"{{"model":"stub","stream":{streamed},"max_tokens":1000,"system":{system},"tools":[{tool}],"messages":[{messages}]}}"#
                )
            }
        };
        body.into()
    }

    /// A copy without messages, to save memory. A request whose body was built before needs no more
    /// than this copy to be sent and to have its response checked.
    pub(crate) fn without_history(&self) -> Self {
        Self { messages: String::new(), ..*self }
    }
}

pub(crate) fn chat_call(step: Step) -> Value {
    json!({"id": step.to_string(), "type": "function",
        "function": {"name": "bash", "arguments": step.input().to_string()}})
}
