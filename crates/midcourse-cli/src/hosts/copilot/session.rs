//! GitHub Copilot CLI's session files (`~/.copilot/session-state/SESSION/events.jsonl`): one event per
//! line. Events of subagents are in the file of their session, with the id of the subagent.
//!
//! Hooks of Copilot CLI do not report the ids of calls that are in these files.

use std::borrow::Cow;

use midcourse::{AgentMessage, Timestamp, ToolResult, TrajectoryPayload, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::Host;
use super::super::imported_run::{Call, Description, ImportedRun, ImportedRuns, Seen};
use super::super::payload::tool_ended;
use super::decode::without_shell_id;
use crate::session_file::{Fate, Found, Head, LineTime, SessionFile, SessionReader};

/// Types of events that contain nothing to record, or only what other events contain too.
const IGNORED_TYPES: [&str; 28] = [
    "assistant.intent",
    "assistant.message_delta",
    "assistant.reasoning_delta",
    "assistant.turn_end",
    "assistant.turn_start",
    "hook.end",
    "hook.start",
    "pending_messages.modified",
    "permission.completed",
    "permission.requested",
    "session.background_tasks_changed",
    "session.compaction_start",
    "session.context_changed",
    "session.handoff",
    "session.idle",
    "session.info",
    "session.mode_changed",
    "session.shutdown",
    "session.snapshot_rewind",
    "session.title_changed",
    "session.truncation",
    "session.usage_info",
    "subagent.completed",
    "subagent.configured",
    "subagent.failed",
    "subagent.selected",
    "subagent.started",
    "system.message",
];

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_event = |line: &serde_json::Map<String, Value>| {
        let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_object = line.get("data").is_some_and(Value::is_object);
        let groups = ["session.", "user.", "assistant.", "tool.", "system.", "subagent.", "hook."];
        is_object && line.contains_key("parentId") && groups.iter().any(|it| kind.starts_with(it))
    };
    head.lines.iter().any(is_event)
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    let folder = file.path.parent().and_then(|folder| folder.file_name());
    let folder = folder.map(|name| name.to_string_lossy().into_owned());
    Box::new(Reader {
        time: LineTime::new(file),
        session: folder.filter(|name| !name.is_empty()).unwrap_or_else(|| file.stem()),
        runs: ImportedRuns::default(),
        seen: Seen::default(),
    })
}

