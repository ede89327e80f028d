//! The messages of SWE-agent's `history`: who wrote them, and which of them belong to the run.

use serde_json::Value;

use super::super::chat_message::{Message, text_field, text_of};
use super::super::transcript::{Call, CallResult, Response, Transcript};
use super::text_call;
use crate::session_file::{Fate, Found};

#[derive(Default)]
pub(super) struct History {
    /// What comes before the first response: system prompt, demonstrations and task.
    pub(super) before: Vec<Entry>,
    /// The first response and everything after it.
    pub(super) entries: Vec<Entry>,
    /// The first response as it is in the file.
    first_response: String,
}

/// A message that is not recorded yet.
pub(super) enum Entry {
    System(String),
    /// A solution of another task, which shows the model how to work.
    Demonstration(String),
    Task(String),
    Response {
        action: String,
        response: Response,
    },
    Result(CallResult),
}

impl History {
    /// Adds a message; returns whether its role is known.
    pub(super) fn add(&mut self, message: &Value) -> bool {
        let is_demo = message.get("is_demo").and_then(Value::as_bool).unwrap_or(false)
            || text_field(message, "message_type") == "demonstration";
        let role = text_field(message, "role");
        let content = || text_of(message.get("content"));
        let entry = match role {
            _ if is_demo => Entry::Demonstration(content()),
            "system" => Entry::System(content()),
            "user" if self.entries.is_empty() => Entry::Task(content()),
            "user" => Entry::Result(CallResult { text: content(), ..CallResult::default() }),
            "assistant" => {
                let Message::Assistant(response) = Message::parse(message) else { return false };
                if self.entries.is_empty() {
                    self.first_response = message.to_string();
                }
                Entry::of_response(message, response)
            }
            "tool" => {
                let id = message.pointer("/tool_call_ids/0").and_then(Value::as_str);
                let id = id.unwrap_or_default().to_owned();
                Entry::Result(CallResult { id, text: content(), ..CallResult::default() })
            }
            _ => return false,
        };
        match self.entries.is_empty() && !entry.is_response() {
            true => self.before.push(entry),
            false => self.entries.push(entry),
        }
        true
    }

    pub(super) fn has_responses(&self) -> bool {
        !self.entries.is_empty()
    }

    pub(super) fn first_response(&self) -> String {
        self.first_response.clone()
    }
}

impl Entry {
    fn of_response(message: &Value, response: Response) -> Self {
        let action = text_field(message, "action").to_owned();
        let text = match text_field(message, "thought") {
            "" => response.text,
            thought => thought.trim_end().to_owned(),
        };
        Self::Response { action, response: Response { text, ..response } }
    }

    /// The name under which the message is counted.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::System(_) => "history (system)",
            Self::Demonstration(_) => "history (demonstration)",
            Self::Task(_) => "history (task)",
            Self::Response { .. } => "history (response)",
            Self::Result(_) => "history (result)",
        }
    }

    pub(super) const fn is_response(&self) -> bool {
        matches!(self, Self::Response { .. })
    }

    pub(super) fn action(&self) -> &str {
        match self {
            Self::Response { action, .. } => action.trim(),
            _ => "",
        }
    }

    pub(super) fn into_calls(self) -> Vec<Call> {
        match self {
            Self::Response { response, .. } => response.calls,
            _ => Vec::new(),
        }
    }

    pub(super) fn record(self, run: &mut Transcript, found: &mut Found) {
        found.count(self.kind(), Fate::Used);
        match self {
            Self::System(text) => run.system(text, found),
            Self::Demonstration(text) => run.generated("demonstration", text, found),
            Self::Task(text) => run.user(text, found),
            Self::Response { action, mut response } => {
                if response.calls.is_empty() && !action.trim().is_empty() {
                    response.calls.push(text_call(&action));
                }
                run.response(response, found);
            }
            Self::Result(result) if run.has_open_call() => {
                run.result(result, found);
            }
            // SWE-agent tells the model that its response had no action.
            Self::Result(result) => run.generated("observation", result.text, found),
        }
    }
}
