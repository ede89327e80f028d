//! The entries of a run as the page shows them: a title, the state, and blocks with the content.

use std::collections::HashMap;

use midcourse::{
    AgentMessage, AssistantBlock, DecisionPoint, Delivery, Entry, Outcome, OutcomeVerdict,
    OutlineStep, StepKind, Store, StoreError, TrajectoryPayload,
};
use serde::Serialize;
use serde_json::Value;

use super::blocks::{Block, blocks_of};
use super::cut::start;
use super::outline::state_number;
use crate::display::{
    call_text, describe_entry, describe_outcome, error_line, one_line, plain_name,
};

/// How many characters of a text a list of entries has.
pub(crate) const MAX_CHARS_IN_LIST: usize = 4_000;

/// How many characters of a text a single entry has.
pub(crate) const MAX_CHARS_OF_ONE: usize = 1_000_000;

/// The longest title, in characters.
const MAX_TITLE: usize = 160;

/// How many characters of a text are read to make a title of it.
const MAX_READ_FOR_TITLE: usize = 2_000;

/// Entries of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct EntriesPage {
    pub(crate) entries: Vec<EntryView>,
    /// The seq of the first entry after these.
    pub(crate) next: Option<u64>,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct EntryView {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) kind: &'static str,
    pub(crate) tool: Option<String>,
    pub(crate) title: String,
    pub(crate) state: u8,
    pub(crate) end_seq: Option<u64>,
    pub(crate) end_at: Option<u64>,
    pub(crate) source: String,
    pub(crate) decision_point: Option<&'static str>,
    pub(crate) redactions: u32,
    /// The line of a failed call's result that says most.
    pub(crate) error_line: Option<String>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) message: Option<MessageView>,
}

/// What an entry says about a message of midcourse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MessageView {
    shadow: bool,
    withheld: bool,
    provider: String,
    pattern: Option<String>,
    /// The pattern in plain words.
    pattern_text: Option<String>,
    outcome: Option<OutcomeVerdict>,
    /// The outcome in plain words.
    outcome_text: Option<String>,
}

/// Up to `count` entries of a run, from the first one at or after seq `from` on; `None` if the run is
/// not stored.
pub(crate) fn entries(
    store: &Store,
    run_id: &str,
    from: u64,
    count: usize,
) -> Result<Option<EntriesPage>, StoreError> {
    let mut page = EntriesPage { entries: Vec::new(), next: Some(from) };
    let mut reader = Reader::new(store, run_id, MAX_CHARS_IN_LIST);
    while let Some(from) = page.next {
        // One more step than entries, to find out where the next page begins.
        let missing = count.saturating_sub(page.entries.len());
        let Some(outline) = store.outline(run_id, from, missing.saturating_add(1))? else {
            return Ok(None);
        };
        page.next = outline.next;
        for step in outline.steps.iter().filter(|step| step.kind != StepKind::Turn) {
            if page.entries.len() >= count {
                page.next = Some(step.seq);
                return Ok(Some(page));
            }
            page.entries.push(reader.view_at(step)?);
        }
    }
    Ok(Some(page))
}

/// The entry that contains the record at `seq`; `None` if there is none.
pub(crate) fn entry(
    store: &Store,
    run_id: &str,
    seq: u64,
) -> Result<Option<EntryView>, StoreError> {
    let seq = store.entry_of(run_id, seq)?;
    let mut reader = Reader::new(store, run_id, MAX_CHARS_OF_ONE);
    match store.entry(run_id, seq) {
        Ok(entry) => entry.map(|it| reader.view(&it)).transpose(),
        Err(error @ StoreError::Damaged(_)) => {
            let steps = store.outline(run_id, seq, 1)?.map(|outline| outline.steps);
            let step = steps.unwrap_or_default().into_iter().find(|step| step.seq == seq);
            Ok(step.map(|step| damaged(&step, &error)))
        }
        Err(error) => Err(error),
    }
}

