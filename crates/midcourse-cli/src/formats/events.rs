//! The `events` format: one run per line, from any agent.
//!
//! A line is `{run_id, source?, success?, deadline?, meta?, events: […]}`. An event is a tool call
//! with its result, a message of the user or the model, a compaction (the agent summarised its
//! history) or a resume (the run was continued after it had stopped). Parsing never fails: if a
//! line is invalid, the events before the error are kept; an invalid event is skipped. The result
//! says what was wrong with the line and how many events were skipped.

use std::borrow::Cow;

use compact_str::{CompactString, ToCompactString as _};
use midcourse::{
    AgentMessage, Channel, DecisionPoint, Event, ForeignRecord, RunId, RunIdentity, RunOutcome,
    Source, Timestamp, ToolResult, TrajectoryPayload,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

mod line;
mod text;
mod time;

use crate::session_file::{Fate, Found, Head, SessionFile, SessionReader};

use line::LineParts;
use text::{AnyText, Arguments, RawWire};
use time::EventTime;

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    head.lines.iter().any(|line| line.get("events").is_some_and(Value::is_array))
        || (head.lines.is_empty() && head.has_keys(&["run_id", "events"]))
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { at: file.modified, lines: 0 })
}

struct Reader {
    at: Timestamp,
    lines: u64,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        self.lines += 1;
        let run = parse_run(bytes, self.at, self.lines);
        if let Some(problem) = run.problem() {
            found.invalid("run", problem);
        } else {
            found.count("run", Fate::Used);
        }
        if !run.is_empty() {
            found.records.extend(run.into_records());
        }
    }
}

/// A run parsed from one line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedRun {
    pub(crate) identity: RunIdentity,
    /// The dataset or agent that the run comes from.
    pub(crate) source: Option<String>,
    /// Whether the agent solved its task; `None` if the line does not say.
    pub(crate) success: Option<bool>,
    pub(crate) started_at: Timestamp,
    pub(crate) events: Vec<ParsedEvent>,
    pub(crate) skipped_events: usize,
    /// Why parsing stopped before the end of the line; `None` if the whole line was parsed.
    pub(crate) parse_error: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedEvent {
    /// Position in the line's list of events, counted from 1, including skipped events.
    pub(crate) position: usize,
    pub(crate) at: Timestamp,
    /// The payloads of the records that the event becomes, such as the start and the end of a tool
    /// call.
    pub(crate) payloads: Vec<TrajectoryPayload>,
}

impl ParsedRun {
    /// Whether the line is so damaged that no event could be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.parse_error.is_some()
    }

    /// Describes which parts of the run could not be parsed; `None` if the whole run was parsed.
    pub(crate) fn problem(&self) -> Option<String> {
        match (&self.parse_error, self.skipped_events) {
            (None, 0) => None,
            (None, skipped) => Some(format!("skipped {skipped} invalid events")),
            (Some(error), _) => Some(format!("used only what comes before the error: {error}")),
        }
    }

    /// Converts the run to records for a store. Each record has a key, which is a call id or the
    /// position of the event. The store drops a second record with the same key, so importing the
    /// run again adds no duplicates.
    /// The last record of each event has the decision point at which midcourse could have
    /// delivered a message.
    pub(crate) fn into_records(self) -> Vec<ForeignRecord> {
        let source = Source::new(self.source.as_deref().unwrap_or("import"), Channel::Import);
        let record = |at: Timestamp, key: String, payload: TrajectoryPayload| {
            let mut event = Event::new(self.identity.clone(), source.clone(), at, payload);
            event.fact.get_or_insert_with(|| key.into());
            ForeignRecord::from(event)
        };
        let start = TrajectoryPayload::RunStarted { identity: self.identity.clone() };
        let mut records = vec![record(self.started_at, String::new(), start)];
        let mut ended_at = self.started_at;
        for event in &self.events {
            ended_at = ended_at.max(event.at);
            for payload in &event.payloads {
                let key = format!("event:{}", event.position);
                records.push(record(event.at, key, payload.clone()));
            }
            if let Some(last) = records.last_mut().and_then(|record| record.events.last_mut()) {
                last.decision_point = Some(DecisionPoint::PreToolSelection);
            }
        }
        if let Some(success) = self.success {
            let outcome = if success { RunOutcome::Completed } else { RunOutcome::Failed };
            let end = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
            records.push(record(ended_at, "event:end".to_owned(), end));
        }
        records
    }
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
    t: Option<EventTime<'a>>,
    #[serde(borrow, default)]
    round: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<AnyText<'a>>,
}

