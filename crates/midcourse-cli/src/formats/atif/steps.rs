//! Turns the records of a run into steps, in order.
//!
//! A model response and the calls in it are one step of the agent; a result belongs to the step of
//! its call (`turns`). A message of the user is a step too, and so is a message of midcourse that
//! the agent got. All other records go with the step before them, or with the one that they begin.
//! Steps are kept until no result for them is expected, up to a limit.

mod turns;

use std::collections::VecDeque;

use midcourse::{
    AgentMessage, Assignment, Label, RunId, RunSummary, StoredRecord, Timestamp, ToolResult,
    TrajectoryPayload,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::content;
use super::step::{Origin, Step};

/// Steps that are kept because something more may be added to them.
const KEPT_STEPS: usize = 16;

/// A step that waits for the result of a call is written after this many further steps. A result
/// that comes later becomes a step of its own.
const MAX_KEPT_STEPS: usize = 256;

/// Makes the steps of one run.
pub(crate) struct StepBuilder {
    kept: VecDeque<Step>,
    /// Number of steps that were taken out of `kept`.
    written: u64,
    /// Position of the step that further calls of this turn belong to, counted from the first step.
    turn: Option<u64>,
    /// Whether the run has records that begin or end a turn.
    has_turns: bool,
    /// Records that belong to the next step.
    waiting: Vec<Value>,
    /// Child runs to which no step refers yet.
    children: Vec<RunId>,
    /// The id of the run, or of the run that the document is about if this is a subagent.
    session_id: String,
    /// Time of the latest record.
    latest: Timestamp,
}

impl StepBuilder {
    pub(crate) fn new(children: &[&RunSummary], session_id: &str) -> Self {
        Self {
            kept: VecDeque::new(),
            written: 0,
            turn: None,
            has_turns: false,
            waiting: Vec::new(),
            children: children.iter().map(|child| child.run_id.clone()).collect(),
            session_id: session_id.to_owned(),
            latest: Timestamp::default(),
        }
    }

    /// Takes in the next record of the run, with its labels.
    pub(crate) fn push(&mut self, record: &StoredRecord, labels: &[&Label]) {
        let line = line_of(record, labels);
        let at = record.at;
        self.latest = at;
        // A newer release may have written a kind that this one does not know.
        let Ok(payload) = TrajectoryPayload::deserialize(&record.value) else {
            return self.attach(line);
        };
        match payload {
            TrajectoryPayload::TurnStarted | TrajectoryPayload::ProviderRequestPrepared { .. } => {
                self.has_turns = true;
                self.turn = None;
                self.waiting.push(line);
            }
            TrajectoryPayload::Resumed => {
                self.turn = None;
                self.waiting.push(line);
            }
            TrajectoryPayload::MessageAppended { message } => self.push_message(at, message, line),
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                self.start_call(tool_call_id.as_str(), &tool_name, args, line);
            }
            TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, is_error } => {
                let ended = self.result_of(&result, is_error);
                self.end_call(tool_call_id.as_str(), &tool_name, ended, line);
            }
            TrajectoryPayload::Denied { tool_call_id, tool_name, reason } => {
                let reason = reason.as_deref().unwrap_or("no reason given");
                let ended = json!({"content": format!("Refused before it ran: {reason}"),
                                   "extra": {"is_error": true, "is_denied": true}});
                self.end_call(tool_call_id.as_str(), &tool_name, ended, line);
            }
            TrajectoryPayload::TurnEnded { assistant, .. } => {
                self.has_turns = true;
                self.push_repeated(assistant, line);
                self.turn = None;
            }
            TrajectoryPayload::RunEnded { mut new_messages, .. } => {
                self.turn = None;
                match new_messages.pop() {
                    Some(message) => self.push_repeated(message, line),
                    None => self.attach(line),
                }
            }
            TrajectoryPayload::FeedbackDelivered {
                text,
                shadow: false,
                assignment: None | Some(Assignment::Delivered),
                ..
            } => {
                let about = summary_of(&record.value, "/feedback", "/feedback/why");
                self.push_own_message(&text, about, line);
            }
            TrajectoryPayload::GuidanceDelivered {
                guidance,
                shadow: false,
                assignment: None | Some(Assignment::Delivered),
            } => {
                let about = summary_of(&record.value, "/guidance", "/guidance/injection/why");
                self.push_own_message(guidance.injection.content(), about, line);
            }
            TrajectoryPayload::ContextCompacted { .. } => {
                self.turn = None;
                let text = "The conversation so far was replaced with a summary.";
                let mut step = Step::new(Origin::System, at, text);
                let meaning = json!({"type": "compaction", "boundary": "replace"});
                step.extra.insert("context_management".to_owned(), meaning);
                self.add(step, line);
            }
            TrajectoryPayload::Gap { lost, .. } => {
                let text = format!("{lost} records of this run were lost here.");
                self.add(Step::new(Origin::System, at, text), line);
            }
            TrajectoryPayload::UsageReported { usage } => match self.latest_agent_step() {
                Some(step) => {
                    step.add_usage(&usage);
                    step.records.push(line);
                }
                None => self.attach(line),
            },
            TrajectoryPayload::RunStarted { .. }
            | TrajectoryPayload::ContextTransformApplied { .. }
            | TrajectoryPayload::ToolGateApplied { .. }
            | TrajectoryPayload::ToolGateConflictResolved { .. }
            | TrajectoryPayload::OutputTokensEscalation { .. }
            | TrajectoryPayload::FeedbackDelivered { .. }
            | TrajectoryPayload::GuidanceDelivered { .. }
            | TrajectoryPayload::Outcome { .. }
            | TrajectoryPayload::DeadlineSet { .. }
            | TrajectoryPayload::ConfigApplied { .. }
            | TrajectoryPayload::FileCreated { .. }
            | TrajectoryPayload::CostReported { .. }
            | TrajectoryPayload::ProxyAttached
            | TrajectoryPayload::RunDescribed { .. }
            | TrajectoryPayload::Unread { .. } => self.attach(line),
        }
    }

    /// The next step to which nothing will be added, as JSON.
    pub(crate) fn pop(&mut self) -> Option<Value> {
        let is_complete = self.kept.front().is_some_and(|step| !step.has_open_calls());
        let limit = if is_complete { KEPT_STEPS } else { MAX_KEPT_STEPS };
        (self.kept.len() > limit).then(|| self.pop_front()).flatten()
    }

    /// The next step, after the last record. There is at least one step in all.
    pub(crate) fn pop_rest(&mut self) -> Option<Value> {
        let children = std::mem::take(&mut self.children);
        if !children.is_empty() {
            let text = "The run started subagents.";
            let mut step = Step::new(Origin::System, self.latest, text);
            step.results.push(json!({"subagent_trajectory_ref": self.refs(&children)}));
            self.kept.push_back(step);
        }
        if self.kept.is_empty() && self.written == 0 {
            let text = "Neither the user nor the agent has written anything.";
            self.kept.push_back(Step::new(Origin::System, self.latest, text));
        }
        if let Some(step) = self.kept.back_mut() {
            step.records.append(&mut self.waiting);
        }
        self.pop_front()
    }

    /// Number of steps that were returned.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    fn pop_front(&mut self) -> Option<Value> {
        let step = self.kept.pop_front()?;
        self.written += 1;
        Some(step.into_json(self.written))
    }

    /// Adds a step that the record `line` begins.
    fn add(&mut self, mut step: Step, line: Value) {
        step.records.append(&mut self.waiting);
        step.records.push(line);
        self.kept.push_back(step);
    }

    /// Adds a record to the latest step, or to the first one if there is none yet.
    fn attach(&mut self, line: Value) {
        match self.kept.back_mut() {
            Some(step) => step.records.push(line),
            None => self.waiting.push(line),
        }
    }

    fn push_message(&mut self, at: Timestamp, message: AgentMessage, line: Value) {
        match message {
            AgentMessage::User { content, .. } => {
                self.turn = None;
                self.add(Step::new(Origin::User, at, content::of_user(&content)), line);
            }
            AgentMessage::System { content, .. } => {
                self.turn = None;
                self.add(Step::new(Origin::System, at, content), line);
            }
            AgentMessage::Assistant { content, error_message, usage, .. } => {
                self.push_response(&content, error_message, usage, line);
            }
            AgentMessage::ToolResult { tool_call_id, tool_name, content, is_error, .. } => {
                let ended = json!({"content": content::of_result(&content.blocks),
                                   "extra": {"is_error": is_error}});
                self.end_call(tool_call_id.as_str(), &tool_name, ended, line);
            }
            AgentMessage::Custom { .. } => self.attach(line),
        }
    }

    /// A message of midcourse that the agent got.
    fn push_own_message(&mut self, text: &str, about: Value, line: Value) {
        let mut step = Step::new(Origin::System, self.latest, text);
        step.own.insert("message".to_owned(), about);
        self.add(step, line);
    }

    fn result_of(&mut self, result: &ToolResult, is_error: bool) -> Value {
        let mut ended = Map::new();
        ended.insert("content".to_owned(), content::of_result(&result.content));
        let text = result.comparable_text();
        let own_part = |child: &RunId| self.own_part(child).is_some_and(|id| text.contains(id));
        let named: Vec<RunId> =
            self.children.iter().filter(|child| own_part(child)).cloned().collect();
        if !named.is_empty() {
            self.children.retain(|child| !named.contains(child));
            ended.insert("subagent_trajectory_ref".to_owned(), self.refs(&named));
        }
        if !result.is_error_unknown {
            let is_error = is_error || result.is_error;
            ended.insert("extra".to_owned(), json!({"is_error": is_error}));
        }
        ended.into()
    }

    /// The part of a child run's id by which the result of the call that started it can name it:
    /// hosts make the id of a child run from that of its parent and an id of its own.
    fn own_part<'a>(&self, child: &'a RunId) -> Option<&'a str> {
        let id = child.as_str();
        let part = id.rsplit_once('.').map_or(id, |(_, part)| part);
        (part.len() >= MIN_CHILD_ID_LEN).then_some(part)
    }

    fn refs(&self, children: &[RunId]) -> Value {
        let to_ref =
            |child: &RunId| json!({"trajectory_id": child.as_str(), "session_id": self.session_id});
        children.iter().map(to_ref).collect()
    }
}

/// A shorter id could be in the result of a call by chance.
const MIN_CHILD_ID_LEN: usize = 8;

/// A record as `midcourse export` writes it, without what the document says about the run.
fn line_of(record: &StoredRecord, labels: &[&Label]) -> Value {
    let mut line = record.to_json();
    if let Some(fields) = line.as_object_mut() {
        for name in ["run_id", "parent_run_id", "depth"] {
            fields.shift_remove(name);
        }
        if !labels.is_empty() {
            fields.insert("labels".to_owned(), json!(labels));
        }
    }
    line
}

/// What a message of midcourse is about, for readers that do not know midcourse's records.
fn summary_of(payload: &Value, message: &str, why: &str) -> Value {
    let find = |part: &str, field: &str| payload.pointer(&format!("{part}/{field}")).cloned();
    let fields = [
        ("kind", payload.get("kind").cloned()),
        ("provider", find(message, "provider_name")),
        ("cause", find(why, "cause")),
        ("evidence_seqs", find(why, "evidence")),
        ("tool_call_id", payload.get("tool_call_id").cloned()),
    ];
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect())
}
