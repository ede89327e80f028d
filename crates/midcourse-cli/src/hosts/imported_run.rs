//! A run that is put together from the lines of an agent's session file.
//!
//! The readers of session files say what their lines contain: parts of a model response, results,
//! messages. From that, this module makes the events of the run, with the keys that hooks use for the
//! same facts, so that a run that hooks recorded gets no duplicates.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, Event, RunIdentity, StopReason, TextContent,
    Timestamp, ToolCallBlock, TrajectoryPayload, Usage,
};
use serde_json::Value;

use super::payload::tool_started;
use super::session_run;
use crate::session_file::{Found, RunEvents};

/// Maximum number of calls without a result that are remembered.
const MAX_OPEN_CALLS: usize = 1_000;

/// Maximum number of runs (a session and its subagents) in one file. Lines of further runs are counted
/// as unknown.
const MAX_RUNS: usize = 1_000;

/// Maximum number of facts that [`Seen`] remembers.
const MAX_SEEN: usize = 300_000;

/// The runs of one file, by session id and subagent id.
#[derive(Default)]
pub(super) struct ImportedRuns(BTreeMap<(String, Option<String>), ImportedRun>);

impl ImportedRuns {
    /// The run of a session or subagent, which this starts if it is new; `None` if the file has too
    /// many runs.
    pub(super) fn run(
        &mut self,
        host: super::Host,
        (session, subagent): (&str, Option<&str>),
        at: Timestamp,
        found: &mut Found,
    ) -> Option<&mut ImportedRun> {
        let key = (session.to_owned(), subagent.map(ToOwned::to_owned));
        if !self.0.contains_key(&key) {
            if self.0.len() == MAX_RUNS {
                return None;
            }
            let run = ImportedRun::start(session_run(session, subagent), host, at, found);
            self.0.insert(key.clone(), run);
        }
        self.0.get_mut(&key)
    }

    pub(super) fn finish_responses(&mut self, found: &mut Found) {
        for run in self.0.values_mut() {
            run.finish_response(found);
        }
    }
}

/// Facts that were already read, for files that repeat some of them.
#[derive(Default)]
pub(super) struct Seen(HashSet<u64>);

impl Seen {
    /// Whether this is the first time.
    pub(super) fn is_new(&mut self, fact: impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        fact.hash(&mut hasher);
        if self.0.len() < MAX_SEEN {
            self.0.insert(hasher.finish())
        } else {
            !self.0.contains(&hasher.finish())
        }
    }
}

/// What has to be remembered of a run to understand its next line.
pub(super) struct ImportedRun {
    events: RunEvents,
    response: Option<OpenResponse>,
    /// Names of the tools of calls that have no result yet, by call id.
    open_calls: HashMap<String, String>,
    /// Id of the first call of the latest response with calls; `None` if the next turn has begun.
    turn: Option<String>,
    /// Whether the next response belongs to the next turn.
    is_turn_over: bool,
    known: Description,
}

/// A model response whose end has not been read yet.
struct OpenResponse {
    key: String,
    at: Timestamp,
    blocks: Vec<AssistantBlock>,
    calls: Vec<(Timestamp, Call)>,
    usage: Option<(String, Usage)>,
    error: Option<String>,
}

/// A tool call with the tool's name and the arguments that a hook reports.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) args: Value,
}

/// What a session file says about the session as a whole.
#[derive(Debug, Default, Clone)]
pub(super) struct Description {
    pub(super) folder: Option<String>,
    pub(super) host_version: Option<String>,
    pub(super) model: Option<String>,
}

impl ImportedRun {
    /// Starts a run.
    pub(super) fn start(
        identity: RunIdentity,
        host: super::Host,
        at: Timestamp,
        found: &mut Found,
    ) -> Self {
        let events = RunEvents::new(identity, host.name());
        found.push(events.started(at));
        Self {
            events,
            response: None,
            open_calls: HashMap::new(),
            turn: None,
            is_turn_over: false,
            known: Description::default(),
        }
    }

    /// Records what is new about the session as a whole.
    pub(super) fn describe(&mut self, at: Timestamp, about: Description, found: &mut Found) {
        let new = |known: &mut Option<String>, value: Option<String>| {
            let value = value.filter(|value| !value.is_empty() && known.as_ref() != Some(value))?;
            known.replace(value.clone());
            Some(value)
        };
        let folder = new(&mut self.known.folder, about.folder);
        let host_version = new(&mut self.known.host_version, about.host_version);
        let model = new(&mut self.known.model, about.model);
        let key: Vec<&str> =
            [&folder, &host_version, &model].into_iter().filter_map(Option::as_deref).collect();
        if key.is_empty() {
            return;
        }
        let key = format!("about:{}", key.join(":"));
        let described = TrajectoryPayload::RunDescribed {
            folder,
            command: None,
            host_version,
            model,
            exit_code: None,
        };
        found.push(self.events.keyed(at, key, described));
    }

    /// The open response. Starts one if there is none; the turn of the calls before it is then over.
    /// `key` identifies the response in this run.
    fn response(&mut self, at: Timestamp, key: &str, found: &mut Found) -> &mut OpenResponse {
        if self.response.is_none()
            && self.is_turn_over
            && let Some(first_call) = self.turn.take()
        {
            let key = format!("after:{first_call}");
            found.push(self.events.keyed(at, key, TrajectoryPayload::TurnStarted));
        }
        self.response.get_or_insert_with(|| OpenResponse {
            key: key.to_owned(),
            at,
            blocks: Vec::new(),
            calls: Vec::new(),
            usage: None,
            error: None,
        })
    }

