//! Claude Code's session files (`~/.claude/projects/…/SESSION.jsonl`, and one file per subagent):
//! one JSON object per line.
//!
//! A model response has one line for each of its content blocks, all with the same message id. The
//! results of its tool calls follow as lines of type `user`. Ids of runs, calls and token counts are
//! those that the hooks report, so a session that hooks recorded gets no duplicates when its file
//! is imported.

mod response;
mod wire;

use std::collections::HashMap;

use midcourse::{AgentMessage, Event, Timestamp, ToolResult, TrajectoryPayload};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::payload::{prompt, tool_ended};
use super::super::session_run;
use super::super::tool_result::tool_result;
use super::decode::GENERATED_PROMPTS;
use crate::session_file::{Fate, Found, Head, LineTime, RunEvents, SessionFile, SessionReader};
use response::OpenResponse;
use wire::{BlockWire, LineWire, MessageWire, blocks, compaction_trigger, text_of, usage_of};

/// Maximum number of runs (a session and its subagents) in one file. Lines of further runs are
/// counted as unknown.
const MAX_RUNS: usize = 1_000;

/// Maximum number of calls without a result that are remembered.
const MAX_OPEN_CALLS: usize = 1_000;

/// Types of lines that contain nothing to record, or only what other lines contain too.
const IGNORED_TYPES: [&str; 25] = [
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "attachment",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "cost-state",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "summary",
    "tag",
    "tools-used",
    "worktree-state",
];

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_session_line = |line: &serde_json::Map<String, Value>| {
        let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
        let has_session = line.get("sessionId").is_some_and(Value::is_string);
        match kind {
            "user" | "assistant" => has_session && line.contains_key("message"),
            "summary" => line.contains_key("leafUuid"),
            "file-history-snapshot" => line.contains_key("snapshot"),
            kind => has_session && IGNORED_TYPES.contains(&kind),
        }
    };
    head.lines.iter().any(is_session_line)
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { time: LineTime::new(file), runs: Vec::new(), latest_run: 0 })
}

struct Reader {
    time: LineTime,
    /// The runs of this file.
    runs: Vec<Run>,
    /// Position of the run of the latest line: most lines belong to the same run as the line before.
    latest_run: usize,
}

/// What has to be remembered of a run to understand its next line.
struct Run {
    session: String,
    subagent: Option<String>,
    events: RunEvents,
    response: OpenResponse,
    /// Names of the tools of calls that have no result yet, by call id.
    open_calls: HashMap<String, String>,
    /// Id of the first call of the latest response with calls; `None` if the next turn has begun.
    turn: Option<String>,
    /// What has been recorded about the session as a whole: folder, version and model.
    described: (Option<String>, Option<String>, Option<String>),
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        // Checking the whole line once is faster than checking each text.
        let parsed = match std::str::from_utf8(bytes) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(bytes),
        };
        let line: LineWire<'_> = match parsed {
            Ok(line) => line,
            Err(error) => {
                return found
                    .invalid("(invalid line)", format_args!("skipped: no valid line ({error})"));
            }
        };
        if IGNORED_TYPES.contains(&&*line.kind) {
            return found.count(&line.kind, Fate::Ignored);
        }
        let at = self.time.of_line(line.timestamp.as_deref());
        let Some(session) = line.session_id.as_deref().filter(|id| !id.is_empty()) else {
            return found.count(&line.kind, Fate::Unknown);
        };
        let Some(run) = self.run(session, line.agent_id.as_deref(), at, found) else {
            return found.count(&line.kind, Fate::Unknown);
        };
        run.describe(&line, at, found);
        match (&*line.kind, &line.message) {
            ("assistant", Some(message)) => run.read_response(&line, message, at, found),
            ("user", Some(message)) => run.read_user(&line, message, at, found),
            ("system", _) => run.read_system(&line, at, found),
            (kind, _) => {
                run.keep_unread(&line, bytes, at, found);
                found.count(kind, Fate::Unknown);
            }
        }
    }

    fn end(&mut self, found: &mut Found) {
        for run in &mut self.runs {
            run.finish_response(found);
        }
    }
}

impl Reader {
    fn run(
        &mut self,
        session: &str,
        subagent: Option<&str>,
        at: Timestamp,
        found: &mut Found,
    ) -> Option<&mut Run> {
        let is_run = |run: &Run| run.session == session && run.subagent.as_deref() == subagent;
        if !self.runs.get(self.latest_run).is_some_and(is_run) {
            self.latest_run = match self.runs.iter().position(is_run) {
                Some(known) => known,
                None if self.runs.len() == MAX_RUNS => return None,
                None => {
                    let run = Run::new(session, subagent);
                    found.push(run.events.started(at));
                    self.runs.push(run);
                    self.runs.len() - 1
                }
            };
        }
        self.runs.get_mut(self.latest_run)
    }
}

