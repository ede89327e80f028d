//! Codex's rollouts (`~/.codex/sessions/…/rollout-*.jsonl`): one JSON object per line, one file per
//! session or subagent.
//!
//! The items of a conversation are lines of type `response_item`; in rollouts of releases before
//! 0.32, they are the lines themselves. Lines of type `event_msg` repeat most of them for the user
//! interface. Ids, tools, arguments and results are those that hooks report, so a session that hooks
//! recorded gets no duplicates when its rollout is imported.

mod kinds;
mod wire;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use midcourse::{Timestamp, ToolResult, TrajectoryPayload, looks_failed};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::imported_run::{Call, Description, ImportedRun};
use super::super::payload::tool_ended;
use super::super::tool_result::tool_result;
use super::super::{Host, session_run};
use super::decode::{add_exit_code, interruption, unreported_end, user_prompt};
use super::rollout::{UsageWire, full_name, named_as_in_hooks, shell_script};
use crate::session_file::{Fate, Found, Head, LineTime, SessionFile, SessionReader};
use kinds::{IGNORED_EVENTS, IGNORED_ITEMS, INJECTED_TEXTS, ITEMS, LINES};
use wire::{EventWire, ItemWire, LineWire, MetaWire, TokenUsageWire, TurnContextWire, texts};

/// Maximum number of exit codes that are remembered until the results of their calls follow.
const MAX_EXIT_CODES: usize = 1_000;

/// Length of the id at the end of the name of a rollout.
const ID_LEN: usize = 36;

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_old = head.is_named(|name| name.starts_with("rollout-"))
        && head.lines.iter().any(|line| line.contains_key("id") && !line.contains_key("payload"));
    let is_line = |line: &serde_json::Map<String, Value>| {
        let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
        line.get("payload").is_some_and(Value::is_object) && LINES.contains(&kind)
    };
    is_old || head.lines.iter().any(is_line)
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    let stem = file.stem();
    let is_rollout = stem.starts_with("rollout-");
    let start = stem.len().checked_sub(ID_LEN).filter(|_| is_rollout);
    let id = start.and_then(|start| stem.get(start..));
    Box::new(Reader {
        time: LineTime::new(file),
        id_from_name: id.unwrap_or(&stem).to_owned(),
        run: None,
        line: 0,
        exit_codes: HashMap::new(),
        has_usage_records: false,
        total_usage: None,
        latest_prompt: None,
    })
}

struct Reader {
    time: LineTime,
    /// The id of the session, if no line has it.
    id_from_name: String,
    run: Option<ImportedRun>,
    /// Number of the line, from 1. Lines are only ever added to a rollout, so it identifies an event
    /// that has no id.
    line: u64,
    /// Exit codes of calls that have no result yet, by call id.
    exit_codes: HashMap<String, i64>,
    /// Whether the rollout has the tokens of each response. Otherwise `token_count` is used.
    has_usage_records: bool,
    total_usage: Option<UsageWire>,
    /// Hash of the latest prompt, which may occur a second time as an event.
    latest_prompt: Option<u64>,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        self.line = self.line.saturating_add(1);
        let line: LineWire<'_> = match serde_json::from_slice(bytes) {
            Ok(line) => line,
            Err(error) => return found.invalid("(invalid line)", error),
        };
        let at = self.time.of_line(line.timestamp.as_deref());
        if let Err(error) = self.read_line(&line, bytes, at, found) {
            let kind = if line.kind.is_empty() { "(no type)" } else { &line.kind };
            found.invalid(kind, error);
        }
    }

    fn end(&mut self, found: &mut Found) {
        if let Some(run) = &mut self.run {
            run.finish_response(found);
        }
    }
}

