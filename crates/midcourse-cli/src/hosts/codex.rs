//! Codex's hooks.
//!
//! They do not say how a command exited; and a call that was refused, a patch that failed, a tool
//! that does not exist and a command that goes on in the background have no event for their end. The
//! session's own file (the rollout) knows both, and what the model's answers have used, so its end is
//! looked at ([`rollout`]); an agent that works for the session has a file of its own. Codex drops an
//! answer that has one field more than it expects, and one on Stop.

mod rollout;

use std::path::PathBuf;

use midcourse::{
    AgentMessage, DecisionPoint, RunIdentity, RunOutcome, Timestamp, ToolResult, TrajectoryPayload,
    looks_failed,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::facts::{
    INTERRUPT, answered, begins_run, ended, outcome, point_before_render, prompt, used,
};
use super::{Carrier, Decoded, Host, response, session_run};
use rollout::Rollout;

const HOST: Host = Host::Codex;

/// The events that tell something; none of them asks for a decision.
pub(super) const EVENTS: [&str; 10] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostCompact",
    "Stop",
    "Interrupt",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];

/// How prompts begin that the client writes itself, and what they are.
const NOTES: [(&str, &str); 2] =
    [("<subagent_notification>", "subagent_notification"), ("<hook_prompt", "hook_prompt")];

#[derive(Deserialize)]
struct PayloadWire {
    session_id: String,
    hook_event_name: String,
    cwd: Option<PathBuf>,
    transcript_path: Option<PathBuf>,
    agent_transcript_path: Option<PathBuf>,
    agent_id: Option<String>,
    source: Option<String>,
    prompt: Option<String>,
    tool_use_id: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_response: Option<Value>,
    trigger: Option<String>,
    reason: Option<String>,
    last_assistant_message: Option<String>,
}

pub(super) fn decode(bytes: &[u8], at: Timestamp) -> Decoded {
    let read = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let run = session_run(&payload.session_id, payload.agent_id.as_deref());
        read(run, at, payload)
    };
    read().unwrap_or_else(|| HOST.unread(bytes, at))
}

pub(super) fn point_of(
    way: &str,
    is_child: bool,
    payload: &TrajectoryPayload,
) -> Option<DecisionPoint> {
    match (way, payload) {
        ("hook", TrajectoryPayload::ToolStarted { .. }) => Some(DecisionPoint::PreToolExecution),
        ("hook", TrajectoryPayload::ToolEnded { .. }) => Some(DecisionPoint::PreToolSelection),
        ("hook", _) => point_before_render(is_child, payload),
        _ => None,
    }
}

/// What the payload says; nothing, if it lacks what its event always has or is of an event that
/// this release does not know.
fn read(run: RunIdentity, at: Timestamp, payload: PayloadWire) -> Option<Decoded> {
    let mut beside = None;
    let folder = payload.cwd;
    let (payload, carrier) = match payload.hook_event_name.as_str() {
        "SessionStart" => {
            let begins = match payload.source.as_deref() {
                Some("resume") => TrajectoryPayload::Resumed,
                // It is on record since the compaction was done.
                Some("compact") => return Some(Decoded::nothing()),
                _ => TrajectoryPayload::RunStarted { identity: run.clone() },
            };
            beside = payload.transcript_path;
            (begins, Some(Carrier("SessionStart")))
        }
        "UserPromptSubmit" => {
            beside = payload.transcript_path;
            let message = prompt(payload.prompt?, &NOTES);
            let said = TrajectoryPayload::MessageAppended { message };
            (said, Some(Carrier("UserPromptSubmit")))
        }
        "PreToolUse" => {
            beside = payload.transcript_path;
            let started = TrajectoryPayload::ToolStarted {
                tool_call_id: payload.tool_use_id?.into(),
                tool_name: payload.tool_name?.into(),
                args: payload.tool_input.unwrap_or_default(),
            };
            (started, Some(Carrier("PreToolUse")))
        }
        "PostToolUse" => {
            beside = payload.transcript_path;
            let mut result = response::result(payload.tool_response.unwrap_or_default());
            result.is_error |= looks_failed(&result.comparable_text());
            let ended = ended(payload.tool_use_id?, payload.tool_name?, result);
            (ended, Some(Carrier("PostToolUse")))
        }
        "Stop" => {
            beside = payload.transcript_path;
            (answered(payload.last_assistant_message, None), None)
        }
        "Interrupt" => {
            let kind = INTERRUPT.to_owned();
            let message = AgentMessage::Custom { kind, payload: Value::Null, timestamp: None };
            (TrajectoryPayload::MessageAppended { message }, None)
        }
        "PostCompact" => (TrajectoryPayload::ContextCompacted { trigger: payload.trigger }, None),
        "SubagentStart" => (TrajectoryPayload::RunStarted { identity: run.clone() }, None),
        "SubagentStop" => {
            beside = payload.agent_transcript_path;
            let said = payload.last_assistant_message.map(AgentMessage::assistant);
            let (outcome, new_messages) = (RunOutcome::Completed, said.into_iter().collect());
            (TrajectoryPayload::RunEnded { outcome, new_messages }, None)
        }
        "SessionEnd" => {
            let outcome = outcome(payload.reason);
            (TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() }, None)
        }
        "PreCompact" | "PermissionRequest" => return Some(Decoded::nothing()),
        _ => return None,
    };
    let event = HOST.event("hook", run, at, payload);
    Some(Decoded { facts: vec![event], carrier, beside, folder })
}

