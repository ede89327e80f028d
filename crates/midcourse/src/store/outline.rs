//! The outline of a run: one light row per step, for a viewer that draws the whole run.
//!
//! A step is an entry (see [`Entry`]), or the start of a turn. An outline says what kind of step it
//! is, when it happened, and how a call ended. It reads no long texts, so it is quick for long runs
//! too. Every function reads all rows of a query before it returns, like those of
//! [`read`](super::read).

mod changes;

pub use changes::OutlineChanges;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use midcourse_core::{Outcome, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Deserialize;
use serde_json::Value;

use super::append::{run_head, seq_of_fact};
use super::entries::Entry;
use super::error::StoreError;
use super::tail::Cursor;
use super::{Store, read};

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// The start of a turn.
    Turn,
    /// A tool call, with its end.
    Tool,
    /// A message of the user.
    User,
    /// A response of the model.
    Assistant,
    /// A message of midcourse for the agent.
    Message,
    /// What became of a message of midcourse.
    Outcome,
    /// The start, the end or a description of the run.
    Run,
    /// Anything else that the host or midcourse recorded.
    Note,
    /// Records that were lost, or that this release cannot read.
    Gap,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepState {
    /// It succeeded, or the step is not a call.
    Fine,
    /// It failed.
    Failed,
    /// It was refused before it ran.
    Refused,
    /// It has no result yet.
    Open,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineStep {
    /// The seq of the step's record. For a call whose start is not stored, that of its end.
    pub seq: u64,
    /// When the record happened.
    pub at: Timestamp,
    /// What the step is.
    pub kind: StepKind,
    /// The tool of a call.
    pub tool: Option<Arc<str>>,
    /// The seq and the time of the record that ends the call.
    pub end: Option<(u64, Timestamp)>,
    /// How the call ended.
    pub state: StepState,
}

/// A part of the outline of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The steps, in the order of their seqs.
    pub steps: Vec<OutlineStep>,
    /// The seq of the next step; `None` at the end of the run.
    pub next: Option<u64>,
    /// The position from which [`Store::outline_changes`] finds everything that is stored after this
    /// outline was read.
    pub cursor: Cursor,
}

/// Records that are in no step.
const LEFT_OUT: [&str; 4] =
    ["turn_ended", "provider_request_prepared", "usage_reported", "cost_reported"];

impl StepKind {
    /// The kind of the step that a record of this kind is. `None` for records that are in no step.
    /// `role` is the role of an appended message.
    fn of(kind: &str, role: Option<&str>) -> Option<Self> {
        Some(match kind {
            _ if LEFT_OUT.contains(&kind) => return None,
            "turn_started" => Self::Turn,
            "tool_started" | "tool_ended" | "denied" => Self::Tool,
            "message_appended" => match role {
                Some("user") => Self::User,
                Some("assistant") => Self::Assistant,
                Some("system" | "tool_result" | "custom") => Self::Note,
                _ => Self::Gap,
            },
            "feedback_delivered" | "guidance_delivered" => Self::Message,
            "outcome" => Self::Outcome,
            "run_started" | "run_ended" | "resumed" | "run_described" => Self::Run,
            "deadline_set"
            | "config_applied"
            | "file_created"
            | "proxy_attached"
            | "context_compacted"
            | "context_transform_applied"
            | "tool_gate_applied"
            | "tool_gate_conflict_resolved"
            | "output_tokens_escalation" => Self::Note,
            // `gap` and `unread`, and kinds that only a newer release knows.
            _ => Self::Gap,
        })
    }

    /// The name of the kind in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Tool => "tool",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Message => "message",
            Self::Outcome => "outcome",
            Self::Run => "run",
            Self::Note => "note",
            Self::Gap => "gap",
        }
    }
}

impl Entry {
    /// The entry as a step of an outline.
    pub fn step(&self) -> OutlineStep {
        let Self { record, end } = self;
        let role = record.value.pointer("/message/role").and_then(Value::as_str);
        let kind = StepKind::of(record.kind(), role).unwrap_or(StepKind::Note);
        let is_end = matches!(record.kind(), "tool_ended" | "denied");
        let ended = end.as_ref().or(is_end.then_some(record));
        let ended = ended.map(|end| End::new(end.seq, end.at, end.kind(), end.failed));
        let is_call = kind == StepKind::Tool;
        let tool = record.value.get("tool_name").and_then(Value::as_str).filter(|_| is_call);
        OutlineStep {
            seq: record.seq,
            at: record.at,
            kind,
            tool: tool.map(Arc::from),
            end: ended.map(|end| (end.seq, end.at)),
            state: match ended {
                Some(end) => end.state,
                None if is_call => StepState::Open,
                None => StepState::Fine,
            },
        }
    }
}

