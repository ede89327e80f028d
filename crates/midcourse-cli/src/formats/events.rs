//! `events`, the neutral format: one run a line, whatever the agent.
//!
//! A line is `{run_id, source?, success?, deadline?, meta?, events: […]}`; an event is a tool call
//! with its result, a word of the person or of the model, a compaction or a resumption. Reading
//! never refuses: a torn line gives what stands before the tear, an event that makes no sense is
//! left out, and both are counted.

use std::borrow::Cow;

use compact_str::{CompactString, ToCompactString as _};
use midcourse::{
    AgentMessage, RunId, RunIdentity, RunOutcome, Timestamp, ToolResult, TrajectoryPayload,
    looks_failed,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use midcourse::{Event, ForeignRecord, Source};

mod line;
mod moment;
mod text;

use line::LineParts;
use moment::Moment;
use text::{AnyText, Arguments, RawWire};

/// A run that was recorded elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignRun {
    /// The run, with its deadline.
    pub identity: RunIdentity,
    /// Where it comes from, in a word.
    pub source: Option<String>,
    /// Whether it did what it was to do, where that is known.
    pub success: Option<bool>,
    /// When it began.
    pub started: Timestamp,
    /// What happened, in order.
    pub events: Vec<ForeignEvent>,
    /// Events that could not be read.
    pub unread: usize,
    /// What is wrong with the line, if it is torn.
    pub torn: Option<String>,
}

impl ForeignRun {
    /// Whether the line was no run at all.
    pub fn is_nothing(&self) -> bool {
        self.events.is_empty() && self.torn.is_some()
    }

    /// The run as records for a store. Each is known the next time by its place in the list, or by
    /// its call.
    pub fn into_records(self) -> Vec<ForeignRecord> {
        let source = Source::new(self.source.as_deref().unwrap_or("import"), "events");
        let record = |at: Timestamp, fact: String, payload: TrajectoryPayload| {
            let mut event = Event::new(self.identity.clone(), source.clone(), at, payload);
            event.fact.get_or_insert_with(|| fact.into());
            ForeignRecord { seq: None, redactions: 0, events: vec![event] }
        };
        let begins = TrajectoryPayload::RunStarted { identity: self.identity.clone() };
        let mut records = vec![record(self.started, String::new(), begins)];
        let mut ended = self.started;
        for event in &self.events {
            ended = ended.max(event.at);
            for fact in &event.facts {
                records.push(record(event.at, format!("event:{}", event.position), fact.clone()));
            }
        }
        if let Some(success) = self.success {
            let outcome = if success { RunOutcome::Completed } else { RunOutcome::Failed };
            let ends = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
            records.push(record(ended, "event:end".to_owned(), ends));
        }
        records
    }
}

/// One event of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignEvent {
    /// Its place in the list, from 1.
    pub position: usize,
    /// When it happened.
    pub at: Timestamp,
    /// The facts it stands for, in order.
    pub facts: Vec<TrajectoryPayload>,
}

#[derive(Deserialize)]
struct EventWire<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    tool: Option<Cow<'a, str>>,
    #[serde(default)]
    args: Option<Arguments>,
    #[serde(borrow, default)]
    result: Option<AnyText<'a>>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow, default)]
    t: Option<Moment<'a>>,
    #[serde(borrow, default)]
    round: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<AnyText<'a>>,
}

impl<'a> EventWire<'a> {
    /// Reads an event; nothing, if it is none.
    fn read(raw: &'a str) -> Option<Self> {
        let mut event: Self = serde_json::from_str(raw).ok()?;
        let is_other = |field: &Option<AnyText<'_>>| matches!(field, Some(AnyText::Other));
        if is_other(&event.result) || is_other(&event.text) {
            let RawWire { result, text } = serde_json::from_str(raw).ok()?;
            for (field, raw) in [(&mut event.result, result), (&mut event.text, text)] {
                if let (Some(AnyText::Other), Some(raw)) = (&field, raw) {
                    *field = Some(AnyText::Text(Cow::Borrowed(raw.get())));
                }
            }
        }
        Some(event)
    }
}

