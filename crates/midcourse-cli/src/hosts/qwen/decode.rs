//! Decodes the payloads of Qwen Code's hooks, and adds token usage from the transcript.

use std::path::PathBuf;

use midcourse::{
    AgentMessage, Channel, DecisionPoint, Event, RunIdentity, RunOutcome, Timestamp, ToolResult,
    TrajectoryPayload,
};
use serde::Deserialize;
use serde_json::Value;

use super::super::llm_content::tool_result;
use super::super::payload::{
    add_transcript_end, assistant_message, outcome, prompt, tool_ended, tool_started,
};
use super::super::{About, Decoded, Host, ReplyForm, session_run};
use super::transcript;

const HOST: Host = Host::Qwen;

/// Some prompts are written by Qwen Code, not by the user. Each entry is the text with which such a
/// prompt begins, and the kind of custom message as which the prompt is stored.
pub(super) const GENERATED_PROMPTS: [(&str, &str); 2] =
    [("<task-notification>", "task_notification"), ("<system-reminder>", "system_reminder")];

/// Hook events that need no record.
const IGNORED_EVENTS: [&str; 4] =
    ["Notification", "PermissionRequest", "PreCompact", "InstructionsLoaded"];

/// The hook events of single tool calls.
const CALL_EVENTS: [&str; 3] = ["PreToolUse", "PostToolUse", "PostToolUseFailure"];

#[derive(Deserialize)]
struct PayloadWire {
    session_id: String,
    hook_event_name: String,
    timestamp: Option<String>,
    cwd: Option<PathBuf>,
    transcript_path: Option<PathBuf>,
    model: Option<String>,
    agent_id: Option<String>,
    source: Option<String>,
    prompt: Option<String>,
    tool_use_id: Option<String>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_response: Option<Value>,
    error: Option<String>,
    reason: Option<String>,
    trigger: Option<String>,
    last_assistant_message: Option<String>,
    tool_calls: Option<Vec<CallWire>>,
}

/// A call in PostToolBatch.
#[derive(Deserialize)]
struct CallWire {
    tool_call_id: String,
    tool_name: String,
    tool_input: Value,
    tool_response: CallResponseWire,
}

#[derive(Deserialize)]
struct CallResponseWire {
    error: Option<String>,
    error_type: Option<String>,
    execution_status: Option<String>,
}

pub(in crate::hosts) fn decode(bytes: &[u8], at: Timestamp) -> Decoded {
    let decode = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let run = session_run(&payload.session_id, payload.agent_id.as_deref());
        let cwd = payload.cwd.clone();
        // A subagent's responses are in another transcript. The events of single calls need no
        // transcript: PostToolBatch follows them at once.
        let is_read =
            run.parent_run_id.is_none() && !CALL_EVENTS.contains(&payload.hook_event_name.as_str());
        let transcript = payload.transcript_path.clone().filter(|_| is_read);
        let model = payload.model.clone();
        let decoded = Decoder { run, at }.decode(payload)?;
        let about = About { model, ..About::default() };
        Some(Decoded { cwd, transcript, about, ..decoded })
    };
    decode().unwrap_or_else(|| HOST.unread(bytes, at))
}

/// Adds the token usage of model responses, the model and the version from the end of the
/// transcript.
pub(in crate::hosts) fn add_transcript(decoded: Decoded, tail: &[u8]) -> Decoded {
    add_transcript_end(decoded, transcript::read(tail))
}

struct Decoder {
    run: RunIdentity,
    at: Timestamp,
}

