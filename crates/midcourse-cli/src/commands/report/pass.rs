//! Reads one run from the store, in pages, and adds it to a report. The engine replays the records,
//! as in `midcourse replay`, and says which calls failed, which files changed, and which patterns
//! hold.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::Result;
use midcourse::{
    Activity, AgentMessage, CallId, DeliveryPolicy, Digest, FailureKind, GapReason, PatternType,
    RunSummary, Store, StoredRecord, Timestamp, TrajectoryPattern, TrajectoryPayload,
    TrajectoryRecord, UserContent,
};
use serde_json::Value;

use super::data::{
    CallRef, Gap, LastWords, Message, MessageOutcome, RecordRef, Slice, Timeline, Trouble,
};
use super::prices::Tokens;
use super::words;
use crate::commands::replayed_run::ReplayedRun;
use crate::display::{error_line, one_line};

/// Records that are read from the store at once.
const PAGE: usize = 256;

/// Limits of what a report keeps of all runs together. Further entries are only counted.
const MAX_MESSAGES: usize = 500;
const MAX_TROUBLE: usize = 500;
const MAX_GAPS: usize = 100;
const MAX_KEYS: usize = 2_000;
const MAX_LONG_CALLS: usize = 500;

/// Records whose times are remembered, to say when a pattern began. The engine
/// compares at most 200 calls, of a few records each.
const REMEMBERED_TIMES: usize = 1_024;

/// How much of the agent's last text and of a message is kept, in characters.
const MAX_LAST_WORDS: usize = 2_000;

/// A call that takes this long explains a pause.
const LONG_CALL: Duration = Duration::from_secs(120);

/// What all runs of a report have in common.
pub(super) struct Sums {
    pub(super) timeline: Timeline,
    pub(super) calls: u64,
    pub(super) errors: u64,
    pub(super) compactions: u64,
    pub(super) trouble: Vec<Trouble>,
    pub(super) message_count: u64,
    pub(super) messages: Vec<Message>,
    /// Failing calls by what they did, the kind of failure, and whether they were refused.
    pub(super) failing: BTreeMap<(String, FailureKind, bool), Failing>,
    pub(super) files: BTreeMap<String, u64>,
    pub(super) models: BTreeMap<Option<String>, Tokens>,
    pub(super) gaps: Vec<Gap>,
    /// Long calls: from, until, and what they did.
    pub(super) long_calls: Vec<(Timestamp, Timestamp, String)>,
    pub(super) open_calls: Vec<CallRef>,
}

/// Failing calls of one kind: how many, the first, and the latest with its error.
pub(super) struct Failing {
    pub(super) count: u64,
    pub(super) first: RecordRef,
    pub(super) last: RecordRef,
    pub(super) error: String,
}

impl Sums {
    pub(super) const fn new(timeline: Timeline) -> Self {
        Self {
            timeline,
            calls: 0,
            errors: 0,
            compactions: 0,
            trouble: Vec::new(),
            message_count: 0,
            messages: Vec::new(),
            failing: BTreeMap::new(),
            files: BTreeMap::new(),
            models: BTreeMap::new(),
            gaps: Vec::new(),
            long_calls: Vec::new(),
            open_calls: Vec::new(),
        }
    }
}

/// What the pass found out about this run alone.
#[derive(Default)]
pub(super) struct RunFacts {
    pub(super) task: Option<String>,
    pub(super) calls: u64,
    pub(super) errors: u64,
    pub(super) messages: u64,
    pub(super) reported_cost: Option<midcourse::MicroUsd>,
    pub(super) last_words: Option<LastWords>,
}

