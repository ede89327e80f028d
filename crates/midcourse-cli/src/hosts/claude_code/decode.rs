//! Decodes the payloads of Claude Code's hooks, and adds token usage from the transcript.

use std::path::PathBuf;

use midcourse::{
    AgentMessage, DecisionPoint, Event, RunIdentity, RunOutcome, Timestamp, ToolResult,
    TrajectoryPayload,
};
use serde::Deserialize;
use serde_json::Value;

use super::super::payload::{add_transcript_end, assistant_message, outcome, prompt, tool_ended};
use super::super::tool_result::tool_result;
use super::super::{Decoded, Host, ReplyForm, session_run};
use super::transcript;

/// The hook events at which the transcript is read for token usage. When a hook is called, the
/// latest one or two model responses may not be in the transcript yet; they are counted at a later
/// hook event.
///
/// The events of single calls are left out: PostToolBatch follows them at once.
const TOKEN_EVENTS: [&str; 6] =
    ["SessionStart", "UserPromptSubmit", "PostToolBatch", "Stop", "StopFailure", "SessionEnd"];

/// Some prompts are written by Claude Code, not by the user. Each entry is the text with which such
/// a prompt begins, and the kind of custom message as which the prompt is stored.
pub(super) const GENERATED_PROMPTS: [(&str, &str); 3] = [
    ("<task-notification>", "task_notification"),
    ("<teammate-message", "teammate_message"),
    ("<system-reminder>", "system_reminder"),
];

/// The tag around the error message of a call that Claude Code did not run.
const CALL_ERROR_TAG: &str = "<tool_use_error>";

/// Text that the error message of a call contains if the user's permission settings refused it.
const DENIED_BY_RULE: &str = "denied by your permission settings";

#[derive(Deserialize)]
struct PayloadWire {
    session_id: String,
    hook_event_name: String,
    cwd: Option<PathBuf>,
    transcript_path: Option<PathBuf>,
    agent_id: Option<String>,
    agent_type: Option<String>,
    source: Option<String>,
    prompt: Option<String>,
    tool_use_id: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_response: Option<Value>,
    error: Option<String>,
    reason: Option<String>,
    last_assistant_message: Option<String>,
    tool_calls: Option<Vec<CallWire>>,
}

#[derive(Deserialize)]
struct CallWire {
    tool_use_id: String,
    tool_name: String,
    tool_input: Value,
    tool_response: Value,
}

pub(in crate::hosts) fn decode(host: Host, bytes: &[u8], at: Timestamp) -> Decoded {
    let decode = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let run = session_run(&payload.session_id, payload.agent_id.as_deref());
        let cwd = payload.cwd.clone();
        // A subagent's responses are in another transcript, whose path is not in the payload.
        let is_main = run.parent_run_id.is_none();
        let has_tokens = TOKEN_EVENTS.contains(&payload.hook_event_name.as_str());
        let transcript = payload.transcript_path.clone().filter(|_| is_main && has_tokens);
        let decoded = Decoder { host, run, at }.decode(payload)?;
        Some(Decoded { cwd, transcript, ..decoded })
    };
    decode().unwrap_or_else(|| host.unread(bytes, at))
}

/// Adds the token usage of model responses, the model and the version from the end of the
/// transcript.
pub(in crate::hosts) fn add_transcript(decoded: Decoded, tail: &[u8]) -> Decoded {
    add_transcript_end(decoded, transcript::read(tail))
}

struct Decoder {
    host: Host,
    run: RunIdentity,
    at: Timestamp,
}