impl<'a> EventWire<'a> {
    fn parse(raw: &'a str) -> Option<Self> {
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

fn into_string(text: Option<AnyText<'_>>) -> String {
    match text {
        Some(AnyText::Text(text)) => text.into_owned(),
        Some(AnyText::Other) | None => String::new(),
    }
}

/// Parses one line. The run starts at the start time in the line, or else at the first date in its
/// events, or else at `now`. If the line has no run id, the id is made from `line_number`.
pub(crate) fn parse_run(line: &[u8], now: Timestamp, line_number: u64) -> ParsedRun {
    // Try the fast check first: nearly every line is valid UTF-8, and the lossy conversion is much
    // slower.
    let line = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(line),
    };
    let LineParts {
        run_id, source, success, deadline, started_at, events: raw_events, error, ..
    } = LineParts::read(&line);
    let run_id = run_id.map_or_else(|| format!("line-{line_number}").into(), RunId::from);
    // If the line has no start time, the run starts at the first date in its events.
    let first_date = || {
        let timed = raw_events.iter().map(|raw| raw.get()).filter(|raw| raw.contains("\"t\""));
        timed.filter_map(EventWire::parse).find_map(|event| event.t).and_then(|t| t.date())
    };
    let started_at = started_at.as_ref().and_then(EventTime::absolute);
    let started_at = started_at.or_else(first_date).unwrap_or(now);
    let mut identity = RunIdentity::root(run_id.as_str());
    identity.deadline_unix_ms = deadline.and_then(|deadline| deadline.resolve(started_at));
    let mut converter = EventConverter { started_at, latest: started_at, round: None, calls: 0 };
    let (mut events, mut skipped_events) = (Vec::with_capacity(raw_events.len()), 0);
    for (position, raw) in (1..).zip(&raw_events) {
        match EventWire::parse(raw.get()).and_then(|event| converter.convert(event)) {
            Some((at, payloads)) => events.push(ParsedEvent { position, at, payloads }),
            None => skipped_events += 1,
        }
    }
    let source = source.map(Cow::into_owned);
    ParsedRun { identity, source, success, started_at, events, skipped_events, parse_error: error }
}

/// Converts the events of one run. They must be passed in order, because the turn, the time and the
/// call id of an event may depend on the events before it.
struct EventConverter<'a> {
    started_at: Timestamp,
    /// Time of the previous event, used for events without a time.
    latest: Timestamp,
    round: Option<&'a str>,
    calls: u64,
}

impl<'a> EventConverter<'a> {
    /// Converts an event; `None` if the kind of the event is unknown, or if the event is a tool
    /// call without a tool name.
    fn convert(&mut self, event: EventWire<'a>) -> Option<(Timestamp, Vec<TrajectoryPayload>)> {
        let at = event.t.as_ref().and_then(|t| t.resolve(self.started_at)).unwrap_or(self.latest);
        let payloads = match &*event.kind {
            "tool" => self.convert_call(event)?,
            "assistant" => vec![TrajectoryPayload::MessageAppended {
                message: AgentMessage::assistant(into_string(event.text)),
            }],
            "user" => vec![TrajectoryPayload::MessageAppended {
                message: AgentMessage::user(into_string(event.text)),
            }],
            "compaction" => vec![TrajectoryPayload::ContextCompacted { trigger: None }],
            "resume" => vec![TrajectoryPayload::Resumed],
            _ => return None,
        };
        self.latest = at;
        Some((at, payloads))
    }