/// The parts of a payload that an outline needs. Everything else is skipped without a copy.
#[derive(Default, Deserialize)]
struct PayloadWire<'a> {
    #[serde(borrow, default)]
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<MessageWire<'a>>,
}

#[derive(Default, Deserialize)]
struct MessageWire<'a> {
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'a, str>>,
}

impl<'a> PayloadWire<'a> {
    /// Reads a payload; without its parts if it is not valid.
    fn of(row: &'a rusqlite::Row<'_>) -> Self {
        let text = row.get_ref(PAYLOAD).ok().and_then(|value| value.as_bytes().ok());
        text.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default()
    }
}

/// The columns that an outline needs, and the position of the last one.
const COLUMNS: &str = "r.seq, r.at, r.kind, r.fact, r.failed, r.payload";
const PAYLOAD: usize = 5;

/// Makes steps of the rows of one run.
struct Steps<'c> {
    connection: &'c Connection,
    run: i64,
    steps: Vec<OutlineStep>,
    /// The calls among `steps` by fact key, each with its index.
    started: HashMap<String, usize>,
    /// The ends of calls among the rows so far, by fact key.
    ended: HashMap<String, End>,
    tools: HashSet<Arc<str>>,
}

#[derive(Debug, Clone, Copy)]
struct End {
    seq: u64,
    at: Timestamp,
    state: StepState,
}

impl End {
    fn new(seq: u64, at: Timestamp, kind: &str, failed: Option<bool>) -> Self {
        let state = match (kind, failed) {
            ("denied", _) => StepState::Refused,
            (_, Some(true)) => StepState::Failed,
            _ => StepState::Fine,
        };
        Self { seq, at, state }
    }
}

impl<'c> Steps<'c> {
    fn new(connection: &'c Connection, run: i64) -> Self {
        let (steps, tools) = (Vec::new(), HashSet::new());
        Self { connection, run, steps, started: HashMap::new(), ended: HashMap::new(), tools }
    }

    /// The step of a row; `None` if the record is in no step, or in that of another record.
    fn step_of(
        &mut self,
        row: &rusqlite::Row<'_>,
    ) -> Result<Option<(OutlineStep, Option<String>)>, StoreError> {
        let (seq, at) = (read::unsigned(row, 0)?, Timestamp::from_unix_ms(read::unsigned(row, 1)?));
        let kind: String = row.get(2)?;
        let fact = || row.get::<_, Option<String>>(3);
        let mut step = OutlineStep {
            seq,
            at,
            kind: StepKind::Tool,
            tool: None,
            end: None,
            state: StepState::Fine,
        };
        match kind.as_str() {
            "tool_started" => {
                step.tool = self.tool_of(PayloadWire::of(row).tool_name);
                step.state = StepState::Open;
                return Ok(Some((step, fact()?)));
            }
            "tool_ended" | "denied" => {
                let end = End::new(seq, at, &kind, row.get(4)?);
                if let Some(fact) = fact()? {
                    let is_part = self.started.contains_key(&fact)
                        || self.find(&fact, "tool_started")?.is_some();
                    self.ended.insert(fact, end);
                    if is_part {
                        return Ok(None);
                    }
                }
                step.tool = self.tool_of(PayloadWire::of(row).tool_name);
                (step.end, step.state) = (Some((seq, at)), end.state);
            }
            "message_appended" => {
                let message = PayloadWire::of(row).message.unwrap_or_default();
                let role = message.role.as_deref();
                if let (Some("tool_result"), Some(call)) = (role, &message.tool_call_id)
                    && (self.ended.contains_key(&**call) || self.find_end(call)?.is_some())
                {
                    return Ok(None);
                }
                step.kind = StepKind::of(&kind, role).unwrap_or(StepKind::Gap);
            }
            other => match StepKind::of(other, None) {
                Some(kind) => step.kind = kind,
                None => return Ok(None),
            },
        }
        Ok(Some((step, None)))
    }

    fn push(&mut self, step: OutlineStep, fact: Option<String>) {
        if let Some(fact) = fact {
            self.started.insert(fact, self.steps.len());
        }
        self.steps.push(step);
    }

