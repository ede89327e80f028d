//! Claude Code's hooks.
//!
//! A call that failed has an event of its own; one that was refused is seen only in the batch that
//! it was part of, where it stands beside those that ran and are known already. Words are kept in
//! the conversation for good. A Stop that is answered makes the agent go on, so it never is.

mod transcript;

use std::path::PathBuf;

use midcourse::{
    AgentMessage, DecisionPoint, RunIdentity, RunOutcome, Timestamp, ToolResult, TrajectoryPayload,
};
use serde::Deserialize;
use serde_json::Value;

use super::facts::{answered, begins_run, ended, outcome, point_before_render, prompt, used};
use super::{Carrier, Decoded, Host, response, session_run};
use midcourse::Event;

/// The events that tell something; none of them asks for a decision.
pub(super) const EVENTS: [&str; 12] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PermissionDenied",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];

/// The events at which the session's file may have got further: it lags behind, by an answer or two.
/// What a session has used before it is resumed is told in front of what begins then.
const COUNTING: [&str; 7] = [
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Stop",
    "SessionEnd",
];

/// How prompts begin that the client writes itself, and what they are.
const NOTES: [(&str, &str); 3] = [
    ("<task-notification>", "task_notification"),
    ("<teammate-message", "teammate_message"),
    ("<system-reminder>", "system_reminder"),
];

/// What the client puts around the error of a call that it did not run.
const CALL_ERROR: &str = "<tool_use_error>";

/// What such an error says if a rule of the user's is behind it: then the call was refused.
const RULE: &str = "denied by your permission settings";

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

pub(super) fn decode(host: Host, bytes: &[u8], at: Timestamp) -> Decoded {
    let read = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let run = session_run(&payload.session_id, payload.agent_id.as_deref());
        let folder = payload.cwd.clone();
        // A helper's answers are in a file of its own.
        let is_main = run.parent_run_id.is_none();
        let counts = COUNTING.contains(&payload.hook_event_name.as_str());
        let beside = payload.transcript_path.clone().filter(|_| is_main && counts);
        let decoded = Reading { host, run, at }.read(payload)?;
        Some(Decoded { folder, beside, ..decoded })
    };
    read().unwrap_or_else(|| host.unread(bytes, at))
}

/// Adds what the model's answers have used, in front: what is said comes last.
pub(super) fn complete(mut decoded: Decoded, end: &[u8]) -> Decoded {
    let first = decoded.facts.first();
    let Some(event) = first.filter(|event| !begins_run(event)) else { return decoded };
    let mut facts = used(event, "transcript", transcript::usage(end));
    facts.append(&mut decoded.facts);
    Decoded { facts, ..decoded }
}

pub(super) fn point_of(
    way: &str,
    is_child: bool,
    payload: &TrajectoryPayload,
) -> Option<DecisionPoint> {
    match (way, payload) {
        ("batch", TrajectoryPayload::TurnStarted) => Some(DecisionPoint::PreToolSelection),
        ("hook", TrajectoryPayload::ToolStarted { .. }) => Some(DecisionPoint::PreToolExecution),
        ("hook", TrajectoryPayload::ToolEnded { .. }) => Some(DecisionPoint::PostToolResult),
        ("hook", TrajectoryPayload::ContextCompacted { .. }) => Some(DecisionPoint::PreRender),
        ("hook", _) => point_before_render(is_child, payload),
        _ => None,
    }
}

struct Reading {
    host: Host,
    run: RunIdentity,
    at: Timestamp,
}