impl Reader {
    fn read_line(
        &mut self,
        line: &LineWire<'_>,
        bytes: &[u8],
        at: Timestamp,
        found: &mut Found,
    ) -> Result<(), serde_json::Error> {
        let kind = &*line.kind;
        let Some(payload) = line.payload else {
            return self.read_old_line(line, bytes, at, found);
        };
        match kind {
            "response_item" => return self.read_item(payload, bytes, at, found),
            "event_msg" => return self.read_event(payload, bytes, at, found),
            "session_meta" => {
                let meta: MetaWire = parse(payload)?;
                if self.run.is_some() {
                    // A session that began as a copy of another one has that one's line too.
                    found.count(kind, Fate::Ignored);
                    return Ok(());
                }
                self.start(&meta, at, found);
            }
            "turn_context" => {
                let TurnContextWire { cwd, model } = parse(payload)?;
                let about = Description { folder: cwd, model, host_version: None };
                let run = self.run(at, found);
                run.set_turn_over(true);
                run.describe(at, about, found);
            }
            "token_usage_record" => {
                let TokenUsageWire { response_id, usage } = parse(payload)?;
                self.has_usage_records = true;
                self.run(at, found).usage(at, response_id, usage.usage(), found);
            }
            "compacted" => {
                let key = self.key();
                let compacted = TrajectoryPayload::ContextCompacted { trigger: None };
                self.run(at, found).fact(at, format!("line:{key}"), compacted, found);
            }
            kind if LINES.contains(&kind) => {
                found.count(kind, Fate::Ignored);
                return Ok(());
            }
            kind => {
                self.keep_unread(bytes, at, found);
                found.count(kind, Fate::Unknown);
                return Ok(());
            }
        }
        found.count(kind, Fate::Used);
        Ok(())
    }

    /// Reads a line of a release that did not wrap items.
    fn read_old_line(
        &mut self,
        line: &LineWire<'_>,
        bytes: &[u8],
        at: Timestamp,
        found: &mut Found,
    ) -> Result<(), serde_json::Error> {
        let kind = &*line.kind;
        let is_item = ITEMS.contains(&kind) || IGNORED_ITEMS.contains(&kind);
        match (kind, &line.id, &line.record_type) {
            ("", Some(id), _) if self.run.is_none() => {
                let meta = MetaWire {
                    id: id.clone().into_owned(),
                    session_id: None,
                    cwd: None,
                    cli_version: None,
                    source: Value::Null,
                };
                self.start(&meta, at, found);
                found.count("session_meta", Fate::Used);
            }
            ("", _, Some(record)) => {
                found.count(record, Fate::Ignored);
                self.run(at, found).set_turn_over(true);
            }
            (_, _, _) if is_item => {
                let item: &RawValue = serde_json::from_slice(bytes)?;
                return self.read_item(item, bytes, at, found);
            }
            (kind, ..) => {
                self.keep_unread(bytes, at, found);
                found.count(if kind.is_empty() { "(no type)" } else { kind }, Fate::Unknown);
            }
        }
        Ok(())
    }

    fn read_item(
        &mut self,
        item: &RawValue,
        bytes: &[u8],
        at: Timestamp,
        found: &mut Found,
    ) -> Result<(), serde_json::Error> {
        let item: ItemWire<'_> = parse(item)?;
        let role = item.role.as_deref().unwrap_or_default();
        let (fate, kind) = match &*item.kind {
            "message" => (self.read_message(role, &item, at, found), format!("message {role}")),
            "reasoning" => (self.read_reasoning(&item, at, found), item.kind.to_string()),
            "function_call" | "custom_tool_call" | "local_shell_call" => {
                (self.read_call(item, at, found), "call".to_owned())
            }
            kind if kind.ends_with("_call_output") && ITEMS.contains(&kind) => {
                let kind = kind.to_owned();
                (self.read_output(item, at, found), kind)
            }
            kind if IGNORED_ITEMS.contains(&kind) => (Fate::Ignored, kind.to_owned()),
            kind => {
                self.keep_unread(bytes, at, found);
                (Fate::Unknown, kind.to_owned())
            }
        };
        found.count(&format!("response_item {kind}"), fate);
        Ok(())
    }

    fn read_message(
        &mut self,
        role: &str,
        item: &ItemWire<'_>,
        at: Timestamp,
        found: &mut Found,
    ) -> Fate {
        let key = self.key();
        match role {
            "assistant" => {
                let run = self.run(at, found);
                run.set_turn_over(true);
                for (_, text) in texts(item.content) {
                    run.text(at, &key, text.into_owned(), found);
                }
                Fate::Used
            }
            "user" => {
                let is_from_user = |(part, text): &(usize, std::borrow::Cow<'_, str>)| {
                    let known = item.metadata.as_ref().and_then(|it| it.is_from_user(*part));
                    known.unwrap_or_else(|| !is_injected(text))
                };
                let texts = texts(item.content).into_iter().filter(is_from_user);
                let texts: Vec<_> = texts.map(|(_, text)| text).collect();
                match texts.is_empty() {
                    true => Fate::Ignored,
                    false => self.read_prompt(texts.join("\n"), at, found),
                }
            }
            "developer" | "system" => Fate::Ignored,
            _ => Fate::Unknown,
        }
    }

