//! Trajectory records, one JSON object per line, as written by `midcourse export` and
//! `clark-agent`.
//!
//! Only the payload is required; every other field has a default. If the kind of a payload is
//! unknown, the whole line is kept in a payload of the kind `Unread`.

use std::collections::HashMap;

use midcourse::{
    Channel, DecisionPoint, Event, FactKey, ForeignRecord, Label, RunId, RunIdentity, Source,
    Timestamp, TrajectoryPayload,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::session_file::{Fate, Found, Head, SessionFile, SessionReader};

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_record = |line: &Map<String, Value>| {
        line.get("payload").is_some_and(|payload| payload.get("kind").is_some())
            && line.contains_key("run_id")
    };
    head.lines.iter().any(is_record)
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    let defaults = LineDefaults {
        run_id: None,
        source: Source::new("import", Channel::Import),
        at: file.modified,
        // A record that names no version has the format from before there were versions.
        schema_version: 0,
        decision_point: None,
    };
    Box::new(Reader { defaults, line_keys: LineKeys::default() })
}

struct Reader {
    defaults: LineDefaults,
    line_keys: LineKeys,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let Ok(line) = std::str::from_utf8(bytes) else {
            return found.invalid("(invalid line)", "not valid UTF-8");
        };
        match parse_line(line, &self.defaults) {
            Ok(mut record) => {
                self.line_keys.assign(&mut record, bytes);
                let kind = record.events.first().map_or("", |event| event.payload.kind());
                found.count(kind, Fate::Used);
                found.records.push(record);
            }
            Err(error) => found.invalid("(invalid line)", format_args!("skipped: {error}")),
        }
    }
}

/// Gives keys to records without a sequence number, so that importing a file again adds no
/// duplicates. A key consists of a hash of the line and a number, which tells equal lines of a file
/// apart: 1 for the first such line, 2 for the second. The map counts the lines with each hash.
#[derive(Default)]
struct LineKeys(HashMap<u64, u64>);

impl LineKeys {
    fn assign(&mut self, record: &mut ForeignRecord, line: &[u8]) {
        if record.seq.is_some() {
            return;
        }
        let hash = xxhash_rust::xxh3::xxh3_64(line);
        let count = self.0.entry(hash).or_default();
        *count += 1;
        for event in record.events.iter_mut().filter(|event| event.fact.is_none()) {
            event.fact = Some(format!("line:{hash:x}:{count}").into());
        }
    }
}

/// Values for fields that a line leaves out.
#[derive(Debug, Clone)]
pub(crate) struct LineDefaults {
    pub(crate) run_id: Option<RunId>,
    pub(crate) source: Source,
    pub(crate) at: Timestamp,
    pub(crate) schema_version: u32,
    /// The decision point: the moment at which a message about the record can still reach the
    /// agent. `None` if no message can.
    pub(crate) decision_point: Option<DecisionPoint>,
}

/// Why a line is not a record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// The JSON is invalid, or a field has the wrong type.
    #[error("not a trajectory record: {0}")]
    Json(#[from] serde_json::Error),
    /// Neither the line nor the defaults name a run.
    #[error("the record has no `run_id`")]
    NoRunId,
}

#[derive(Deserialize)]
struct LineWire {
    schema_version: Option<u32>,
    seq: Option<u64>,
    run_id: Option<RunId>,
    parent_run_id: Option<RunId>,
    #[serde(default)]
    depth: usize,
    recorded_at_unix_ms: Option<Timestamp>,
    payload: Value,
    host: Option<String>,
    channel: Option<Channel>,
    fact: Option<FactKey>,
    /// `Some(None)`, which is `null` in JSON, means that no message about this record can reach the
    /// agent. `None`, a missing field, means the default.
    #[serde(default, deserialize_with = "present")]
    decision_point: Option<Option<DecisionPoint>>,
    #[serde(default)]
    redactions: u32,
    #[serde(default)]
    conflicts: Vec<Value>,
    /// The labels of an exported record. One that this release does not understand is left out: it
    /// must not make the record unreadable.
    #[serde(default)]
    labels: Vec<Value>,
}