/// The whole content of a block of the entry at `seq`: a text, or a JSON value as text. `None` if
/// there is no such content.
pub(crate) fn whole_text(
    store: &Store,
    run_id: &str,
    seq: u64,
    pointer: &str,
) -> Result<Option<String>, StoreError> {
    let seq = store.entry_of(run_id, seq)?;
    let Some(entry) = store.entry(run_id, seq)? else { return Ok(None) };
    let records = [Some(entry.record), entry.end].into_iter().flatten();
    Ok(records.into_iter().find_map(|record| match record.value.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        other => serde_json::to_string_pretty(other).ok(),
    }))
}

/// The line that says most about why a call failed or was refused.
fn error_of(entry: &Entry) -> Option<String> {
    let end = entry.end.as_ref().unwrap_or(&entry.record);
    if end.failed != Some(true) {
        return None;
    }
    let line = match end.payload()? {
        TrajectoryPayload::ToolEnded { result, .. } => error_line(&result.comparable_text()),
        TrajectoryPayload::Denied { reason, .. } => error_line(reason.as_deref()?),
        _ => return None,
    };
    Some(line).filter(|line| !line.is_empty())
}

fn damaged(step: &OutlineStep, error: &StoreError) -> EntryView {
    unreadable(step, &format!("cannot be read: {error}"))
}

fn unreadable(step: &OutlineStep, why: &str) -> EntryView {
    EntryView {
        seq: step.seq,
        at: step.at.unix_ms(),
        kind: StepKind::Gap.as_str(),
        tool: step.tool.as_deref().map(ToOwned::to_owned),
        title: short_line(why),
        state: state_number(step.state),
        end_seq: step.end.map(|(seq, _)| seq),
        end_at: step.end.map(|(_, at)| at.unix_ms()),
        source: String::new(),
        decision_point: None,
        redactions: 0,
        error_line: None,
        blocks: Vec::new(),
        message: None,
    }
}

/// Reads entries of one run.
struct Reader<'a> {
    store: &'a Store,
    run_id: &'a str,
    max_chars: usize,
    /// What became of messages, read when the first message is shown.
    outcomes: Option<HashMap<u64, (u64, Outcome)>>,
}

impl<'a> Reader<'a> {
    const fn new(store: &'a Store, run_id: &'a str, max_chars: usize) -> Self {
        Self { store, run_id, max_chars, outcomes: None }
    }

    /// A step as an entry. One that cannot be read becomes an entry that says so.
    fn view_at(&mut self, step: &OutlineStep) -> Result<EntryView, StoreError> {
        match self.store.entry(self.run_id, step.seq) {
            Ok(Some(entry)) => self.view(&entry),
            Ok(None) => Ok(unreadable(step, "the record was removed")),
            Err(error @ StoreError::Damaged(_)) => Ok(damaged(step, &error)),
            Err(error) => Err(error),
        }
    }

    fn view(&mut self, entry: &Entry) -> Result<EntryView, StoreError> {
        let (record, end) = (&entry.record, entry.end.as_ref());
        let step = entry.step();
        let source = &record.source;
        let point = end.and_then(|end| end.decision_point).or(record.decision_point);
        Ok(EntryView {
            seq: step.seq,
            at: step.at.unix_ms(),
            kind: step.kind.as_str(),
            tool: step.tool.as_deref().map(ToOwned::to_owned),
            title: title(entry, step.kind),
            state: state_number(step.state),
            end_seq: step.end.map(|(seq, _)| seq),
            end_at: step.end.map(|(_, at)| at.unix_ms()),
            source: format!("{} ({})", one_line(source.host(), 80), source.channel().as_str()),
            decision_point: point.map(DecisionPoint::as_str),
            redactions: record.redactions.saturating_add(end.map_or(0, |end| end.redactions)),
            error_line: error_of(entry),
            blocks: blocks_of(entry, self.max_chars),
            message: self.message(entry)?,
        })
    }