/// Reads a run and adds what happened since seq `from` to `sums`.
pub(super) fn read(
    store: &Store,
    run: &RunSummary,
    from: u64,
    sums: &mut Sums,
) -> Result<RunFacts> {
    let is_child = run.parent_run_id.is_some();
    let mut pass = Pass {
        run,
        from,
        sums,
        facts: RunFacts::default(),
        // The messages in a report are those that were recorded, so the policy makes no difference.
        replay: ReplayedRun::new(DeliveryPolicy::default(), is_child),
        // Some hosts tell their model only after the first tokens.
        model: run.model.as_deref().map(|model| one_line(model, 80)),
        tokens: Tokens::default(),
        times: VecDeque::new(),
        open: BTreeMap::new(),
        held: Vec::new(),
    };
    let mut next = 0;
    loop {
        let page = store.records_or_damage(run.run_id.as_str(), next, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        next = last.saturating_add(1);
        for (seq, stored) in page {
            match stored {
                Ok(stored) => pass.add(stored)?,
                Err(error) => pass.add_gap(seq, run.latest, 1, format!("cannot be read: {error}")),
            }
        }
    }
    Ok(pass.finish())
}

struct Pass<'a> {
    run: &'a RunSummary,
    from: u64,
    sums: &'a mut Sums,
    facts: RunFacts,
    replay: ReplayedRun,
    /// The model of the latest request.
    model: Option<String>,
    /// Tokens up to the latest record.
    tokens: Tokens,
    /// When the latest records happened, by seq.
    times: VecDeque<(u64, Timestamp)>,
    /// Calls that have started and not ended.
    open: BTreeMap<CallId, CallRef>,
    /// Patterns that hold: the cause, and the index in `sums.trouble`.
    held: Vec<(Digest, usize)>,
}

