//! Decodes the payloads of Gemini CLI's hooks, and adds token usage from the transcript.

use std::path::PathBuf;

use midcourse::{AgentMessage, Channel, DecisionPoint, RunIdentity, Timestamp, TrajectoryPayload};
use serde::Deserialize;
use serde_json::Value;

use super::super::llm_content::tool_result;
use super::super::payload::{
    add_transcript_end, assistant_message, outcome, tool_ended, tool_started,
};
use super::super::{Decoded, Host, ReplyForm, UnnamedCall, session_run};
use super::transcript;

const HOST: Host = Host::Gemini;

/// The tags around what other hooks added to a prompt, and what separates it from the prompt.
const HOOK_CONTEXT: (&str, &str) = ("<hook_context>", "</hook_context>\n\n");

/// Hook events that need no record.
const IGNORED_EVENTS: [&str; 4] =
    ["PreCompress", "BeforeToolSelection", "AfterModel", "Notification"];

#[derive(Deserialize)]
struct PayloadWire {
    session_id: String,
    hook_event_name: String,
    timestamp: Option<String>,
    cwd: Option<PathBuf>,
    transcript_path: Option<PathBuf>,
    source: Option<String>,
    prompt: Option<String>,
    prompt_response: Option<String>,
    llm_request: Option<RequestWire>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_response: Option<Value>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct RequestWire {
    messages: Vec<Value>,
}

pub(in crate::hosts) fn decode(bytes: &[u8], at: Timestamp) -> Decoded {
    let decode = || {
        let payload: PayloadWire = serde_json::from_slice(bytes).ok()?;
        (!payload.session_id.is_empty()).then_some(())?;
        let run = session_run(&payload.session_id, None);
        // The events of single calls need no transcript: BeforeModel follows them at once.
        let is_call = matches!(payload.hook_event_name.as_str(), "BeforeTool" | "AfterTool");
        let transcript = payload.transcript_path.clone().filter(|_| !is_call);
        let cwd = payload.cwd.clone();
        let decoded = decode_payload(run, at, payload)?;
        Some(Decoded { cwd, transcript, ..decoded })
    };
    decode().unwrap_or_else(|| HOST.unread(bytes, at))
}

/// Adds the token usage of model responses and the model from the end of the transcript.
pub(in crate::hosts) fn add_transcript(decoded: Decoded, tail: &[u8]) -> Decoded {
    add_transcript_end(decoded, transcript::read(tail))
}

/// Decodes a payload; `None` if a required field is missing or the hook event is unknown.
fn decode_payload(run: RunIdentity, at: Timestamp, payload: PayloadWire) -> Option<Decoded> {
    let event = |payload| HOST.event(Channel::Hook, run.clone(), at, payload);
    let time = payload.timestamp;
    let (payload, reply) = match payload.hook_event_name.as_str() {
        // A message here would become part of the prompt that the hook BeforeAgent reports.
        "SessionStart" => match payload.source.as_deref() {
            Some("resume") => (TrajectoryPayload::Resumed, None),
            _ => (TrajectoryPayload::RunStarted { identity: run.clone() }, None),
        },
        "BeforeAgent" => {
            let message = AgentMessage::user(without_hook_context(&payload.prompt?));
            let reply = (ReplyForm::HookOutput("BeforeAgent"), DecisionPoint::PreRender);
            (TrajectoryPayload::MessageAppended { message }, Some(reply))
        }
        "BeforeModel" => {
            let reply = ReplyForm::ModelRequest(payload.llm_request?.messages);
            let turn = event(TrajectoryPayload::TurnStarted);
            let turn = match time {
                Some(time) => turn.with_fact(format!("at:{time}")),
                None => turn,
            };
            return Some(Decoded::one(turn, Some((reply, DecisionPoint::PreToolSelection))));
        }
        "BeforeTool" => {
            let (tool, args) = (payload.tool_name?, payload.tool_input.unwrap_or_default());
            let unnamed_call = Some(UnnamedCall::started(&tool, &args, time?));
            let started = event(tool_started(String::new(), tool, args));
            return Some(Decoded { unnamed_call, ..Decoded::one(started, None) });
        }
        "AfterTool" => {
            let (tool, args) = (payload.tool_name?, payload.tool_input.unwrap_or_default());
            let unnamed_call = Some(UnnamedCall::ended(&tool, &args, time?));
            let result = tool_result(payload.tool_response.unwrap_or_default());
            let ended = event(tool_ended(String::new(), tool, result));
            return Some(Decoded { unnamed_call, ..Decoded::one(ended, None) });
        }
        "AfterAgent" => (assistant_message(payload.prompt_response, None), None),
        "SessionEnd" => {
            let outcome = outcome(payload.reason.filter(|reason| reason != "exit"));
            (TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() }, None)
        }
        name if IGNORED_EVENTS.contains(&name) => return Some(Decoded::nothing()),
        _ => return None,
    };
    Some(Decoded::one(event(payload), reply))
}

/// The prompt as the user wrote it.
pub(super) fn without_hook_context(prompt: &str) -> &str {
    let (start, end) = HOOK_CONTEXT;
    let rest = prompt.strip_prefix(start).and_then(|rest| rest.split_once(end));
    rest.map_or(prompt, |(_, prompt)| prompt)
}