    fn message(&mut self, entry: &Entry) -> Result<Option<MessageView>, StoreError> {
        let seq = entry.record.seq;
        let Some(message) = Message::of(entry) else { return Ok(None) };
        let outcomes = match &mut self.outcomes {
            Some(outcomes) => outcomes,
            None => self.outcomes.insert(self.store.outcomes(self.run_id, seq)?),
        };
        let pattern = message.delivery.why().map(|why| why.cause.kind());
        let outcome = outcomes.get(&seq).map(|(_, outcome)| outcome);
        Ok(Some(MessageView {
            shadow: message.shadow,
            withheld: message.withheld,
            provider: one_line(message.delivery.provider(), 80),
            pattern: pattern.map(ToOwned::to_owned),
            pattern_text: pattern.map(|pattern| plain_name(pattern).to_owned()),
            outcome: outcome.map(|outcome| outcome.verdict),
            outcome_text: outcome
                .map(|outcome| describe_outcome(outcome.verdict, outcome.after_calls)),
        }))
    }
}

/// A message of midcourse that an entry contains.
pub(super) struct Message {
    pub(super) delivery: Delivery,
    /// The text as the agent got it.
    pub(super) text: String,
    pub(super) shadow: bool,
    /// Whether an experiment withheld the message.
    pub(super) withheld: bool,
}

impl Message {
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let payload = entry.record.payload()?;
        let withheld = payload.is_withheld();
        match payload {
            TrajectoryPayload::FeedbackDelivered {
                feedback, text, tool_call_id, shadow, ..
            } => {
                let delivery = Delivery::Feedback { feedback, tool_call_id };
                Some(Self { delivery, text, shadow, withheld })
            }
            TrajectoryPayload::GuidanceDelivered { guidance, shadow, .. } => {
                let text = guidance.injection.content().to_owned();
                Some(Self { delivery: Delivery::Guidance(guidance), text, shadow, withheld })
            }
            _ => None,
        }
    }
}

/// What happened, on one line.
pub(super) fn title(entry: &Entry, kind: StepKind) -> String {
    // For a call, the title needs neither a copy of its arguments nor its result.
    let value = &entry.record.value;
    if let ("tool_started", Some(tool), Some(args)) =
        (entry.record.kind(), value.get("tool_name").and_then(Value::as_str), value.get("args"))
    {
        return short_line(&call_text(tool, args));
    }
    let described = describe_entry(entry, |seq| seq);
    let line = match kind {
        StepKind::Assistant if described.text.trim().is_empty() => {
            return response_without_text(entry).unwrap_or_else(|| "empty response".to_owned());
        }
        StepKind::Tool | StepKind::User | StepKind::Assistant | StepKind::Gap => {
            short_line(&described.text)
        }
        StepKind::Message => {
            short_line(&Message::of(entry).map_or(described.text, |message| message.text))
        }
        StepKind::Turn | StepKind::Outcome | StepKind::Run | StepKind::Note => {
            let text = start(&described.text, MAX_READ_FOR_TITLE);
            match described.label {
                // The text itself says what it is about.
                "about" => short_line(text),
                label => short_line(&format!("{label} {text}")),
            }
        }
    };
    if line.is_empty() { described.label.to_owned() } else { line }
}

/// What a response without a text has: reasoning, or calls.
fn response_without_text(entry: &Entry) -> Option<String> {
    let Some(TrajectoryPayload::MessageAppended {
        message: AgentMessage::Assistant { content, .. },
    }) = entry.record.payload()
    else {
        return None;
    };
    let thought = content.blocks.iter().find_map(|block| match block {
        AssistantBlock::Thinking(text) | AssistantBlock::Reasoning(text) => {
            Some(short_line(&text.text)).filter(|line| !line.is_empty())
        }
        _ => None,
    });
    let calls = content.blocks.iter().filter_map(|block| match block {
        AssistantBlock::ToolCall(call) => Some(start(&call.name, 80)),
        _ => None,
    });
    let calls: Vec<&str> = calls.collect();
    thought
        .or_else(|| (!calls.is_empty()).then(|| short_line(&format!("calls {}", calls.join(", ")))))
}

/// The start of a text on one line, without control characters.
pub(super) fn short_line(text: &str) -> String {
    let line = one_line(start(text, MAX_READ_FOR_TITLE), MAX_TITLE);
    start(&line, MAX_TITLE).to_owned()
}