    /// Records a prompt, unless the line before it had the same one.
    fn read_prompt(&mut self, text: String, at: Timestamp, found: &mut Found) -> Fate {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        if self.latest_prompt.replace(hasher.finish()) == Some(hasher.finish()) {
            self.latest_prompt = None;
            return Fate::Ignored;
        }
        let key = self.key();
        self.run(at, found).message(at, &key, user_prompt(text), found);
        Fate::Used
    }

    fn read_reasoning(&mut self, item: &ItemWire<'_>, at: Timestamp, found: &mut Found) -> Fate {
        let summaries = texts(item.summary);
        let texts = if summaries.is_empty() { texts(item.content) } else { summaries };
        let texts: Vec<_> = texts.into_iter().map(|(_, text)| text).collect();
        if texts.is_empty() {
            // The thought itself is encrypted.
            return Fate::Ignored;
        }
        let key = self.key();
        let run = self.run(at, found);
        run.set_turn_over(true);
        run.reasoning(at, &key, texts.join("\n"), found);
        Fate::Used
    }

    fn read_call(&mut self, item: ItemWire<'_>, at: Timestamp, found: &mut Found) -> Fate {
        let Some(id) = item.call_id.or(item.id).filter(|id| !id.is_empty()) else {
            return Fate::Unknown;
        };
        let (tool, args) = match (&item.name, &item.action) {
            (Some(name), _) => {
                let name = full_name(item.namespace.as_deref(), name);
                named_as_in_hooks(&name, item.input.as_deref(), item.arguments.as_deref())
            }
            (None, Some(action)) => {
                let words: Vec<&str> = action.command.iter().map(String::as_str).collect();
                ("Bash".to_owned(), serde_json::json!({"command": shell_script(&words)}))
            }
            (None, None) => return Fate::Unknown,
        };
        let key = self.key();
        let call = Call { id: id.into_owned(), tool, args };
        self.run(at, found).call(at, &key, call, found);
        Fate::Used
    }

    fn read_output(&mut self, item: ItemWire<'_>, at: Timestamp, found: &mut Found) -> Fate {
        let (Some(id), Some(output)) = (item.call_id, item.output) else { return Fate::Unknown };
        let exit_code = self.exit_codes.remove(&*id);
        self.latest_prompt = None;
        let run = self.run(at, found);
        run.end_call(at, &id, found, |tool| end(&id, tool, output, exit_code));
        // In old rollouts, the output of a call comes before the next call of the same response.
        run.set_turn_over(false);
        Fate::Used
    }

    fn read_event(
        &mut self,
        event: &RawValue,
        bytes: &[u8],
        at: Timestamp,
        found: &mut Found,
    ) -> Result<(), serde_json::Error> {
        let event: EventWire<'_> = parse(event)?;
        let fate = match (&*event.kind, event.message) {
            ("user_message", Some(text)) => self.read_prompt(text, at, found),
            ("error", Some(error)) => {
                let key = self.key();
                let run = self.run(at, found);
                run.error(at, &key, error, found);
                run.finish_response(found);
                Fate::Used
            }
            ("turn_aborted", _) => {
                let key = self.key();
                self.run(at, found).message(at, &key, interruption(), found);
                Fate::Used
            }
            ("token_count", _) => {
                let info = event.info;
                let total = info.as_ref().and_then(|info| info.total_token_usage);
                let last = info.and_then(|info| info.last_token_usage);
                // The event is repeated when nothing but the rate limits has changed.
                let is_new = total.is_some() && self.total_usage != total;
                self.total_usage = total.or(self.total_usage);
                self.run(at, found).set_turn_over(true);
                match last.filter(|_| is_new && !self.has_usage_records) {
                    None => Fate::Ignored,
                    Some(usage) => {
                        let id = format!("line:{}", self.line);
                        self.run(at, found).usage(at, id, usage.usage(), found);
                        Fate::Used
                    }
                }
            }
            ("item_completed", _) => {
                let completed = event.item.filter(|item| !item.id.is_empty());
                let exit_code = completed.and_then(|item| Some((item.exit_code()?, item.id)));
                match exit_code.filter(|_| self.exit_codes.len() < MAX_EXIT_CODES) {
                    None => Fate::Ignored,
                    Some((code, id)) => {
                        self.exit_codes.insert(id, code);
                        Fate::Used
                    }
                }
            }
            (kind, _) if IGNORED_EVENTS.contains(&kind) => Fate::Ignored,
            _ => {
                self.keep_unread(bytes, at, found);
                Fate::Unknown
            }
        };
        found.count(&format!("event_msg {}", event.kind), fate);
        Ok(())
    }