impl Run {
    fn new(session: &str, subagent: Option<&str>) -> Self {
        let host = super::super::Host::ClaudeCode.name();
        Self {
            session: session.to_owned(),
            subagent: subagent.map(ToOwned::to_owned),
            events: RunEvents::new(session_run(session, subagent), host),
            response: OpenResponse::default(),
            open_calls: HashMap::new(),
            turn: None,
            described: (None, None, None),
        }
    }

    /// Records the folder, the version of Claude Code and the model when they become known.
    fn describe(&mut self, line: &LineWire<'_>, at: Timestamp, found: &mut Found) {
        let new = |known: &mut Option<String>, value: Option<&str>| {
            let value = value.filter(|_| known.is_none())?.to_owned();
            known.replace(value.clone());
            Some(value)
        };
        let (folder, version, model) = &mut self.described;
        let found_model = line.message.as_ref().and_then(|message| message.model.as_deref());
        let found_model = found_model.filter(|model| *model != super::transcript::NO_MODEL);
        let (folder, host_version, model) = (
            new(folder, line.cwd.as_deref()),
            new(version, line.version.as_deref()),
            new(model, found_model),
        );
        if folder.is_none() && host_version.is_none() && model.is_none() {
            return;
        }
        let key = match &model {
            Some(_) => "about:model",
            None => "about",
        };
        let described = TrajectoryPayload::RunDescribed {
            folder,
            command: None,
            host_version,
            model,
            exit_code: None,
        };
        found.push(self.events.keyed(at, key, described));
    }

    fn read_response(
        &mut self,
        line: &LineWire<'_>,
        message: &MessageWire<'_>,
        at: Timestamp,
        found: &mut Found,
    ) {
        let id = message.id.as_deref().or(line.uuid.as_deref()).unwrap_or_default();
        if self.response.id() != Some(id) {
            self.finish_response(found);
            // The first line of the next response: the turn of the calls before it is over.
            if let Some(first_call) = self.turn.take() {
                let key = format!("after:{first_call}");
                found.push(self.events.keyed(at, key, TrajectoryPayload::TurnStarted));
            }
        }
        let is_api_error = line.is_api_error_message.unwrap_or(false);
        for block in blocks(message.content) {
            let kind = format!("assistant {}", block.kind);
            let is_used = self.response.add(id, at, block, is_api_error);
            found.count(&kind, if is_used { Fate::Used } else { Fate::Unknown });
        }
        self.response.set_usage(message.usage.and_then(usage_of));
    }

    /// Records the response that the lines so far have described.
    fn finish_response(&mut self, found: &mut Found) {
        let Some(finished) = self.response.take() else { return };
        if let Some(message) = finished.message {
            let appended = TrajectoryPayload::MessageAppended { message };
            let key = format!("message:{}", finished.key);
            found.push(self.events.keyed(finished.at, key, appended));
        }
        if let Some(usage) = finished.usage {
            let key = format!("usage:{}", finished.id);
            let reported = TrajectoryPayload::UsageReported { usage };
            found.push(self.events.keyed(finished.at, key, reported));
        }
        for call in finished.calls {
            self.turn.get_or_insert_with(|| call.id.clone());
            if self.open_calls.len() < MAX_OPEN_CALLS {
                self.open_calls.insert(call.id.clone(), call.tool.clone());
            }
            let started = TrajectoryPayload::ToolStarted {
                tool_call_id: call.id.into(),
                tool_name: call.tool.into(),
                args: call.args,
            };
            found.push(self.events.event(call.at, started));
        }
    }

    fn read_user(
        &mut self,
        line: &LineWire<'_>,
        message: &MessageWire<'_>,
        at: Timestamp,
        found: &mut Found,
    ) {
        self.finish_response(found);
        let mut texts = Vec::new();
        let blocks = blocks(message.content);
        // The structured form belongs to a line with one result.
        let results = blocks.iter().filter(|block| block.kind == "tool_result").count();
        let structured = line.tool_use_result.filter(|_| results == 1);
        for block in blocks {
            let kind = format!("user {}", block.kind);
            let fate = match (&*block.kind, block.tool_use_id.as_deref()) {
                ("tool_result", Some(id)) => {
                    let denial = line.tool_denial_kind.as_deref();
                    let ended = self.result(id, &block, structured, denial);
                    found.push(self.events.event(at, ended));
                    Fate::Used
                }
                ("text", _) => {
                    texts.extend(block.text.map(|text| text.0));
                    Fate::Used
                }
                ("image" | "document", _) => Fate::Ignored,
                _ => Fate::Unknown,
            };
            found.count(&kind, fate);
        }
        if texts.is_empty() {
            return;
        }
        let text = texts.join("\n");
        let payload = if line.is_compact_summary.unwrap_or(false) {
            // The line before, of type `system`, says that the conversation was summarised.
            custom("compact_summary", text)
        } else if line.is_meta.unwrap_or(false) {
            custom("meta", text)
        } else if let Some(kind) = generated_by_command(&text) {
            custom(kind, text)
        } else if let Some(command) = command_of(&text) {
            AgentMessage::user(command)
        } else {
            prompt(text, &GENERATED_PROMPTS)
        };
        let appended = TrajectoryPayload::MessageAppended { message: payload };
        found.push(self.keyed_by_line(line, at, appended));
    }