    fn convert_call(&mut self, event: EventWire<'a>) -> Option<Vec<TrajectoryPayload>> {
        let tool_name: CompactString = event.tool?.to_compact_string();
        let round = event.round.map(RawValue::get).filter(|round| *round != "null");
        let mut payloads = Vec::with_capacity(3);
        // Calls with the same `round` are in the same turn.
        if round.is_none() || round != self.round {
            payloads.push(TrajectoryPayload::TurnStarted);
        }
        self.round = round;
        self.calls += 1;
        let tool_call_id = match event.call_id {
            Some(id) if !id.is_empty() => id.as_ref().into(),
            _ => format!("call-{}", self.calls).into(),
        };
        let args = event.args.map_or(Value::Null, |Arguments(args)| args);
        payloads.push(TrajectoryPayload::ToolStarted {
            tool_call_id: Clone::clone(&tool_call_id),
            tool_name: tool_name.clone(),
            args,
        });
        let result = into_string(event.result);
        let is_error = event.is_error.unwrap_or(false);
        let is_error_unknown = event.is_error.is_none();
        payloads.push(TrajectoryPayload::ToolEnded {
            tool_call_id,
            tool_name,
            result: ToolResult { is_error, is_error_unknown, ..ToolResult::text(result) },
            is_error,
        });
        Some(payloads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> ParsedRun {
        parse_run(line.as_bytes(), Timestamp::from_unix_ms(1_000), 7)
    }

    fn kinds(run: &ParsedRun) -> Vec<(usize, Vec<&'static str>)> {
        let kind =
            |event: &ParsedEvent| event.payloads.iter().map(TrajectoryPayload::kind).collect();
        run.events.iter().map(|event| (event.position, kind(event))).collect()
    }

    #[test]
    fn every_kind_of_event_is_converted() {
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
        assert_eq!(
            run.events[5].at,
            Timestamp::from_unix_ms(2_500),
            "an event without a time has the time of the one before"
        );
        let TrajectoryPayload::ToolStarted { args, tool_call_id, .. } = &run.events[2].payloads[0]
        else {
            unreachable!()
        };
        assert_eq!((args["path"].as_str(), tool_call_id.as_str()), (Some("a.rs"), "x"));
        let TrajectoryPayload::ToolEnded { result, .. } = &run.events[2].payloads[1] else {
            unreachable!()
        };
        assert_eq!(result.comparable_text(), r#"{"n":1}"#);
        assert_eq!((run.skipped_events, run.parse_error), (0, None));
    }

    #[test]
    fn times_are_seconds_or_dates() {
        let run = run(r#"{"run_id":"r","meta":{"started_at":"2026-01-01T00:00:00Z"},
            "deadline":"2026-01-01T02:00:00Z","events":[
            {"kind":"user","text":"a","t":"2026-01-01T00:01:00+00:00"},{"kind":"user","text":"b","t":90}]}"#);
        let seconds: Vec<_> =
            run.events.iter().map(|event| event.at.since(run.started_at).as_secs()).collect();
        assert_eq!(seconds, [60, 90]);
        let deadline = run.identity.deadline_unix_ms.unwrap();
        assert_eq!(deadline.since(run.started_at).as_secs(), 7_200);
    }

    #[test]
    fn the_first_date_is_the_start_of_a_run_without_one() {
        let run = run(r#"{"run_id":"r","events":[{"kind":"user","text":"a"},
            {"kind":"user","text":"b","t":"2026-01-01T00:01:00Z"}]}"#);
        assert_eq!(run.events[0].at, run.started_at);
        assert_eq!(run.events[1].at, run.started_at);
    }

    #[test]
    fn a_truncated_line_keeps_the_events_before_the_end() {
        let whole =
            r#"{"run_id":"r","events":[{"kind":"user","text":"a"},{"kind":"user","text":"b"}]}"#;
        for end in 0..whole.len() {
            let run = run(whole.get(..end).unwrap());
            assert!(run.parse_error.is_some());
            assert!(run.events.len() <= 2);
        }
        let truncated = run(r#"{"run_id":"r","events":[{"kind":"user","text":"a"},{"kind":"us"#);
        assert_eq!((truncated.events.len(), truncated.identity.run_id.as_str()), (1, "r"));
        assert_eq!(run("what?").identity.run_id.as_str(), "line-7");
    }

    #[test]
    fn invalid_events_are_skipped_and_counted() {
        let run = run(r#"{"run_id":"r","events":[{"kind":"dance"},{"kind":"tool"},7,
            {"kind":"tool","tool":"bash","t":"noon"},{"kind":"user","text":"a"}],"more":{}}"#);
        assert_eq!((run.events.len(), run.skipped_events), (2, 3), "an invalid time is ignored");
        assert_eq!(run.parse_error, None);
    }
}