impl Decoder {
    /// Decodes a payload; `None` if a required field is missing or the hook event is unknown.
    fn decode(self, payload: PayloadWire) -> Option<Decoded> {
        let (payload, reply) = match payload.hook_event_name.as_str() {
            "SessionStart" => {
                let started = match payload.source.as_deref() {
                    Some("resume") => TrajectoryPayload::Resumed,
                    Some("compact") => TrajectoryPayload::ContextCompacted { trigger: None },
                    _ => TrajectoryPayload::RunStarted { identity: self.run.clone() },
                };
                (started, Some((ReplyForm::HookOutput("SessionStart"), DecisionPoint::PreRender)))
            }
            "UserPromptSubmit" => {
                let message = prompt(payload.prompt?, &GENERATED_PROMPTS);
                let appended = TrajectoryPayload::MessageAppended { message };
                (
                    appended,
                    Some((ReplyForm::HookOutput("UserPromptSubmit"), DecisionPoint::PreRender)),
                )
            }
            "PreToolUse" => {
                let started = TrajectoryPayload::ToolStarted {
                    tool_call_id: payload.tool_use_id?.into(),
                    tool_name: payload.tool_name?.into(),
                    args: payload.tool_input.unwrap_or_default(),
                };
                (
                    started,
                    Some((ReplyForm::HookOutput("PreToolUse"), DecisionPoint::PreToolExecution)),
                )
            }
            "PostToolUse" => {
                let result = tool_result(payload.tool_response.unwrap_or_default());
                let ended = tool_ended(payload.tool_use_id?, payload.tool_name?, result);
                (ended, Some((ReplyForm::HookOutput("PostToolUse"), DecisionPoint::PostToolResult)))
            }
            "PostToolUseFailure" => {
                let result = ToolResult::error(payload.error.unwrap_or_default());
                let ended = tool_ended(payload.tool_use_id?, payload.tool_name?, result);
                (
                    ended,
                    Some((
                        ReplyForm::HookOutput("PostToolUseFailure"),
                        DecisionPoint::PostToolResult,
                    )),
                )
            }
            "PostToolBatch" => return Some(self.batch(payload.tool_calls?)),
            "Stop" => (assistant_message(payload.last_assistant_message, None), None),
            "StopFailure" => {
                let error = payload.error.unwrap_or_default();
                (assistant_message(payload.last_assistant_message, Some(error)), None)
            }
            "SubagentStart" => {
                let identity = self.run.clone();
                (TrajectoryPayload::RunStarted { identity }, None)
            }
            // A subagent without a type is Claude Code's internal agent that summarises the
            // conversation. It is not recorded.
            "SubagentStop" if payload.agent_type.as_deref().unwrap_or_default().is_empty() => {
                return Some(Decoded::nothing());
            }
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

    /// Decodes PostToolBatch, which lists all calls of a turn after they have ended. For each call
    /// that ran, an earlier hook event has reported the end, and the store drops the events created
    /// here as duplicates. So every call is decoded as if it had not run: its result is either an
    /// error that kept Claude Code from running it, or the reason why it was refused.
    fn batch(&self, calls: Vec<CallWire>) -> Decoded {
        let mut events = Vec::new();
        let turn_key = calls.first().map(|call| format!("after:{}", call.tool_use_id));
        for CallWire { tool_use_id, tool_name, tool_input, tool_response } in calls {
            let started = TrajectoryPayload::ToolStarted {
                tool_call_id: (&tool_use_id).into(),
                tool_name: (&tool_name).into(),
                args: tool_input,
            };
            events.push(self.event(started));
            let result = tool_result(tool_response);
            let text = result.comparable_text();
            let end = if text.starts_with(CALL_ERROR_TAG) && !text.contains(DENIED_BY_RULE) {
                let failed = ToolResult { is_error: true, ..result };
                tool_ended(tool_use_id, tool_name, failed)
            } else {
                TrajectoryPayload::Denied {
                    tool_call_id: tool_use_id.into(),
                    tool_name: tool_name.into(),
                    reason: Some(text.into_owned()),
                }
            };
            events.push(self.event(end));
        }
        let mut turn = self
            .event(TrajectoryPayload::TurnStarted)
            .at_decision_point(DecisionPoint::PreToolSelection);
        if let Some(key) = turn_key {
            turn = turn.with_fact(key);
        }
        events.push(turn);
        let reply = Some(ReplyForm::HookOutput("PostToolBatch"));
        Decoded { events, reply, ..Decoded::nothing() }
    }

    fn event(&self, payload: TrajectoryPayload) -> Event {
        self.host.event(midcourse::Channel::Hook, self.run.clone(), self.at, payload)
    }
}

/// Hook events that need no record, or that only repeat another hook event.
const IGNORED_EVENTS: [&str; 22] = [
    "Notification",
    // PostToolBatch reports the same refusal, with the text that the model gets.
    "PermissionDenied",
    "UserPromptExpansion",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
];