/// Adds how the command exited, or the calls before that no hook told the end of.
pub(super) fn complete(decoded: Decoded, end: &[u8], for_tokens: bool) -> Decoded {
    let rollout = Rollout::read(end);
    let answers = if for_tokens { rollout.usage() } else { Vec::new() };
    let (begins, is_first) = match decoded.facts.first() {
        Some(event) => (event.begins_something(), begins_run(event)),
        None => return decoded,
    };
    if is_first {
        return decoded;
    }
    let mut decoded = if begins { decoded } else { complete_calls(decoded, &rollout) };
    let Some(event) = decoded.facts.first() else { return decoded };
    let mut facts = used(event, "rollout", answers);
    facts.append(&mut decoded.facts);
    Decoded { facts, ..decoded }
}

fn complete_calls(mut decoded: Decoded, rollout: &Rollout) -> Decoded {
    let Some(event) = decoded.facts.first_mut() else { return decoded };
    if let TrajectoryPayload::ToolEnded { tool_call_id, result, is_error, .. } = &mut event.payload
    {
        if let Some(exit) = rollout.exit_of(tool_call_id.as_str()) {
            settle(result, exit);
            *is_error = result.is_error;
        }
        return decoded;
    }
    let (run, at) = (event.run.clone(), event.at);
    let told = |payload| HOST.event("rollout", run.clone(), at, payload);
    let mut facts = Vec::new();
    for call in rollout.calls_untold() {
        let mut result = response::result(call.output);
        let text = result.comparable_text();
        facts.push(told(TrajectoryPayload::ToolStarted {
            tool_call_id: (&call.id).into(),
            tool_name: (&call.tool).into(),
            args: call.args,
        }));
        facts.push(told(if is_refusal(&text) {
            TrajectoryPayload::Denied {
                tool_call_id: call.id.into(),
                tool_name: call.tool.into(),
                reason: Some(text.into_owned()),
            }
        } else {
            result.is_error = text.starts_with("unsupported ") || looks_failed(&text);
            ended(call.id, call.tool, result)
        }));
    }
    facts.append(&mut decoded.facts);
    Decoded { facts, ..decoded }
}

/// Whether the output of a call says that it was not let run: by a rule or the approval policy, by
/// the sandbox before a patch, or by a hook of the user's.
fn is_refusal(output: &str) -> bool {
    let is_command = output.starts_with("exec_command failed: CreateProcess");
    let begins = ["Command blocked by PreToolUse hook", "approval policy is ", "patch rejected"];
    (is_command && output.contains("\"Rejected(")) || begins.iter().any(|it| output.starts_with(it))
}

/// Puts the exit of a command where the model reads it too.
fn settle(result: &mut ToolResult, exit: i64) {
    result.is_error = exit != 0;
    if exit != 0 {
        let text = format!("Process exited with code {exit}\n{}", result.comparable_text());
        *result = ToolResult { details: json!({"exit_code": exit}), ..ToolResult::error(text) };
    }
}