    fn start(&mut self, meta: &MetaWire, at: Timestamp, found: &mut Found) {
        let identity = match meta.parent() {
            Some(parent) => session_run(parent, Some(&meta.id)),
            None => session_run(&meta.id, None),
        };
        let mut run = ImportedRun::start(identity, Host::Codex, at, found);
        let about = Description {
            folder: meta.cwd.clone(),
            host_version: meta.cli_version.clone(),
            model: None,
        };
        run.describe(at, about, found);
        self.run = Some(run);
    }

    /// The run of this rollout. Starts it if no line before did.
    fn run(&mut self, at: Timestamp, found: &mut Found) -> &mut ImportedRun {
        let identity = session_run(&self.id_from_name, None);
        self.run.get_or_insert_with(|| ImportedRun::start(identity, Host::Codex, at, found))
    }

    fn key(&self) -> String {
        self.line.to_string()
    }

    fn keep_unread(&mut self, bytes: &[u8], at: Timestamp, found: &mut Found) {
        let key = self.key();
        self.run(at, found).unread(at, &key, bytes, found);
    }
}

fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str(raw.get())
}

/// Whether Codex wrote this part of a user message.
fn is_injected(text: &str) -> bool {
    let text = text.trim_start();
    INJECTED_TEXTS.iter().any(|beginning| text.starts_with(beginning))
}

/// The end of a call, as hooks report it or, if they do not, as midcourse reads it from the rollout.
fn end(id: &str, tool: String, output: Value, exit_code: Option<i64>) -> TrajectoryPayload {
    let result = old_output(output);
    let text = result.comparable_text();
    let header = command_output(&text).or_else(|| json_output(&text));
    match (header, exit_code) {
        (Some((exit_code, output)), _) => {
            let mut result = ToolResult::text(output);
            result.is_error = looks_failed(&result.comparable_text());
            add_exit_code(&mut result, exit_code);
            tool_ended(id.to_owned(), tool, result)
        }
        (None, Some(exit_code)) => {
            let mut result = result;
            add_exit_code(&mut result, exit_code);
            tool_ended(id.to_owned(), tool, result)
        }
        (None, None) => unreported_end(id.to_owned(), tool, result),
    }
}

/// Old releases wrote the output as an object with the field `content`.
fn old_output(mut output: Value) -> ToolResult {
    match output.get_mut("content").map(Value::take) {
        Some(content) => tool_result(content),
        None => tool_result(output),
    }
}

/// Exit code and output of a command that has ended. Codex writes a header before the output, which
/// hooks do not get.
fn command_output(text: &str) -> Option<(i64, String)> {
    let (header, output) = text.split_once("\nOutput:\n")?;
    header.starts_with("Chunk ID: ").then_some(())?;
    let code = header.lines().find_map(|line| line.strip_prefix("Process exited with code "))?;
    Some((code.trim().parse().ok()?, output.to_owned()))
}

/// Exit code and output of a command, as releases before 0.45 wrote them: as JSON in a text.
fn json_output(text: &str) -> Option<(i64, String)> {
    #[derive(Deserialize)]
    struct OutputWire {
        output: String,
        metadata: OutputMetadataWire,
    }
    #[derive(Deserialize)]
    struct OutputMetadataWire {
        exit_code: i64,
    }
    let OutputWire { output, metadata } =
        text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()?;
    Some((metadata.exit_code, output))
}