/// Deserialises a field that may be `null`: `null` becomes `Some(None)`, a missing field `None`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<DecisionPoint>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Parses one line. The result contains an event with the line's payload, and then an event with
/// each payload in `conflicts`: these are other reports of the same thing that differ in content.
pub(crate) fn parse_line(line: &str, defaults: &LineDefaults) -> Result<ForeignRecord, LineError> {
    let wire: LineWire = serde_json::from_str(line)?;
    let run_id = wire.run_id.or_else(|| defaults.run_id.clone()).ok_or(LineError::NoRunId)?;
    let source = match (wire.host, wire.channel) {
        (None, None) => defaults.source.clone(),
        (host, channel) => Source::new(
            host.as_deref().unwrap_or_else(|| defaults.source.host()),
            channel.unwrap_or_else(|| defaults.source.channel()),
        ),
    };
    let at = wire.recorded_at_unix_ms.unwrap_or(defaults.at);
    let mut run = RunIdentity::root(run_id.as_str());
    run.parent_run_id = wire.parent_run_id;
    run.depth = wire.depth;
    let mut events = Vec::new();
    for payload in std::iter::once(wire.payload).chain(wire.conflicts) {
        let payload = parse_payload(payload, &source, line)?;
        if let TrajectoryPayload::RunStarted { identity } = &payload
            && identity.run_id == run.run_id
        {
            run = identity.clone();
        }
        let mut event = Event::new(run.clone(), source.clone(), at, payload);
        event.schema_version = wire.schema_version.unwrap_or(defaults.schema_version);
        event.decision_point = wire.decision_point.unwrap_or(defaults.decision_point);
        if let Some(fact) = &wire.fact {
            event.fact = Some(fact.clone());
        }
        events.push(event);
    }
    let (seq, redactions) = (wire.seq, wire.redactions);
    let labels = wire.labels.iter().filter_map(|label| Label::deserialize(label).ok()).collect();
    Ok(ForeignRecord { seq, redactions, events, labels })
}

/// Deserialises a payload. If the kind of the payload is unknown, the result is an `Unread` payload
/// with the whole line. An invalid payload of a known kind is an error.
fn parse_payload(
    payload: Value,
    source: &Source,
    line: &str,
) -> Result<TrajectoryPayload, serde_json::Error> {
    match TrajectoryPayload::deserialize(&payload) {
        Err(_) if unknown_kind_of(&payload).is_some() => {
            let host = source.host().to_owned();
            Ok(TrajectoryPayload::Unread { host, raw: line.to_owned() })
        }
        parsed => parsed,
    }
}

/// The kind of a payload, if this release of midcourse does not know it. A newer release may have
/// written it.
fn unknown_kind_of(payload: &Value) -> Option<&str> {
    let kind = payload.get("kind")?.as_str()?;
    (!TrajectoryPayload::KINDS.contains(&kind)).then_some(kind)
}

/// The kind of the payload in a line, if this release of midcourse does not know it.
pub(crate) fn unknown_kind(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    unknown_kind_of(line.get("payload")?).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use midcourse::{Channel, DecisionPoint, Source, Timestamp, TrajectoryPayload};

    use super::{LineDefaults, LineError, parse_line};

    fn defaults() -> LineDefaults {
        LineDefaults {
            run_id: None,
            source: Source::new("x", Channel::Library),
            at: Timestamp::from_unix_ms(9),
            schema_version: 1,
            decision_point: Some(DecisionPoint::PreToolSelection),
        }
    }

    #[test]
    fn only_the_run_and_the_payload_are_required() {
        let line = r#"{"run_id":"r","payload":{"kind":"turn_started"}}"#;
        let event = parse_line(line, &defaults()).unwrap().events.remove(0);
        assert_eq!((event.run.run_id.as_str(), event.at.unix_ms()), ("r", 9));
        assert_eq!(event.payload, TrajectoryPayload::TurnStarted);
        let error = parse_line(r#"{"payload":{"kind":"turn_started"}}"#, &defaults());
        assert!(matches!(error, Err(LineError::NoRunId)));
        let error = parse_line(r#"{"run_id":"r"}"#, &defaults());
        assert!(matches!(error, Err(LineError::Json(_))));
    }

    #[test]
    fn a_line_may_state_its_decision_point_and_schema_version() {
        let parse = |fields: &str| {
            let line = format!(r#"{{"run_id":"r",{fields}"payload":{{"kind":"turn_started"}}}}"#);
            let event = parse_line(&line, &defaults()).unwrap().events.remove(0);
            (event.decision_point, event.schema_version)
        };
        assert_eq!(parse(""), (Some(DecisionPoint::PreToolSelection), 1));
        assert_eq!(parse(r#""decision_point":null,"schema_version":0,"#), (None, 0));
        let post = parse(r#""decision_point":"post_tool_result","#);
        assert_eq!(post, (Some(DecisionPoint::PostToolResult), 1));
    }

    #[test]
    fn a_payload_of_an_unknown_kind_is_kept_unread() {
        let line = r#"{"run_id":"r","payload":{"kind":"mood_changed","to":"blue"}}"#;
        let event = parse_line(line, &defaults()).unwrap().events.remove(0);
        let TrajectoryPayload::Unread { raw, .. } = event.payload else { unreachable!() };
        assert_eq!(raw, line);
    }
}