    /// Adds the ends of calls. Those that are not among the rows are found by their fact keys.
    fn finish(mut self) -> Result<Vec<OutlineStep>, StoreError> {
        for (fact, index) in std::mem::take(&mut self.started) {
            let end = match self.ended.get(&fact) {
                Some(end) => Some(*end),
                None => self.find_end(&fact)?,
            };
            if let (Some(end), Some(step)) = (end, self.steps.get_mut(index)) {
                (step.end, step.state) = (Some((end.seq, end.at)), end.state);
            }
        }
        Ok(self.steps)
    }

    /// The end of the call with this fact key. A result counts more than a refusal, as in
    /// [`Store::entry`].
    fn find_end(&self, fact: &str) -> Result<Option<End>, StoreError> {
        match self.find(fact, "tool_ended")? {
            Some(end) => Ok(Some(end)),
            None => self.find(fact, "denied"),
        }
    }

    fn find(&self, fact: &str, kind: &str) -> Result<Option<End>, StoreError> {
        let mut find = self.connection.prepare_cached(
            "SELECT seq, at, failed FROM records WHERE run = ?1 AND kind = ?2 AND fact = ?3",
        )?;
        let found = find.query_row(params![self.run, kind, fact], |row| {
            let (seq, at) = (read::unsigned(row, 0)?, read::unsigned(row, 1)?);
            Ok(End::new(seq, Timestamp::from_unix_ms(at), kind, row.get(2)?))
        });
        Ok(found.optional()?)
    }

    /// The name of a tool, stored once however many calls it has.
    fn tool_of(&mut self, name: Option<Cow<'_, str>>) -> Option<Arc<str>> {
        let name = name?;
        if let Some(known) = self.tools.get(&*name) {
            return Some(Arc::clone(known));
        }
        let new: Arc<str> = name.into();
        self.tools.insert(Arc::clone(&new));
        Some(new)
    }
}

impl Store {
    /// Up to `count` steps of a run, beginning with the first one at or after seq `from`; `None` if
    /// the run is not stored.
    pub fn outline(
        &self,
        run_id: &str,
        from: u64,
        count: usize,
    ) -> Result<Option<Outline>, StoreError> {
        // The position is read first: what is stored meanwhile is then found twice, and not lost.
        let cursor = self.cursor(None, 0)?;
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(None) };
        let mut steps = Steps::new(&self.connection, head.id);
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM records AS r WHERE r.run = ?1 AND r.seq >= ?2 ORDER BY r.seq"
        ))?;
        let mut rows = find.query(params![head.id, i64::try_from(from).unwrap_or(i64::MAX)])?;
        let mut next = None;
        while let Some(row) = rows.next()? {
            let Some((step, fact)) = steps.step_of(row)? else { continue };
            if steps.steps.len() == count {
                next = Some(step.seq);
                break;
            }
            steps.push(step, fact);
        }
        drop(rows);
        Ok(Some(Outline { steps: steps.finish()?, next, cursor }))
    }

    /// The seq of the start of a tool call, or of its end if the start is not stored.
    pub fn call_seq(&self, run_id: &str, call_id: &str) -> Result<Option<u64>, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(None) };
        for kind in ["tool_started", "tool_ended", "denied"] {
            if let Some(seq) = seq_of_fact(&self.connection, head.id, kind, call_id)? {
                return Ok(u64::try_from(seq).ok());
            }
        }
        Ok(None)
    }

    /// The seqs of a run's records with one of these payload kinds, in order.
    pub fn seqs_of(&self, run_id: &str, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(Vec::new()) };
        let seqs = read::seqs_of(&self.connection, head.id, kinds)?;
        Ok(seqs.into_iter().filter_map(|seq| u64::try_from(seq).ok()).collect())
    }

    /// What became of the messages of a run, by the seq of the message: the seq of the record that
    /// says it, and what it says. Records before seq `from` are left out.
    pub fn outcomes(
        &self,
        run_id: &str,
        from: u64,
    ) -> Result<HashMap<u64, (u64, Outcome)>, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(HashMap::new()) };
        let mut find = self.connection.prepare_cached(
            "SELECT seq, payload FROM records WHERE run = ?1 AND seq >= ?2 AND kind = 'outcome'",
        )?;
        let mut rows = find.query([head.id, i64::try_from(from).unwrap_or(i64::MAX)])?;
        let mut outcomes = HashMap::new();
        while let Some(row) = rows.next()? {
            let payload: String = row.get(1)?;
            if let Ok(outcome) = serde_json::from_str::<Outcome>(&payload) {
                outcomes.insert(outcome.delivery_seq, (read::unsigned(row, 0)?, outcome));
            }
        }
        Ok(outcomes)
    }
}

#[cfg(test)]
mod tests;
