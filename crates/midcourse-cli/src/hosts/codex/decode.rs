//! Decodes the payloads of Codex's hooks, and adds information from the rollout (Codex's transcript
//! of the session).

use std::path::PathBuf;

use midcourse::{
    AgentMessage, DecisionPoint, RunIdentity, RunOutcome, Timestamp, ToolResult, TrajectoryPayload,
    looks_failed,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::payload::{
    assistant_message, outcome, prompt, starts_run, tool_ended, usage_events,
};
use super::super::tool_result::tool_result;
use super::super::{About, Decoded, Host, ReplyForm, session_run};
use super::rollout::Rollout;

const HOST: Host = Host::Codex;

/// Some prompts are written by Codex, not by the user. Each entry is the text with which such a
/// prompt begins, and the kind of custom message as which the prompt is stored.
const GENERATED_PROMPTS: [(&str, &str); 2] =
    [("<subagent_notification>", "subagent_notification"), ("<hook_prompt", "hook_prompt")];

/// How a prompt begins to which an editor has added the names of open files, and what precedes the
/// user's words in it.
const EDITOR_CONTEXT: (&str, &str) = ("# Context from my IDE setup:", "## My request for Codex:\n");

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
    model: Option<String>,
    reason: Option<String>,
    last_assistant_message: Option<String>,
}

pub(in crate::hosts) fn decode(bytes: &[u8], at: Timestamp) -> Decoded {
    let decode = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let run = session_run(&payload.session_id, payload.agent_id.as_deref());
        decode_payload(run, at, payload)
    };
    decode().unwrap_or_else(|| HOST.unread(bytes, at))
}

/// Decodes a payload; `None` if a required field is missing or the hook event is unknown.
fn decode_payload(run: RunIdentity, at: Timestamp, payload: PayloadWire) -> Option<Decoded> {
    let mut transcript = None;
    let cwd = payload.cwd;
    // Every payload has the model; a prompt and the start of the session are often enough.
    let begins = matches!(payload.hook_event_name.as_str(), "SessionStart" | "UserPromptSubmit");
    let about = About { model: payload.model.filter(|_| begins), ..About::default() };
    let (payload, reply) = match payload.hook_event_name.as_str() {
        "SessionStart" => {
            let started = match payload.source.as_deref() {
                Some("resume") => TrajectoryPayload::Resumed,
                // The hook PostCompact has already reported this compaction.
                Some("compact") => return Some(Decoded::nothing()),
                _ => TrajectoryPayload::RunStarted { identity: run.clone() },
            };
            transcript = payload.transcript_path;
            (started, Some((ReplyForm::HookOutput("SessionStart"), DecisionPoint::PreRender)))
        }
        "UserPromptSubmit" => {
            transcript = payload.transcript_path;
            let message = user_prompt(payload.prompt?);
            let appended = TrajectoryPayload::MessageAppended { message };
            (appended, Some((ReplyForm::HookOutput("UserPromptSubmit"), DecisionPoint::PreRender)))
        }
        "PreToolUse" => {
            transcript = payload.transcript_path;
            let started = TrajectoryPayload::ToolStarted {
                tool_call_id: payload.tool_use_id?.into(),
                tool_name: payload.tool_name?.into(),
                args: payload.tool_input.unwrap_or_default(),
            };
            (started, Some((ReplyForm::HookOutput("PreToolUse"), DecisionPoint::PreToolExecution)))
        }
        "PostToolUse" => {
            transcript = payload.transcript_path;
            let mut result = tool_result(payload.tool_response.unwrap_or_default());
            result.is_error |= looks_failed(&result.comparable_text());
            let ended = tool_ended(payload.tool_use_id?, payload.tool_name?, result);
            (ended, Some((ReplyForm::HookOutput("PostToolUse"), DecisionPoint::PreToolSelection)))
        }
        "Stop" => {
            transcript = payload.transcript_path;
            (assistant_message(payload.last_assistant_message, None), None)
        }
        "Interrupt" => (TrajectoryPayload::MessageAppended { message: interruption() }, None),
        "PostCompact" => (TrajectoryPayload::ContextCompacted { trigger: payload.trigger }, None),
        "SubagentStart" => (TrajectoryPayload::RunStarted { identity: run.clone() }, None),
        "SubagentStop" => {
            transcript = payload.agent_transcript_path;
            let last_message = payload.last_assistant_message.map(AgentMessage::assistant);
            let new_messages = last_message.into_iter().collect();
            let outcome = RunOutcome::Completed;
            (TrajectoryPayload::RunEnded { outcome, new_messages }, None)
        }
        "SessionEnd" => {
            let outcome = outcome(payload.reason);
            (TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() }, None)
        }
        "PreCompact" | "PermissionRequest" => return Some(Decoded::nothing()),
        _ => return None,
    };
    let event = HOST.event(midcourse::Channel::Hook, run, at, payload);
    Some(Decoded { transcript, cwd, about, ..Decoded::one(event, reply) })
}

