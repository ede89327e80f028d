//! Decodes the payloads of Copilot CLI's hooks, in both of their forms.

use std::path::PathBuf;

use midcourse::{
    AgentMessage, Channel, DecisionPoint, Event, RunIdentity, RunOutcome, Timestamp, ToolResult,
    TrajectoryPayload,
};
use serde::Deserialize;
use serde_json::Value;

use super::super::payload::{outcome, tool_ended, tool_started};
use super::super::{Decoded, Host, ReplyForm, UnnamedCall, session_run};

const HOST: Host = Host::Copilot;

/// What precedes the number of a shell in a line that Copilot CLI adds to a result. The number
/// differs from call to call.
const SHELL_ID: &str = "shellId: ";

/// Hook events that need no record.
const IGNORED_EVENTS: [&str; 5] =
    ["PermissionRequest", "permissionRequest", "PreCompact", "Notification", "ErrorOccurred"];

#[derive(Deserialize)]
struct PayloadWire {
    #[serde(alias = "sessionId")]
    session_id: String,
    #[serde(alias = "hookName")]
    hook_event_name: Option<String>,
    /// A text in payloads of one form, a number in the other.
    timestamp: Option<Value>,
    cwd: Option<PathBuf>,
    agent_id: Option<String>,
    parent_agent_id: Option<String>,
    #[serde(alias = "agentName")]
    agent_name: Option<String>,
    source: Option<String>,
    prompt: Option<String>,
    #[serde(alias = "toolName")]
    tool_name: Option<String>,
    #[serde(alias = "toolArgs", alias = "toolInput")]
    tool_input: Option<Value>,
    #[serde(alias = "toolResult")]
    tool_result: Option<ResultWire>,
    error: Option<Value>,
    #[serde(alias = "stopReason")]
    stop_reason: Option<String>,
    reason: Option<String>,
    #[serde(alias = "lastAssistantMessage")]
    last_assistant_message: Option<String>,
}

#[derive(Deserialize)]
struct ResultWire {
    #[serde(alias = "resultType")]
    result_type: Option<String>,
    #[serde(alias = "textResultForLlm", default)]
    text_result_for_llm: String,
}

impl PayloadWire {
    /// The name of the hook event in PascalCase. Payloads of the other form do not have it, but each
    /// hook event has other fields.
    fn event(&self) -> Option<&str> {
        let is_tool = self.tool_name.is_some();
        match &self.hook_event_name {
            Some(name) => Some(name),
            None if self.tool_result.is_some() => Some("PostToolUse"),
            None if is_tool && self.error.is_some() => Some("PostToolUseFailure"),
            None if is_tool => Some("PreToolUse"),
            None if self.source.is_some() => Some("SessionStart"),
            None if self.prompt.is_some() => Some("UserPromptSubmit"),
            None if self.agent_name.is_some() && self.stop_reason.is_some() => Some("SubagentStop"),
            None if self.agent_name.is_some() => Some("SubagentStart"),
            None if self.stop_reason.is_some() => Some("Stop"),
            None if self.reason.is_some() => Some("SessionEnd"),
            None => None,
        }
    }

    fn time(&self) -> Option<String> {
        match self.timestamp.as_ref()? {
            Value::String(time) => Some(time.clone()),
            other => Some(other.to_string()),
        }
    }

    fn run(&self) -> RunIdentity {
        match (&self.parent_agent_id, &self.agent_id) {
            (Some(parent), Some(agent)) => session_run(parent, Some(agent)),
            _ => session_run(&self.session_id, None),
        }
    }
}

pub(in crate::hosts) fn decode(bytes: &[u8], at: Timestamp) -> Decoded {
    let decode = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let (run, cwd) = (payload.run(), payload.cwd.clone());
        let event = payload.event()?.to_owned();
        let decoded = Decoder { run, at }.decode(&event, payload)?;
        Some(Decoded { cwd, ..decoded })
    };
    decode().unwrap_or_else(|| HOST.unread(bytes, at))
}

struct Decoder {
    run: RunIdentity,
    at: Timestamp,
}