struct Reader {
    time: LineTime,
    /// The id of the session: the name of the folder, until an event has the id.
    session: String,
    runs: ImportedRuns,
    /// Calls that have begun.
    seen: Seen,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    agent_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartWire {
    session_id: Option<String>,
    copilot_version: Option<String>,
    #[serde(alias = "newModel")]
    selected_model: Option<String>,
    context: Option<ContextWire>,
}

#[derive(Deserialize)]
struct ContextWire {
    cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageWire {
    #[serde(default)]
    content: String,
    /// Where a message of the user comes from; missing if it is from the user.
    source: Option<String>,
    message_id: Option<String>,
    reasoning_text: Option<String>,
    #[serde(default)]
    tool_requests: Vec<RequestWire>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestWire {
    tool_call_id: String,
    #[serde(alias = "toolName")]
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompleteWire {
    tool_call_id: String,
    success: Option<bool>,
    result: Option<ResultWire>,
    error: Option<ErrorWire>,
}

#[derive(Deserialize)]
struct ResultWire {
    #[serde(default)]
    content: String,
}

#[derive(Deserialize)]
struct ErrorWire {
    #[serde(default)]
    message: String,
    code: Option<String>,
}

#[derive(Deserialize)]
struct UsageRecordWire {
    usage: UsageWire,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageWire {
    api_call_id: Option<String>,
    /// Includes the tokens that were read from and written to the cache.
    #[serde(default)]
    input_tokens: f64,
    #[serde(default)]
    output_tokens: f64,
    #[serde(default)]
    cache_read_tokens: f64,
    #[serde(default)]
    cache_write_tokens: f64,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let line: LineWire<'_> = match serde_json::from_slice(bytes) {
            Ok(line) => line,
            Err(error) => return found.invalid("(invalid line)", error),
        };
        let at = self.time.of_line(line.timestamp.as_deref());
        match self.read_event(&line, bytes, at, found) {
            Ok(fate) => found.count(&line.kind, fate),
            Err(error) => found.invalid(&line.kind, error),
        }
    }

    fn end(&mut self, found: &mut Found) {
        self.runs.finish_responses(found);
    }
}

impl Reader {
    fn read_event(
        &mut self,
        line: &LineWire<'_>,
        bytes: &[u8],
        at: Timestamp,
        found: &mut Found,
    ) -> Result<Fate, serde_json::Error> {
        let (kind, data) = (&*line.kind, line.data.get());
        if IGNORED_TYPES.contains(&kind) {
            return Ok(Fate::Ignored);
        }
        let mut about = Description::default();
        let starts = ["session.start", "session.resume", "session.model_change"].contains(&kind);
        if starts {
            let start: StartWire = serde_json::from_str(data)?;
            if kind == "session.start"
                && let Some(session) = start.session_id.filter(|id| !id.is_empty())
            {
                self.session = session;
            }
            about = Description {
                folder: start.context.and_then(|context| context.cwd),
                host_version: start.copilot_version,
                model: start.selected_model,
            };
        }
        let session = (&*self.session, line.agent_id.as_deref());
        let Some(run) = self.runs.run(Host::Copilot, session, at, found) else {
            return Ok(Fate::Unknown);
        };
        run.describe(at, about, found);
        let key = &*line.id;
        match kind {
            _ if starts => {}
            "user.message" => read_user(run, key, serde_json::from_str(data)?, at, found),
            "assistant.message" => {
                let message: MessageWire = serde_json::from_str(data)?;
                run.finish_response(found);
                let key = message.message_id.unwrap_or_else(|| key.to_owned());
                run.reasoning(at, &key, message.reasoning_text.unwrap_or_default(), found);
                run.text(at, &key, message.content, found);
                for RequestWire { tool_call_id: id, name, arguments } in message.tool_requests {
                    self.seen.is_new(&id);
                    run.call(at, &key, Call { id, tool: name, args: arguments }, found);
                }
                run.finish_response(found);
            }
            "tool.execution_start" => {
                let start: RequestWire = serde_json::from_str(data)?;
                if !self.seen.is_new(&start.tool_call_id) {
                    return Ok(Fate::Ignored);
                }
                let RequestWire { tool_call_id: id, name, arguments } = start;
                run.call(at, key, Call { id, tool: name, args: arguments }, found);
            }
            "tool.execution_complete" => {
                let complete: CompleteWire = serde_json::from_str(data)?;
                let id = complete.tool_call_id.clone();
                run.end_call(at, &id, found, |tool| end(tool, complete));
            }
            "session.usage_record" => {
                let UsageRecordWire { usage } = serde_json::from_str(data)?;
                let id = usage.api_call_id.clone().unwrap_or_else(|| key.to_owned());
                run.usage(at, id, usage.usage(), found);
            }
            "session.compaction_complete" => {
                let compacted = TrajectoryPayload::ContextCompacted { trigger: None };
                run.fact(at, format!("line:{key}"), compacted, found);
            }
            "session.error" => {
                let ErrorWire { message, .. } = serde_json::from_str(data)?;
                run.finish_response(found);
                run.error(at, key, message, found);
                run.finish_response(found);
            }
            "abort" => {
                let kind = "interrupt".to_owned();
                let message = AgentMessage::Custom { kind, payload: Value::Null, timestamp: None };
                run.message(at, key, message, found);
            }
            _ => {
                run.unread(at, key, bytes, found);
                return Ok(Fate::Unknown);
            }
        }
        Ok(Fate::Used)
    }
}

fn read_user(
    run: &mut ImportedRun,
    key: &str,
    message: MessageWire,
    at: Timestamp,
    found: &mut Found,
) {
    let MessageWire { content, source, message_id, .. } = message;
    // The task of a subagent comes from the agent that started it.
    let is_prompt = source.as_deref().is_none_or(|it| it == "user" || it.starts_with("agent-"));
    let message = match source.filter(|_| !is_prompt) {
        None => AgentMessage::user(content),
        Some(kind) => {
            AgentMessage::Custom { kind, payload: Value::String(content), timestamp: None }
        }
    };
    run.message(at, message_id.as_deref().unwrap_or(key), message, found);
}

fn end(tool: String, complete: CompleteWire) -> TrajectoryPayload {
    let CompleteWire { tool_call_id: id, success, result, error } = complete;
    match (result, error) {
        (_, Some(ErrorWire { message, code })) if code.as_deref() == Some("denied") => {
            TrajectoryPayload::Denied {
                tool_call_id: id.into(),
                tool_name: tool.into(),
                reason: Some(message),
            }
        }
        (None, Some(error)) => tool_ended(id, tool, ToolResult::error(error.message)),
        (result, _) => {
            let text = without_shell_id(&result.map(|it| it.content).unwrap_or_default());
            let is_error = success == Some(false);
            tool_ended(id, tool, ToolResult { is_error, ..ToolResult::text(text) })
        }
    }
}

impl UsageWire {
    fn usage(&self) -> Usage {
        let cached = self.cache_read_tokens + self.cache_write_tokens;
        Usage {
            input_tokens: whole(self.input_tokens - cached),
            output_tokens: whole(self.output_tokens),
            cache_creation_input_tokens: whole(self.cache_write_tokens),
            cache_read_input_tokens: whole(self.cache_read_tokens),
            is_estimate: false,
        }
    }
}

/// A count of tokens, which Copilot CLI may write as `12.0`.
fn whole(count: f64) -> i64 {
    serde_json::Number::from_f64(count.max(0.0).floor())
        .and_then(|count| format!("{:.0}", count.as_f64()?).parse().ok())
        .unwrap_or_default()
}