    /// Starts a turn whose key the file has. Otherwise the first call of the turn before is the key.
    pub(super) fn start_turn(&mut self, at: Timestamp, key: String, found: &mut Found) {
        self.fact(at, key, TrajectoryPayload::TurnStarted, found);
        self.turn = None;
    }

    pub(super) fn text(&mut self, at: Timestamp, key: &str, text: String, found: &mut Found) {
        if !text.is_empty() {
            let block = AssistantBlock::Text(TextContent { text });
            self.response(at, key, found).blocks.push(block);
        }
    }

    pub(super) fn reasoning(&mut self, at: Timestamp, key: &str, text: String, found: &mut Found) {
        if !text.is_empty() {
            let block = AssistantBlock::Reasoning(TextContent { text });
            self.response(at, key, found).blocks.push(block);
        }
    }

    pub(super) fn call(&mut self, at: Timestamp, key: &str, call: Call, found: &mut Found) {
        let response = self.response(at, key, found);
        response.blocks.push(AssistantBlock::ToolCall(ToolCallBlock {
            id: call.id.as_str().into(),
            name: call.tool.as_str().into(),
            arguments: Value::Null,
        }));
        response.calls.push((at, call));
    }

    /// Sets the tokens of the open response; `id` is the id that hooks report with them. If no
    /// response is open, records them at once.
    pub(super) fn usage(&mut self, at: Timestamp, id: String, usage: Usage, found: &mut Found) {
        match &mut self.response {
            Some(response) => response.usage = Some((id, usage)),
            None => self.report_usage(at, &id, usage, found),
        }
    }

    /// Says that the open response is an error message of the model API.
    pub(super) fn error(&mut self, at: Timestamp, key: &str, error: String, found: &mut Found) {
        self.response(at, key, found).error = Some(error);
    }

    fn report_usage(&self, at: Timestamp, id: &str, usage: Usage, found: &mut Found) {
        let reported = TrajectoryPayload::UsageReported { usage };
        found.push(self.events.keyed(at, format!("usage:{id}"), reported));
    }

    /// Records the open response: its message, its tokens and the start of its calls.
    pub(super) fn finish_response(&mut self, found: &mut Found) {
        let Some(response) = self.response.take() else { return };
        let OpenResponse { key, at, blocks, calls, usage, error } = response;
        let is_text = |block: &AssistantBlock| !matches!(block, AssistantBlock::ToolCall(_));
        if error.is_some() || blocks.iter().any(is_text) {
            let stop_reason = match (&error, calls.is_empty()) {
                (Some(_), _) => StopReason::Error,
                (None, true) => StopReason::EndTurn,
                (None, false) => StopReason::ToolUse,
            };
            let message = AgentMessage::Assistant {
                content: AssistantContent { blocks },
                stop_reason,
                error_message: error,
                timestamp: None,
                usage: None,
            };
            let appended = TrajectoryPayload::MessageAppended { message };
            found.push(self.events.keyed(at, format!("message:{key}"), appended));
        }
        if let Some((id, usage)) = usage {
            self.report_usage(at, &id, usage, found);
        }
        for (at, Call { id, tool, args }) in calls {
            self.turn.get_or_insert_with(|| id.clone());
            if self.open_calls.len() < MAX_OPEN_CALLS {
                self.open_calls.insert(id.clone(), tool.clone());
            }
            found.push(self.events.event(at, tool_started(id, tool, args)));
        }
    }

    /// Records the end of a call. `end` makes the payload from the name of the call's tool, which is
    /// empty if the start of the call is not in the file.
    pub(super) fn end_call(
        &mut self,
        at: Timestamp,
        id: &str,
        found: &mut Found,
        end: impl FnOnce(String) -> TrajectoryPayload,
    ) {
        self.finish_response(found);
        let tool = self.open_calls.remove(id).unwrap_or_default();
        found.push(self.events.event(at, end(tool)));
        self.is_turn_over = true;
    }

    /// Says whether what follows belongs to the next turn, for files in which a response may go on
    /// after the end of one of its calls.
    pub(super) const fn set_turn_over(&mut self, is_over: bool) {
        self.is_turn_over = is_over;
    }

    /// Records a message that is no model response.
    pub(super) fn message(
        &mut self,
        at: Timestamp,
        key: &str,
        message: AgentMessage,
        found: &mut Found,
    ) {
        let appended = TrajectoryPayload::MessageAppended { message };
        self.fact(at, format!("message:{key}"), appended, found);
    }

    /// Records an event with this key.
    pub(super) fn fact(
        &mut self,
        at: Timestamp,
        key: String,
        payload: TrajectoryPayload,
        found: &mut Found,
    ) {
        self.finish_response(found);
        found.push(self.events.keyed(at, key, payload));
    }

    /// Keeps a line of an unknown kind as it is.
    pub(super) fn unread(&mut self, at: Timestamp, key: &str, bytes: &[u8], found: &mut Found) {
        let (run, source) = (self.events.run.clone(), self.events.source.clone());
        let unread = Event::unread(run, source, at, bytes);
        self.fact(at, format!("line:{key}"), unread.payload, found);
    }
}