/// A text that is there; of the owned ones without a copy.
fn owned(text: Option<AnyText<'_>>) -> String {
    match text {
        Some(AnyText::Text(text)) => text.into_owned(),
        Some(AnyText::Other) | None => String::new(),
    }
}

/// Reads one line. `now` is when a run began that does not say so, and `number` names one that
/// has no name.
pub fn read_run(line: &[u8], now: Timestamp, number: u64) -> ForeignRun {
    // Nearly every line is whole text, and checking that is much faster than mending it.
    let line = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(line),
    };
    let LineParts { run_id, source, success, deadline, started_at, events, torn } =
        LineParts::read(&line);
    let run_id = run_id.map_or_else(|| format!("line-{number}").into(), RunId::from);
    // A run that does not say when it began, but has dates, began with the first of them.
    let first_date = || {
        let timed = events.iter().map(|raw| raw.get()).filter(|raw| raw.contains("\"t\""));
        let first = timed.filter_map(EventWire::read).find_map(|event| event.t);
        first.and_then(|t| t.date())
    };
    let started = started_at.as_ref().and_then(Moment::absolute);
    let started = started.or_else(first_date).unwrap_or(now);
    let mut identity = RunIdentity::root(run_id.as_str());
    identity.deadline_unix_ms = deadline.and_then(|deadline| deadline.from(started));
    let mut telling = Telling { at: started, round: None, calls: 0 };
    let (mut told, mut unread) = (Vec::with_capacity(events.len()), 0);
    for (position, raw) in (1..).zip(&events) {
        match EventWire::read(raw.get()).and_then(|event| telling.tell(event, started)) {
            Some((at, facts)) => told.push(ForeignEvent { position, at, facts }),
            None => unread += 1,
        }
    }
    let source = source.map(Cow::into_owned);
    ForeignRun { identity, source, success, started, events: told, unread, torn }
}

/// What has to be known of the events before one.
struct Telling<'a> {
    at: Timestamp,
    round: Option<&'a str>,
    calls: u64,
}

impl<'a> Telling<'a> {
    /// The facts of an event; nothing, if it is none that is known.
    fn tell(
        &mut self,
        event: EventWire<'a>,
        started: Timestamp,
    ) -> Option<(Timestamp, Vec<TrajectoryPayload>)> {
        let at = event.t.as_ref().and_then(|t| t.from(started)).unwrap_or(self.at);
        let facts = match &*event.kind {
            "tool" => self.call(event)?,
            "assistant" => vec![TrajectoryPayload::MessageAppended {
                message: AgentMessage::assistant(owned(event.text)),
            }],
            "user" => vec![TrajectoryPayload::MessageAppended {
                message: AgentMessage::user(owned(event.text)),
            }],
            "compaction" => vec![TrajectoryPayload::ContextCompacted { trigger: None }],
            "resume" => vec![TrajectoryPayload::Resumed],
            _ => return None,
        };
        self.at = at;
        Some((at, facts))
    }