/// The message for a prompt, without what an editor added to it.
pub(super) fn user_prompt(text: String) -> AgentMessage {
    let (beginning, end) = EDITOR_CONTEXT;
    let words = text.strip_prefix(beginning).and_then(|rest| rest.split_once(end));
    let text = words.map_or(text.as_str(), |(_, words)| words).to_owned();
    prompt(text, &GENERATED_PROMPTS)
}

/// The message for an interruption by the user.
pub(super) fn interruption() -> AgentMessage {
    AgentMessage::Custom { kind: "interrupt".to_owned(), payload: Value::Null, timestamp: None }
}

/// Adds what only Codex's transcript (the rollout) contains: exit codes of commands, calls whose
/// end no hook reported, and the token usage of model responses.
pub(in crate::hosts) fn add_transcript(
    decoded: Decoded,
    tail: &[u8],
    counts_tokens: bool,
) -> Decoded {
    let rollout = Rollout::parse(tail);
    let (begins_something, starts_run) = match decoded.events.first() {
        Some(event) => (event.begins_something(), starts_run(event)),
        None => return decoded,
    };
    if starts_run {
        return decoded;
    }
    let mut decoded = if begins_something { decoded } else { add_calls(decoded, &rollout) };
    let Some(event) = decoded.events.first() else { return decoded };
    let is_answer = matches!(event.payload, TrajectoryPayload::MessageAppended { .. });
    let responses = if counts_tokens { rollout.usage() } else { Vec::new() };
    let mut events = usage_events(event, responses);
    events.append(&mut decoded.events);
    let mut about = decoded.about;
    if is_answer {
        about.host_version = rollout.version();
    }
    Decoded { events, about, ..decoded }
}

fn add_calls(mut decoded: Decoded, rollout: &Rollout) -> Decoded {
    let Some(event) = decoded.events.first_mut() else { return decoded };
    if let TrajectoryPayload::ToolEnded { tool_call_id, result, is_error, .. } = &mut event.payload
    {
        if let Some(exit_code) = rollout.exit_code(tool_call_id.as_str()) {
            add_exit_code(result, exit_code);
            *is_error = result.is_error;
        }
        return decoded;
    }
    let (run, at) = (event.run.clone(), event.at);
    let event = |payload| HOST.event(midcourse::Channel::Transcript, run.clone(), at, payload);
    let mut events = Vec::new();
    for call in rollout.unreported_calls() {
        events.push(event(TrajectoryPayload::ToolStarted {
            tool_call_id: (&call.id).into(),
            tool_name: (&call.tool).into(),
            args: call.args,
        }));
        events.push(event(unreported_end(call.id, call.tool, tool_result(call.output))));
    }
    events.append(&mut decoded.events);
    Decoded { events, ..decoded }
}

/// The end of a call that no hook reports.
pub(super) fn unreported_end(
    id: String,
    tool: String,
    mut result: ToolResult,
) -> TrajectoryPayload {
    let text = result.comparable_text();
    if is_refusal(&text) {
        return TrajectoryPayload::Denied {
            tool_call_id: id.into(),
            tool_name: tool.into(),
            reason: Some(text.into_owned()),
        };
    }
    result.is_error = text.starts_with("unsupported ") || looks_failed(&text);
    tool_ended(id, tool, result)
}

/// Whether the output of a call says that the call was refused: by a rule or the approval policy,
/// by the sandbox (before applying a patch), or by one of the user's hooks.
fn is_refusal(output: &str) -> bool {
    let is_command = output.starts_with("exec_command failed: CreateProcess");
    let prefixes = ["Command blocked by PreToolUse hook", "approval policy is ", "patch rejected"];
    (is_command && output.contains("\"Rejected("))
        || prefixes.iter().any(|prefix| output.starts_with(prefix))
}

/// Sets whether a result is an error, according to the exit code of the command. A nonzero exit
/// code is also added to the text of the result, in the words that Codex shows to the model.
pub(super) fn add_exit_code(result: &mut ToolResult, exit_code: i64) {
    result.is_error = exit_code != 0;
    if exit_code != 0 {
        let text = format!("Process exited with code {exit_code}\n{}", result.comparable_text());
        *result =
            ToolResult { details: json!({"exit_code": exit_code}), ..ToolResult::error(text) };
    }
}
