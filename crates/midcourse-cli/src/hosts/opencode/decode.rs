//! Decodes the payloads of midcourse's plugin for opencode.

use std::path::PathBuf;

use midcourse::{
    AgentMessage, Channel, DecisionPoint, Event, RunIdentity, RunOutcome, Timestamp, ToolResult,
    TrajectoryPayload, Usage,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::payload::{assistant_message, tool_ended, tool_started, usage_events};
use super::super::{About, Decoded, Host, ReplyForm, session_run};

const HOST: Host = Host::Opencode;

/// The tool that stands for a call which could not be made. Its arguments name the tool that the
/// model called.
const INVALID_TOOL: &str = "invalid";

/// How the error of a call begins that the user or a rule refused.
const REFUSALS: [&str; 2] =
    ["The user rejected permission to use", "The user has specified a rule which prevents"];

#[derive(Deserialize)]
struct PayloadWire {
    session_id: String,
    hook_event_name: String,
    parent_session_id: Option<String>,
    cwd: Option<PathBuf>,
    message_id: Option<String>,
    prompt: Option<String>,
    model: Option<String>,
    call_id: Option<String>,
    tool: Option<String>,
    #[serde(default)]
    args: Value,
    output: Option<String>,
    /// The exit code of a command; "none" if it was killed, for example after a timeout. Null for
    /// tools that are no commands.
    #[serde(default)]
    exit: Value,
    after_message: Option<String>,
    #[serde(default)]
    accepts_message: bool,
    #[serde(default)]
    failed_calls: Vec<FailedCallWire>,
    #[serde(default)]
    usage: Vec<UsageWire>,
    last_assistant_message: Option<String>,
}

#[derive(Deserialize)]
struct FailedCallWire {
    call_id: String,
    tool: String,
    #[serde(default)]
    args: Value,
    error: String,
}

#[derive(Deserialize)]
struct UsageWire {
    message_id: String,
    tokens: TokensWire,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct TokensWire {
    input: i64,
    output: i64,
    reasoning: i64,
    cache: CacheWire,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CacheWire {
    read: i64,
    write: i64,
}

pub(in crate::hosts) fn decode(bytes: &[u8], at: Timestamp) -> Decoded {
    let decode = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let run = match &payload.parent_session_id {
            Some(parent) => session_run(parent, Some(&payload.session_id)),
            None => session_run(&payload.session_id, None),
        };
        let cwd = payload.cwd.clone();
        let about = About { model: payload.model.clone(), ..About::default() };
        let decoded = Decoder { run, at }.decode(payload)?;
        Some(Decoded { cwd, about, ..decoded })
    };
    decode().unwrap_or_else(|| HOST.unread(bytes, at))
}

struct Decoder {
    run: RunIdentity,
    at: Timestamp,
}

impl Decoder {
    /// Decodes a payload; `None` if a required field is missing or the hook event is unknown.
    fn decode(self, payload: PayloadWire) -> Option<Decoded> {
        let event = match payload.hook_event_name.as_str() {
            "chat.message" => {
                let message = AgentMessage::user(payload.prompt?);
                let appended = self.event(TrajectoryPayload::MessageAppended { message });
                appended.with_fact(format!("message:{}", payload.message_id?))
            }
            "tool.execute.before" => {
                let tool = called_tool(payload.tool?, &payload.args);
                self.event(tool_started(payload.call_id?, tool, payload.args))
            }
            "tool.execute.after" => {
                let output = payload.output.unwrap_or_default();
                let end =
                    ended(payload.call_id?, payload.tool?, &payload.args, output, &payload.exit);
                self.event(end)
            }
            "chat.messages.transform" => return self.request(payload),
            "session.idle" => return Some(self.idle(payload)),
            "session.compacted" => {
                self.event(TrajectoryPayload::ContextCompacted { trigger: None })
            }
            _ => return None,
        };
        Some(Decoded::one(event, None))
    }

    /// Decodes the report about a model request that is about to be sent.
    fn request(&self, payload: PayloadWire) -> Option<Decoded> {
        let mut events = self.failed_calls(payload.failed_calls);
        let turn = self.event(TrajectoryPayload::TurnStarted);
        let mut turn = turn.with_fact(format!("after:{}", payload.after_message?));
        let usage = payload.usage.into_iter().map(|it| (it.message_id, it.tokens.usage()));
        events.extend(usage_events(&turn, usage.collect()));
        let reply = payload.accepts_message.then_some(ReplyForm::Text);
        turn.decision_point = reply.as_ref().map(|_| DecisionPoint::PreToolSelection);
        events.push(turn);
        Some(Decoded { events, reply, ..Decoded::nothing() })
    }

    /// Decodes the report that a session waits for its user or has ended.
    fn idle(&self, payload: PayloadWire) -> Decoded {
        let mut events = self.failed_calls(payload.failed_calls);
        let last_message = payload.last_assistant_message;
        if self.run.parent_run_id.is_some() {
            let new_messages = last_message.map(AgentMessage::assistant).into_iter().collect();
            let outcome = RunOutcome::Completed;
            events.push(self.event(TrajectoryPayload::RunEnded { outcome, new_messages }));
        } else if last_message.is_some() {
            events.push(self.event(assistant_message(last_message, None)));
        }
        Decoded { events, ..Decoded::nothing() }
    }

    fn failed_calls(&self, calls: Vec<FailedCallWire>) -> Vec<Event> {
        let mut events = Vec::new();
        for FailedCallWire { call_id, tool, args, error } in calls {
            events.push(self.event(tool_started(call_id.clone(), tool.clone(), args)));
            events.push(self.event(failed(call_id, tool, error)));
        }
        events
    }

    fn event(&self, payload: TrajectoryPayload) -> Event {
        HOST.event(Channel::Hook, self.run.clone(), self.at, payload)
    }
}

/// The end of a call that was refused or that ended with an error.
pub(super) fn failed(call_id: String, tool: String, error: String) -> TrajectoryPayload {
    if REFUSALS.iter().any(|text| error.starts_with(text)) {
        return TrajectoryPayload::Denied {
            tool_call_id: call_id.into(),
            tool_name: tool.into(),
            reason: Some(error),
        };
    }
    tool_ended(call_id, tool, ToolResult::error(error))
}

/// The tool that the model called.
pub(super) fn called_tool(tool: String, args: &Value) -> String {
    let named = args.get("tool").and_then(Value::as_str).filter(|_| tool == INVALID_TOOL);
    named.map_or(tool, str::to_owned)
}

/// The end of a call that opencode does not report as an error.
pub(super) fn ended(
    call_id: String,
    tool: String,
    args: &Value,
    output: String,
    exit: &Value,
) -> TrajectoryPayload {
    let mut result = result(output, exit);
    result.is_error |= tool == INVALID_TOOL;
    tool_ended(call_id, called_tool(tool, args), result)
}

/// The result of a call that did not end with an error. For opencode, a command that failed or was
/// killed has not.
fn result(output: String, exit: &Value) -> ToolResult {
    match exit.as_i64() {
        Some(0) => ToolResult::text(output),
        Some(code) => {
            ToolResult { details: json!({"exit_code": code}), ..ToolResult::error(output) }
        }
        None if exit.is_null() => ToolResult::text(output),
        None => ToolResult::error(output),
    }
}

impl TokensWire {
    pub(super) const fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input,
            output_tokens: self.output.saturating_add(self.reasoning),
            cache_creation_input_tokens: self.cache.write,
            cache_read_input_tokens: self.cache.read,
            is_estimate: false,
        }
    }
}