    fn result(
        &mut self,
        id: &str,
        block: &BlockWire<'_>,
        structured: Option<&RawValue>,
        denial: Option<&str>,
    ) -> TrajectoryPayload {
        let tool = self.open_calls.remove(id).unwrap_or_default();
        let is_error = block.is_error.unwrap_or(false);
        if is_error {
            let for_model = text_of(block.content);
            if denial.is_some() || is_refusal(&for_model) {
                return TrajectoryPayload::Denied {
                    tool_call_id: id.into(),
                    tool_name: tool.into(),
                    reason: Some(for_model),
                };
            }
            return tool_ended(id.to_owned(), tool, ToolResult::error(for_model));
        }
        // Hooks get the structured form, so that the result is the same in both.
        let structured = structured.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let result = match structured {
            Some(fields @ (Value::Object(_) | Value::Array(_))) => tool_result(fields),
            _ => ToolResult::text(text_of(block.content)),
        };
        tool_ended(id.to_owned(), tool, result)
    }

    fn read_system(&mut self, line: &LineWire<'_>, at: Timestamp, found: &mut Found) {
        let subtype = line.subtype.as_deref().unwrap_or_default();
        let kind = format!("system {subtype}");
        let payload = match subtype {
            "compact_boundary" => TrajectoryPayload::ContextCompacted {
                trigger: line.compact_metadata.and_then(compaction_trigger),
            },
            _ => return found.count(&kind, Fate::Ignored),
        };
        self.finish_response(found);
        found.push(self.keyed_by_line(line, at, payload));
        found.count(&kind, Fate::Used);
    }

    /// Keeps a line of an unknown type as it is.
    fn keep_unread(&self, line: &LineWire<'_>, bytes: &[u8], at: Timestamp, found: &mut Found) {
        let source = self.events.source.clone();
        let unread = Event::unread(self.events.run.clone(), source, at, bytes);
        found.push(self.keyed_by_line(line, at, unread.payload));
    }

    /// An event whose key is the id of its line.
    fn keyed_by_line(
        &self,
        line: &LineWire<'_>,
        at: Timestamp,
        payload: TrajectoryPayload,
    ) -> Event {
        let id = line.uuid.as_deref().unwrap_or_default();
        match id.is_empty() {
            true => self.events.keyed(at, format!("line:{}", at.unix_ms()), payload),
            false => self.events.keyed(at, format!("line:{id}"), payload),
        }
    }
}

/// Whether the result of a call says that the call was refused and did not run. Newer releases of
/// Claude Code have a field for that.
fn is_refusal(result: &str) -> bool {
    const PHRASES: [&str; 5] = [
        "The user doesn't want to proceed with this tool use",
        "denied by your permission settings",
        "but you haven't granted it yet",
        "require approval",
        "requires approval",
    ];
    let by_rule =
        result.starts_with("Permission to use ") && result.trim_end().ends_with("has been denied.");
    by_rule || PHRASES.iter().any(|phrase| result.contains(phrase))
}

fn custom(kind: &str, text: String) -> AgentMessage {
    AgentMessage::Custom { kind: kind.to_owned(), payload: Value::String(text), timestamp: None }
}

/// The command that the user entered, such as `/review main`, as the hook reports it; `None` if the
/// text is no command.
fn command_of(text: &str) -> Option<String> {
    let part = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.trim())
    };
    let is_command = ["<command-name>", "<command-message>"]
        .iter()
        .any(|beginning| text.trim_start().starts_with(beginning));
    let name = part("command-name").filter(|_| is_command)?;
    let arguments = part("command-args").unwrap_or_default();
    Some(format!("{name} {arguments}").trim_end().to_owned())
}

/// The kind of a message that Claude Code wrote because of a command that the user ran in it, or
/// because the user pressed Escape. No hook reports these as prompts.
fn generated_by_command(text: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 5] = [
        ("<local-command-stdout>", "command_output"),
        ("<local-command-caveat>", "command_output"),
        ("<bash-input>", "command"),
        ("<bash-stdout>", "command_output"),
        ("[Request interrupted by user", "interruption"),
    ];
    let text = text.trim_start();
    BEGINNINGS.iter().find(|(beginning, _)| text.starts_with(beginning)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests;