impl Decoder {
    /// Decodes a payload; `None` if a required field is missing or the hook event is unknown.
    fn decode(self, event: &str, payload: PayloadWire) -> Option<Decoded> {
        let reply = |point| Some((ReplyForm::Context, point));
        let (payload, reply) = match event {
            "SessionStart" if payload.source.as_deref() == Some("resume") => {
                (TrajectoryPayload::Resumed, reply(DecisionPoint::PreRender))
            }
            // The first prompt may be reported before the start of its session, so the run begins
            // with the prompt.
            "SessionStart" | "SubagentStart" => return Some(Decoded::nothing()),
            "UserPromptSubmit" => {
                let message = AgentMessage::user(payload.prompt?);
                let appended = TrajectoryPayload::MessageAppended { message };
                (appended, reply(DecisionPoint::PreRender))
            }
            "PreToolUse" => return self.call_started(payload),
            "PostToolUse" | "PostToolUseFailure" => return self.call_ended(payload),
            "SubagentStop" => {
                let last_message = payload.last_assistant_message.map(AgentMessage::assistant);
                let new_messages = last_message.into_iter().collect();
                let outcome = RunOutcome::Completed;
                (TrajectoryPayload::RunEnded { outcome, new_messages }, None)
            }
            // This payload does not contain the model's message.
            "Stop" => return Some(Decoded::nothing()),
            "SessionEnd" => {
                let outcome = match payload.reason.as_deref() {
                    Some("complete") => RunOutcome::Completed,
                    _ => outcome(payload.reason),
                };
                (TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() }, None)
            }
            name if IGNORED_EVENTS.contains(&name) => return Some(Decoded::nothing()),
            _ => return None,
        };
        Some(Decoded::one(self.event(payload), reply))
    }

    fn call_started(&self, payload: PayloadWire) -> Option<Decoded> {
        let time = payload.time()?;
        let (tool, args) = (payload.tool_name?, payload.tool_input.unwrap_or_default());
        let call = UnnamedCall::started(&tool, &args, time);
        let started = self.event(tool_started(String::new(), tool, args));
        Some(Decoded { unnamed_call: Some(call), ..Decoded::one(started, None) })
    }

    fn call_ended(&self, payload: PayloadWire) -> Option<Decoded> {
        let time = payload.time()?;
        let (tool, args) = (payload.tool_name?, payload.tool_input.unwrap_or_default());
        let call = UnnamedCall::ended(&tool, &args, time);
        let result = match (payload.tool_result, payload.error) {
            (Some(ResultWire { result_type, text_result_for_llm: text }), _) => {
                let is_error = result_type.is_some_and(|kind| kind != "success");
                ToolResult { is_error, ..ToolResult::text(without_shell_id(&text)) }
            }
            (None, Some(Value::String(error))) => ToolResult::error(error),
            (None, error) => ToolResult::error(error.unwrap_or_default().to_string()),
        };
        let ended = self.event(tool_ended(String::new(), tool, result));
        let reply = Some((ReplyForm::Context, DecisionPoint::PostToolResult));
        Some(Decoded { unnamed_call: Some(call), ..Decoded::one(ended, reply) })
    }

    fn event(&self, payload: TrajectoryPayload) -> Event {
        HOST.event(Channel::Hook, self.run.clone(), self.at, payload)
    }
}

/// The text of a result without the number of the shell in its last line, such as `<shellId: 4
/// completed with exit code 0>`.
pub(super) fn without_shell_id(text: &str) -> String {
    let start = text.trim_end().rfind('\n').map_or(0, |at| at.saturating_add(1));
    let (before, line) = text.split_at_checked(start).unwrap_or((text, ""));
    let parts = line.split_once(SHELL_ID).filter(|_| line.starts_with('<'));
    let Some((head, tail)) = parts else { return text.to_owned() };
    let tail = tail.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}{head}{SHELL_ID}_{tail}")
}

#[cfg(test)]
mod tests {
    use super::without_shell_id;

    #[test]
    fn only_the_number_of_the_shell_is_left_out() {
        for (text, expected) in [
            (
                "hi\n<shellId: 12 completed with exit code 3>",
                "hi\n<shellId: _ completed with exit code 3>",
            ),
            ("<shellId: 0 completed with exit code 0>", "<shellId: _ completed with exit code 0>"),
            (
                "<command with shellId: 1 is still running>",
                "<command with shellId: _ is still running>",
            ),
            ("shellId: 4 is mine\ndone", "shellId: 4 is mine\ndone"),
            ("shellId: 4 is mine", "shellId: 4 is mine"),
            ("", ""),
        ] {
            assert_eq!(without_shell_id(text), expected);
        }
    }
}