    fn call(&mut self, event: EventWire<'a>) -> Option<Vec<TrajectoryPayload>> {
        let tool_name: CompactString = event.tool?.to_compact_string();
        let round = event.round.map(RawValue::get).filter(|round| *round != "null");
        let mut facts = Vec::with_capacity(3);
        if round.is_none() || round != self.round {
            facts.push(TrajectoryPayload::TurnStarted);
        }
        self.round = round;
        self.calls += 1;
        let tool_call_id = match event.call_id {
            Some(id) if !id.is_empty() => id.as_ref().into(),
            _ => format!("call-{}", self.calls).into(),
        };
        let args = event.args.map_or(Value::Null, |Arguments(args)| args);
        facts.push(TrajectoryPayload::ToolStarted {
            tool_call_id: Clone::clone(&tool_call_id),
            tool_name: tool_name.clone(),
            args,
        });
        let result = owned(event.result);
        let is_error = event.is_error.unwrap_or_else(|| looks_failed(&result));
        facts.push(TrajectoryPayload::ToolEnded {
            tool_call_id,
            tool_name,
            result: ToolResult { is_error, ..ToolResult::text(result) },
            is_error,
        });
        Some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> ForeignRun {
        read_run(line.as_bytes(), Timestamp::from_unix_ms(1_000), 7)
    }

    fn kinds(run: &ForeignRun) -> Vec<(usize, Vec<&'static str>)> {
        let kind = |event: &ForeignEvent| event.facts.iter().map(TrajectoryPayload::kind).collect();
        run.events.iter().map(|event| (event.position, kind(event))).collect()
    }

    #[test]
    fn every_kind_of_event() {
        let run = run(r#"{"run_id":"r","source":"s","success":null,"deadline":60,"events":[
            {"kind":"user","text":"go","t":0},
            {"kind":"tool","tool":"bash","args":{"command":"ls"},"result":"a.rs","t":1.5,"round":1},
            {"kind":"tool","tool":"read","args":"{\"path\":\"a.rs\"}","result":{"n":1},"round":1,"call_id":"x"},
            {"kind":"assistant","text":"hm","t":null},
            {"kind":"compaction"},{"kind":"resume"}]}"#);
        assert_eq!(
            kinds(&run),
            [
                (1, vec!["message_appended"]),
                (2, vec!["turn_started", "tool_started", "tool_ended"]),
                (3, vec!["tool_started", "tool_ended"]),
                (4, vec!["message_appended"]),
                (5, vec!["context_compacted"]),
                (6, vec!["resumed"]),
            ]
        );
        assert_eq!(run.identity.deadline_unix_ms, Some(Timestamp::from_unix_ms(61_000)));
        assert_eq!(run.events[5].at, Timestamp::from_unix_ms(2_500), "as late as the one before");
        let TrajectoryPayload::ToolStarted { args, tool_call_id, .. } = &run.events[2].facts[0]
        else {
            unreachable!()
        };
        assert_eq!((args["path"].as_str(), tool_call_id.as_str()), (Some("a.rs"), "x"));
        let TrajectoryPayload::ToolEnded { result, .. } = &run.events[2].facts[1] else {
            unreachable!()
        };
        assert_eq!(result.comparable_text(), r#"{"n":1}"#);
        assert_eq!((run.unread, run.torn), (0, None));
    }

    #[test]
    fn times_may_be_dates() {
        let run = run(r#"{"run_id":"r","meta":{"started_at":"2026-01-01T00:00:00Z"},
            "deadline":"2026-01-01T02:00:00Z","events":[
            {"kind":"user","text":"a","t":"2026-01-01T00:01:00+00:00"},{"kind":"user","text":"b","t":90}]}"#);
        let seconds: Vec<_> =
            run.events.iter().map(|event| event.at.since(run.started).as_secs()).collect();
        assert_eq!(seconds, [60, 90]);
        let deadline = run.identity.deadline_unix_ms.unwrap();
        assert_eq!(deadline.since(run.started).as_secs(), 7_200);
    }

    #[test]
    fn a_run_with_dates_began_with_the_first() {
        let run = run(r#"{"run_id":"r","events":[{"kind":"user","text":"a"},
            {"kind":"user","text":"b","t":"2026-01-01T00:01:00Z"}]}"#);
        assert_eq!(run.events[0].at, run.started);
        assert_eq!(run.events[1].at, run.started);
    }

    #[test]
    fn a_torn_line_gives_what_stands_before_the_tear() {
        let whole =
            r#"{"run_id":"r","events":[{"kind":"user","text":"a"},{"kind":"user","text":"b"}]}"#;
        for end in 0..whole.len() {
            let run = run(whole.get(..end).unwrap());
            assert!(run.torn.is_some());
            assert!(run.events.len() <= 2);
        }
        let torn = run(r#"{"run_id":"r","events":[{"kind":"user","text":"a"},{"kind":"us"#);
        assert_eq!((torn.events.len(), torn.identity.run_id.as_str()), (1, "r"));
        assert_eq!(run("what?").identity.run_id.as_str(), "line-7");
    }

    #[test]
    fn what_makes_no_sense_is_left_out_and_counted() {
        let run = run(r#"{"run_id":"r","events":[{"kind":"dance"},{"kind":"tool"},7,
            {"kind":"tool","tool":"bash","t":"noon"},{"kind":"user","text":"a"}],"more":{}}"#);
        assert_eq!((run.events.len(), run.unread), (2, 3), "an odd time is no time");
        assert_eq!(run.torn, None);
    }
}