impl Decoder {
    /// Decodes a payload; `None` if a required field is missing or the hook event is unknown.
    fn decode(self, payload: PayloadWire) -> Option<Decoded> {
        let reply = |event, point| Some((ReplyForm::HookOutput(event), point));
        // Releases before 0.24 report only the id that they made up.
        let call_id = payload.tool_call_id.or(payload.tool_use_id);
        let (payload, reply) = match payload.hook_event_name.as_str() {
            "SessionStart" => {
                let started = match payload.source.as_deref() {
                    Some("resume") => TrajectoryPayload::Resumed,
                    // The hook PostCompact has already reported this compaction.
                    Some("compact") => return Some(Decoded::nothing()),
                    _ => TrajectoryPayload::RunStarted { identity: self.run.clone() },
                };
                (started, reply("SessionStart", DecisionPoint::PreRender))
            }
            "UserPromptSubmit" if payload.prompt.as_deref() == Some("") => {
                let turn = self.event(TrajectoryPayload::TurnStarted);
                let turn = match payload.timestamp {
                    Some(time) => turn.with_fact(format!("at:{time}")),
                    None => turn,
                };
                // A message here would become a user message after the tool results, which some
                // servers refuse.
                return Some(Decoded::one(turn, None));
            }
            "UserPromptSubmit" => {
                let message = prompt(payload.prompt?, &GENERATED_PROMPTS);
                let appended = TrajectoryPayload::MessageAppended { message };
                (appended, reply("UserPromptSubmit", DecisionPoint::PreRender))
            }
            // Qwen Code ignores a message in the reply to PreToolUse.
            "PreToolUse" => {
                let args = payload.tool_input.unwrap_or_default();
                (tool_started(call_id?, payload.tool_name?, args), None)
            }
            "PostToolUse" => {
                let result = tool_result(payload.tool_response.unwrap_or_default());
                let ended = tool_ended(call_id?, payload.tool_name?, result);
                (ended, reply("PostToolUse", DecisionPoint::PostToolResult))
            }
            "PostToolUseFailure" => {
                let result = ToolResult::error(payload.error.unwrap_or_default());
                let ended = tool_ended(call_id?, payload.tool_name?, result);
                (ended, reply("PostToolUseFailure", DecisionPoint::PostToolResult))
            }
            "PostToolBatch" => return Some(self.batch(payload.tool_calls?)),
            "PermissionDenied" => {
                let denied = TrajectoryPayload::Denied {
                    tool_call_id: call_id?.into(),
                    tool_name: payload.tool_name?.into(),
                    reason: payload.reason,
                };
                (denied, None)
            }
            "Stop" => (assistant_message(payload.last_assistant_message, None), None),
            "StopFailure" => {
                let error = payload.error.unwrap_or_default();
                (assistant_message(payload.last_assistant_message, Some(error)), None)
            }
            "PostCompact" => {
                (TrajectoryPayload::ContextCompacted { trigger: payload.trigger }, None)
            }
            "SubagentStart" => (TrajectoryPayload::RunStarted { identity: self.run.clone() }, None),
            "SubagentStop" => {
                let last_message = payload.last_assistant_message.map(AgentMessage::assistant);
                let new_messages = last_message.into_iter().collect();
                let outcome = RunOutcome::Completed;
                (TrajectoryPayload::RunEnded { outcome, new_messages }, None)
            }
            "SessionEnd" => {
                let outcome = outcome(payload.reason);
                (TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() }, None)
            }
            name if IGNORED_EVENTS.contains(&name) => return Some(Decoded::nothing()),
            _ => return None,
        };
        Some(Decoded::one(self.event(payload), reply))
    }

    /// Decodes PostToolBatch, which lists calls after they have ended. Other hook events have
    /// reported those that ran; of a call that was not run, no other hook event exists.
    fn batch(&self, calls: Vec<CallWire>) -> Decoded {
        let mut events = Vec::new();
        for CallWire { tool_call_id, tool_name, tool_input, tool_response } in calls {
            let CallResponseWire { error, error_type, execution_status } = tool_response;
            if execution_status.as_deref() != Some("not_started") {
                continue;
            }
            let started = tool_started(tool_call_id.clone(), tool_name.clone(), tool_input);
            events.push(self.event(started));
            let end = if error_type.as_deref() == Some("execution_denied") {
                TrajectoryPayload::Denied {
                    tool_call_id: tool_call_id.into(),
                    tool_name: tool_name.into(),
                    reason: error,
                }
            } else {
                tool_ended(tool_call_id, tool_name, ToolResult::error(error.unwrap_or_default()))
            };
            events.push(self.event(end));
        }
        let Some(last) = events.last_mut() else { return Decoded::nothing() };
        last.decision_point = Some(DecisionPoint::PostToolResult);
        let reply = Some(ReplyForm::HookOutput("PostToolBatch"));
        Decoded { events, reply, ..Decoded::nothing() }
    }

    fn event(&self, payload: TrajectoryPayload) -> Event {
        HOST.event(Channel::Hook, self.run.clone(), self.at, payload)
    }
}