impl Reading {
    /// What the payload says; nothing, if it lacks what its event always has or is of an event
    /// that this release does not know.
    fn read(self, payload: PayloadWire) -> Option<Decoded> {
        let (payload, carrier) = match payload.hook_event_name.as_str() {
            "SessionStart" => {
                let begins = match payload.source.as_deref() {
                    Some("resume") => TrajectoryPayload::Resumed,
                    Some("compact") => TrajectoryPayload::ContextCompacted { trigger: None },
                    _ => TrajectoryPayload::RunStarted { identity: self.run.clone() },
                };
                (begins, Some(Carrier("SessionStart")))
            }
            "UserPromptSubmit" => {
                let said =
                    TrajectoryPayload::MessageAppended { message: prompt(payload.prompt?, &NOTES) };
                (said, Some(Carrier("UserPromptSubmit")))
            }
            "PreToolUse" => {
                let started = TrajectoryPayload::ToolStarted {
                    tool_call_id: payload.tool_use_id?.into(),
                    tool_name: payload.tool_name?.into(),
                    args: payload.tool_input.unwrap_or_default(),
                };
                (started, Some(Carrier("PreToolUse")))
            }
            "PostToolUse" => {
                let result = response::result(payload.tool_response.unwrap_or_default());
                let ended = ended(payload.tool_use_id?, payload.tool_name?, result);
                (ended, Some(Carrier("PostToolUse")))
            }
            "PostToolUseFailure" => {
                let result = ToolResult::error(payload.error.unwrap_or_default());
                let ended = ended(payload.tool_use_id?, payload.tool_name?, result);
                (ended, Some(Carrier("PostToolUseFailure")))
            }
            "PostToolBatch" => return Some(self.batch(payload.tool_calls?)),
            "PermissionDenied" => {
                let denied = TrajectoryPayload::Denied {
                    tool_call_id: payload.tool_use_id?.into(),
                    tool_name: payload.tool_name?.into(),
                    reason: payload.reason,
                };
                (denied, None)
            }
            "Stop" => (answered(payload.last_assistant_message, None), None),
            "StopFailure" => {
                let error = payload.error.unwrap_or_default();
                (answered(payload.last_assistant_message, Some(error)), None)
            }
            "SubagentStart" => {
                let identity = self.run.clone();
                (TrajectoryPayload::RunStarted { identity }, None)
            }
            // The client's own helper, which sums a conversation up, is no agent of the user's.
            "SubagentStop" if payload.agent_type.as_deref().unwrap_or_default().is_empty() => {
                return Some(Decoded::nothing());
            }
            "SubagentStop" => {
                let said = payload.last_assistant_message.map(AgentMessage::assistant);
                let new_messages = said.into_iter().collect();
                let outcome = RunOutcome::Completed;
                (TrajectoryPayload::RunEnded { outcome, new_messages }, None)
            }
            "SessionEnd" => {
                let outcome = outcome(payload.reason);
                (TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() }, None)
            }
            name if OTHERS.contains(&name) => return Some(Decoded::nothing()),
            _ => return None,
        };
        let event = self.event("hook", payload);
        Some(Decoded { facts: vec![event], carrier, ..Decoded::nothing() })
    }

    /// All calls of a model's answer have ended, and the model is about to be asked again. Those
    /// that ran are known; what is not was refused, or could not be called.
    fn batch(&self, calls: Vec<CallWire>) -> Decoded {
        let mut facts = Vec::new();
        let first = calls.first().map(|call| format!("after:{}", call.tool_use_id));
        for CallWire { tool_use_id, tool_name, tool_input, tool_response } in calls {
            let started = TrajectoryPayload::ToolStarted {
                tool_call_id: (&tool_use_id).into(),
                tool_name: (&tool_name).into(),
                args: tool_input,
            };
            facts.push(self.event("batch", started));
            let result = response::result(tool_response);
            let text = result.comparable_text();
            let end = if text.starts_with(CALL_ERROR) && !text.contains(RULE) {
                let failed = ToolResult { is_error: true, ..result };
                ended(tool_use_id, tool_name, failed)
            } else {
                TrajectoryPayload::Denied {
                    tool_call_id: tool_use_id.into(),
                    tool_name: tool_name.into(),
                    reason: Some(text.into_owned()),
                }
            };
            facts.push(self.event("batch", end));
        }
        let mut turn = self.event("batch", TrajectoryPayload::TurnStarted);
        if let Some(first) = first {
            turn = turn.with_fact(first);
        }
        facts.push(turn);
        Decoded { facts, carrier: Some(Carrier("PostToolBatch")), ..Decoded::nothing() }
    }

    fn event(&self, way: &str, payload: TrajectoryPayload) -> Event {
        self.host.event(way, self.run.clone(), self.at, payload)
    }
}

/// Events that say nothing about the trajectory, or nothing that another one does not say.
const OTHERS: [&str; 21] = [
    "Notification",
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