impl Pass<'_> {
    fn record_ref(&self, seq: u64) -> RecordRef {
        RecordRef { run_id: self.run.run_id.clone(), seq }
    }

    fn add(&mut self, stored: StoredRecord) -> Result<()> {
        let source = stored.source.clone();
        let record = stored.into_record();
        let (seq, at) = (record.seq, record.at());
        let counts = seq >= self.from;
        if self.times.len() == REMEMBERED_TIMES {
            self.times.pop_front();
        }
        self.times.push_back((seq, at));
        if counts {
            self.sums.timeline.add(at, Slice { records: 1, ..Slice::default() });
        }
        if record.payload.is_conclusion() {
            if counts {
                self.add_conclusion(&record);
            }
            return Ok(());
        }
        // Without a decision point, the engine applies the record and makes no message.
        let step = self.replay.step(&record, Some(&source), None)?;
        self.add_tokens(&record, counts);
        self.add_payload(&record, counts);
        if counts {
            self.add_call(&record);
        }
        self.add_patterns(&step.patterns, seq, at, counts);
        Ok(())
    }

    fn add_tokens(&mut self, record: &TrajectoryRecord, counts: bool) {
        if let TrajectoryPayload::ProviderRequestPrepared { model_id: Some(model), .. }
        | TrajectoryPayload::RunDescribed { model: Some(model), .. } = &record.payload
        {
            self.model = Some(one_line(model, 80));
        }
        let tokens = Tokens::of(&self.replay.engine().trajectory().usage());
        let new = tokens.since(self.tokens);
        self.tokens = tokens;
        if counts && !new.is_zero() {
            self.sums.models.entry(self.model.clone()).or_default().add(new);
        }
    }

    fn add_payload(&mut self, record: &TrajectoryRecord, counts: bool) {
        let (seq, at) = (record.seq, record.at());
        match &record.payload {
            TrajectoryPayload::MessageAppended { message }
            | TrajectoryPayload::TurnEnded { assistant: message, .. } => {
                self.add_message(message, seq, at);
            }
            TrajectoryPayload::RunEnded { new_messages, .. } => {
                new_messages.iter().for_each(|message| self.add_message(message, seq, at));
            }
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                let call = CallRef {
                    record: self.record_ref(seq),
                    at,
                    text: one_line(&format!("{tool_name} {}", telling_argument(args)), 160),
                };
                if self.open.len() < MAX_KEYS {
                    self.open.insert(tool_call_id.clone(), call);
                }
            }
            TrajectoryPayload::ToolEnded { tool_call_id, .. }
            | TrajectoryPayload::Denied { tool_call_id, .. } => {
                if let Some(call) = self.open.remove(tool_call_id)
                    && at.since(call.at) >= LONG_CALL
                    && self.sums.long_calls.len() < MAX_LONG_CALLS
                {
                    self.sums.long_calls.push((call.at, at, call.text));
                }
            }
            TrajectoryPayload::Resumed => self.open.clear(),
            TrajectoryPayload::CostReported { total_micro_usd } => {
                self.facts.reported_cost = Some(*total_micro_usd);
            }
            TrajectoryPayload::ContextCompacted { .. } if counts => self.sums.compactions += 1,
            TrajectoryPayload::FileCreated { path } if counts => self.add_file(path),
            TrajectoryPayload::Gap { lost, reason } if counts => {
                let why = match reason {
                    GapReason::Rejected => "the store refused them",
                    GapReason::Io => "the store could not be written",
                    GapReason::Overload => "they came faster than they could be written",
                    GapReason::Damage => "the store was damaged",
                };
                self.add_gap(seq, at, *lost, why.to_owned());
            }
            TrajectoryPayload::Unread { .. } if counts => {
                self.add_gap(seq, at, 1, "midcourse could not read it".to_owned());
            }
            _ => {}
        }
    }

    fn add_message(&mut self, message: &AgentMessage, seq: u64, at: Timestamp) {
        match message {
            AgentMessage::User { content: UserContent::Text(text), .. }
                if self.facts.task.is_none() && !text.trim().is_empty() =>
            {
                self.facts.task = Some(one_line(text, 200));
            }
            AgentMessage::Assistant { content, .. } => {
                let text = content.plain_text();
                if !text.trim().is_empty() {
                    let text = words::shorten(text.trim(), MAX_LAST_WORDS);
                    let record = self.record_ref(seq);
                    self.facts.last_words = Some(LastWords { record, at, text });
                }
            }
            _ => {}
        }
    }

    fn add_gap(&mut self, seq: u64, at: Timestamp, lost: u64, text: String) {
        if self.sums.gaps.len() < MAX_GAPS {
            let record = self.record_ref(seq);
            self.sums.gaps.push(Gap { record, at, lost, text });
        }
    }

    fn add_file(&mut self, path: &str) {
        let path = one_line(path, 200);
        if self.sums.files.len() < MAX_KEYS || self.sums.files.contains_key(&path) {
            *self.sums.files.entry(path).or_default() += 1;
        }
    }

    /// Adds the call that the latest record ended, if it ended one.
    fn add_call(&mut self, ended: &TrajectoryRecord) {
        let (record, at) = (self.record_ref(ended.seq), ended.at());
        let Some(call) = self.replay.engine().call_just_ended() else { return };
        let (failed, did) = (call.is_error(), call.activity().did(call.object().as_ref()));
        let (kind, is_denied) = (call.failure_kind(), call.is_denied());
        let is_change = call.activity() == Activity::Edit && !failed;
        let file = call.target_name().filter(|_| is_change).map(ToString::to_string);
        self.facts.calls += 1;
        self.sums.calls += 1;
        let errors = u32::from(failed);
        self.sums.timeline.add(at, Slice { calls: 1, errors, ..Slice::default() });
        if let Some(file) = file {
            self.add_file(&file);
        }
        if !failed {
            return;
        }
        self.facts.errors += 1;
        self.sums.errors += 1;
        let key = (did, kind.unwrap_or(FailureKind::Other), is_denied);
        if self.sums.failing.len() < MAX_KEYS || self.sums.failing.contains_key(&key) {
            let error = match &ended.payload {
                TrajectoryPayload::ToolEnded { result, .. } => result.comparable_text(),
                TrajectoryPayload::Denied { reason, .. } => reason.as_deref().unwrap_or("").into(),
                _ => "".into(),
            };
            let error = error_line(&error);
            let known = self.sums.failing.remove(&key);
            let (count, first) = known.map_or((0, record.clone()), |it| (it.count, it.first));
            let failing = Failing { count: count + 1, first, last: record, error };
            self.sums.failing.insert(key, failing);
        }
    }

    fn add_patterns(&mut self, found: &[TrajectoryPattern], seq: u64, at: Timestamp, counts: bool) {
        let trajectory = self.replay.engine().trajectory();
        if self.held.is_empty() && found.is_empty() {
            return;
        }
        let holds = |cause: Digest| trajectory.patterns().iter().any(|it| it.cause().id() == cause);
        self.held.retain(|(cause, _)| holds(*cause));
        // A loop of failing calls is also a repeated error, with the same cause. The error says more.
        let mut patterns: Vec<&TrajectoryPattern> = trajectory.patterns().iter().collect();
        patterns.sort_by_key(|it| it.pattern_type() != PatternType::RepeatedError);
        let mut seen: Vec<Digest> = Vec::new();
        for pattern in patterns {
            let name = pattern.pattern_type();
            let cause = pattern.cause().id();
            if !name.is_trouble() || seen.contains(&cause) {
                continue;
            }
            seen.push(cause);
            let last = pattern.evidence().last().copied();
            let call = trajectory.calls().rev().find(|call| Some(call.ended_seq()) == last);
            let text = |count| words::trouble(pattern.detail(), call, count);
            if let Some((_, index)) = self.held.iter().find(|(held, _)| *held == cause) {
                let trouble = self.sums.trouble.get_mut(*index);
                // A pattern is still reported for a while after the agent has turned to something
                // else. It holds up to its newest evidence.
                if let Some(trouble) = trouble.filter(|_| last == Some(seq)) {
                    trouble.count += 1;
                    trouble.until = at;
                    trouble.text = text(trouble.count);
                }
            } else if counts
                && found.iter().any(|new| new.cause().id() == cause)
                && self.sums.trouble.len() < MAX_TROUBLE
            {
                let first_seq = pattern.evidence().first().copied().unwrap_or(seq);
                let first = trajectory.calls().find(|call| call.ended_seq() == first_seq);
                let first = first.map(|call| call.started_at());
                // Not every pattern is about calls.
                let shown = self.times.iter().find(|(seq, _)| *seq == first_seq);
                let first = first.or_else(|| shown.map(|(_, at)| *at));
                let evidence = u64::try_from(pattern.evidence().len()).unwrap_or(u64::MAX);
                let count = evidence.max(u64::from(pattern.occurrences()));
                self.held.push((cause, self.sums.trouble.len()));
                self.sums.trouble.push(Trouble {
                    record: RecordRef { run_id: self.run.run_id.clone(), seq },
                    at,
                    call: trajectory.tool_call_count(),
                    pattern: name.as_str().to_owned(),
                    sign: text(count),
                    text: text(count),
                    first_seq,
                    from: first.unwrap_or(at),
                    until: at,
                    count,
                });
            }
        }
    }

    /// Adds a message, or what became of one.
    fn add_conclusion(&mut self, record: &TrajectoryRecord) {
        let (why, text, provider, shadow) = match &record.payload {
            TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls } => {
                let about = self.record_ref(*delivery_seq);
                let mut messages = self.sums.messages.iter_mut();
                if let Some(message) = messages.rfind(|message| message.record == about) {
                    let (verdict, after_calls) = (*verdict, *after_calls);
                    message.outcome = Some(MessageOutcome { verdict, after_calls });
                }
                return;
            }
            TrajectoryPayload::FeedbackDelivered { feedback, text, shadow, .. } => {
                (feedback.why(), text.as_str(), feedback.provider_name(), *shadow)
            }
            TrajectoryPayload::GuidanceDelivered { guidance, shadow, .. } => {
                let injection = &guidance.injection;
                (injection.why(), injection.content(), guidance.provider_name.as_str(), *shadow)
            }
            _ => return,
        };
        self.facts.messages += 1;
        self.sums.message_count += 1;
        let at = record.at();
        self.sums.timeline.add(at, Slice { messages: 1, ..Slice::default() });
        if self.sums.messages.len() == MAX_MESSAGES {
            return;
        }
        let evidence = why.map(|why| why.evidence.clone()).unwrap_or_default();
        self.sums.messages.push(Message {
            record: self.record_ref(record.seq),
            at,
            text: words::shorten(text.trim(), MAX_LAST_WORDS),
            provider: one_line(provider, 80),
            pattern: why.map(|why| why.cause.kind().to_owned()),
            shadow,
            withheld: record.payload.is_withheld(),
            evidence: evidence.into_iter().map(|seq| self.record_ref(seq)).collect(),
            outcome: None,
        });
    }

    fn finish(self) -> RunFacts {
        if self.run.ended.is_none() {
            self.sums.open_calls.extend(self.open.into_values());
        }
        self.facts
    }
}

/// The argument that says most about a call, such as its command or file.
pub(super) fn telling_argument(args: &Value) -> String {
    let names = ["command", "cmd", "file_path", "path", "pattern", "query", "url", "prompt"];
    match names.iter().find_map(|name| args.get(name)) {
        Some(Value::String(text)) => words::shorten(text, 1_000),
        // Codex writes a command as a list of words.
        Some(Value::Array(list)) => {
            let parts =
                list.iter().filter_map(Value::as_str).map(|word| words::shorten(word, 1_000));
            parts.collect::<Vec<_>>().join(" ")
        }
        _ if args.as_object().is_none_or(serde_json::Map::is_empty) => String::new(),
        _ => words::shorten(&args.to_string(), 1_000),
    }
}
