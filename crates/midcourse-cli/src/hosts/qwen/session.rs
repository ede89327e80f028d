//! Qwen Code's session files (`~/.qwen/projects/…/chats/SESSION.jsonl`, and one file per subagent): one
//! JSON object per line.
//!
//! A line of type `assistant` is a whole model response. Ids of runs, calls and token counts are those
//! that the hooks report. (Hooks of releases before 0.24 report call ids that are in no file.)

use std::borrow::Cow;

use midcourse::{AgentMessage, Timestamp, ToolResult, TrajectoryPayload};
use serde::Deserialize;
use serde_json::Value;

use super::super::Host;
use super::super::imported_run::{Call, Description, ImportedRun, ImportedRuns};
use super::super::payload::{prompt, tool_ended};
use super::decode::GENERATED_PROMPTS;
use super::transcript::UsageWire;
use crate::session_file::{Fate, Found, Head, LineTime, SessionFile, SessionReader};

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_line = |line: &serde_json::Map<String, Value>| {
        let has_parts = line.get("message").is_some_and(|it| it.get("parts").is_some());
        let is_system =
            line.get("type").is_some_and(|it| it == "system") && line.contains_key("systemPayload");
        line.contains_key("uuid") && line.contains_key("sessionId") && (has_parts || is_system)
    };
    head.lines.iter().any(is_line)
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { time: LineTime::new(file), runs: ImportedRuns::default() })
}

struct Reader {
    time: LineTime,
    runs: ImportedRuns,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineWire<'a> {
    #[serde(borrow)]
    uuid: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    /// In the lines of a subagent: its id.
    #[serde(borrow)]
    agent_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    subtype: Option<Cow<'a, str>>,
    /// Who wrote the line: `real_user`, `system` and so on. Missing in lines of subagents.
    #[serde(borrow)]
    provenance: Option<Cow<'a, str>>,
    cwd: Option<String>,
    version: Option<String>,
    model: Option<String>,
    message: Option<MessageWire>,
    usage_metadata: Option<UsageWire>,
    tool_call_result: Option<ResultWire>,
}

#[derive(Deserialize)]
struct MessageWire {
    #[serde(default)]
    parts: Vec<PartWire>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartWire {
    text: Option<String>,
    /// Whether the text is a thought.
    #[serde(default)]
    thought: Value,
    function_call: Option<CallWire>,
    function_response: Option<ResponseWire>,
}

#[derive(Deserialize)]
struct CallWire {
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
struct ResponseWire {
    id: Option<String>,
    #[serde(default)]
    response: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultWire {
    status: Option<String>,
    error_type: Option<String>,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let line: LineWire<'_> = match serde_json::from_slice(bytes) {
            Ok(line) => line,
            Err(error) => return found.invalid("(invalid line)", error),
        };
        let at = self.time.of_line(line.timestamp.as_deref());
        let kind = match &line.subtype {
            Some(subtype) => format!("{} {subtype}", line.kind),
            None => line.kind.to_string(),
        };
        let session = (&*line.session_id, line.agent_id.as_deref());
        let run = match line.session_id.is_empty() {
            true => None,
            false => self.runs.run(Host::Qwen, session, at, found),
        };
        let Some(run) = run else { return found.count(&kind, Fate::Unknown) };
        let about = Description {
            folder: line.cwd.clone(),
            host_version: line.version.clone(),
            model: line.model.clone(),
        };
        run.describe(at, about, found);
        let fate = match &*line.kind {
            "assistant" => read_response(run, line, at, found),
            "user" => read_user(run, line, at, found),
            "tool_result" => read_results(run, line, at, found),
            "system" => match line.subtype.as_deref() {
                Some("chat_compression") => {
                    let compacted = TrajectoryPayload::ContextCompacted { trigger: None };
                    run.fact(at, format!("line:{}", line.uuid), compacted, found);
                    Fate::Used
                }
                _ => Fate::Ignored,
            },
            _ => {
                run.unread(at, &line.uuid, bytes, found);
                Fate::Unknown
            }
        };
        found.count(&kind, fate);
    }

    fn end(&mut self, found: &mut Found) {
        self.runs.finish_responses(found);
    }
}

fn read_response(
    run: &mut ImportedRun,
    line: LineWire<'_>,
    at: Timestamp,
    found: &mut Found,
) -> Fate {
    run.finish_response(found);
    let key = &*line.uuid;
    for part in line.message.map(|message| message.parts).unwrap_or_default() {
        let is_thought = part.thought == true || part.thought.is_string();
        match (part.function_call, part.text) {
            (Some(CallWire { id: Some(id), name, args }), _) => {
                run.call(at, key, Call { id, tool: name, args }, found);
            }
            (_, Some(text)) if is_thought => run.reasoning(at, key, text, found),
            (_, Some(text)) => run.text(at, key, text, found),
            (_, None) => {}
        }
    }
    if let Some(usage) = line.usage_metadata {
        run.usage(at, line.uuid.to_string(), usage.usage(), found);
    }
    run.finish_response(found);
    Fate::Used
}

fn read_user(run: &mut ImportedRun, line: LineWire<'_>, at: Timestamp, found: &mut Found) -> Fate {
    let parts = line.message.map(|message| message.parts).unwrap_or_default();
    let texts: Vec<String> = parts.into_iter().filter_map(|part| part.text).collect();
    if texts.is_empty() {
        return Fate::Ignored;
    }
    let mut message = prompt(texts.join("\n"), &GENERATED_PROMPTS);
    let is_from_user = line.provenance.is_none_or(|from| from == "real_user");
    if !is_from_user && let AgentMessage::User { .. } = message {
        let kind = line.subtype.as_deref().unwrap_or("system").to_owned();
        let payload = Value::String(texts.join("\n"));
        message = AgentMessage::Custom { kind, payload, timestamp: None };
    }
    run.message(at, &line.uuid, message, found);
    Fate::Used
}

fn read_results(
    run: &mut ImportedRun,
    line: LineWire<'_>,
    at: Timestamp,
    found: &mut Found,
) -> Fate {
    let mut fate = Fate::Ignored;
    let parts = line.message.map(|message| message.parts).unwrap_or_default();
    for response in parts.into_iter().filter_map(|part| part.function_response) {
        let ResponseWire { id: Some(id), response } = response else { continue };
        run.end_call(at, &id, found, |tool| {
            end(&id, tool, &response, line.tool_call_result.as_ref())
        });
        fate = Fate::Used;
    }
    fate
}

fn end(id: &str, tool: String, response: &Value, result: Option<&ResultWire>) -> TrajectoryPayload {
    let text = |name: &str| match response.get(name)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let error = text("error");
    let status = result.and_then(|result| result.status.as_deref());
    let is_error = error.is_some() || status.is_some_and(|status| status != "success");
    let text = error.or_else(|| text("output")).unwrap_or_else(|| response.to_string());
    let error_type = result.and_then(|result| result.error_type.as_deref());
    if error_type == Some("execution_denied") {
        return TrajectoryPayload::Denied {
            tool_call_id: id.into(),
            tool_name: tool.into(),
            reason: Some(text),
        };
    }
    tool_ended(id.to_owned(), tool, ToolResult { is_error, ..ToolResult::text(text) })
}
