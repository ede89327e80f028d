//! Trajectory records, one JSON object a line: what `midcourse export` writes, and what
//! `clark-agent` and other tools of its family write.
//!
//! A line needs a payload; everything else has a default. A payload of a kind that this release
//! does not know is kept as it came.

use midcourse::{DecisionPoint, RunId, RunIdentity, Timestamp, TrajectoryPayload};
use serde::Deserialize;
use serde_json::Value;

use midcourse::{Event, FactKey, ForeignRecord, Source};

/// What a line leaves out is taken from here.
#[derive(Debug, Clone)]
pub struct LineDefaults {
    /// The run of lines that name none.
    pub run_id: Option<RunId>,
    /// Who reports it.
    pub source: Source,
    /// When.
    pub at: Timestamp,
}

/// A line that is no record.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is not JSON, or not the right JSON.
    #[error("it is not a trajectory record: {0}")]
    Json(#[from] serde_json::Error),
    /// It belongs to no run.
    #[error("it names no run")]
    NoRun,
}

#[derive(Deserialize)]
struct LineWire {
    #[serde(default)]
    schema_version: u32,
    seq: Option<u64>,
    run_id: Option<RunId>,
    parent_run_id: Option<RunId>,
    #[serde(default)]
    depth: usize,
    recorded_at_unix_ms: Option<Timestamp>,
    payload: Value,
    source: Option<Source>,
    fact: Option<FactKey>,
    decision_point: Option<DecisionPoint>,
    #[serde(default)]
    redactions: u32,
    #[serde(default)]
    diverged: Vec<Value>,
}

/// Reads one line.
pub fn read_line(line: &str, defaults: &LineDefaults) -> Result<ForeignRecord, LineError> {
    let wire: LineWire = serde_json::from_str(line)?;
    let run_id = wire.run_id.or_else(|| defaults.run_id.clone()).ok_or(LineError::NoRun)?;
    let source = wire.source.unwrap_or_else(|| defaults.source.clone());
    let at = wire.recorded_at_unix_ms.unwrap_or(defaults.at);
    let mut run = RunIdentity::root(run_id.as_str());
    run.parent_run_id = wire.parent_run_id;
    run.depth = wire.depth;
    let mut events = Vec::new();
    for payload in std::iter::once(wire.payload).chain(wire.diverged) {
        let payload = read_payload(payload, &source, line)?;
        if let TrajectoryPayload::RunStarted { identity } = &payload
            && identity.run_id == run.run_id
        {
            run = identity.clone();
        }
        let mut event = Event::new(run.clone(), source.clone(), at, payload);
        event.schema_version = wire.schema_version;
        event.decision_point = wire.decision_point;
        if let Some(fact) = &wire.fact {
            event.fact = Some(fact.clone());
        }
        events.push(event);
    }
    Ok(ForeignRecord { seq: wire.seq, redactions: wire.redactions, events })
}

/// A payload; one of a kind that is not known is kept unread, a known kind that is wrong is an
/// error.
fn read_payload(
    payload: Value,
    source: &Source,
    line: &str,
) -> Result<TrajectoryPayload, serde_json::Error> {
    match TrajectoryPayload::deserialize(&payload) {
        Err(_) if is_of_another_release(&payload) => {
            let host = source.host().to_owned();
            Ok(TrajectoryPayload::Unread { host, raw: line.to_owned() })
        }
        read => read,
    }
}

/// Whether the payload has a kind, and one that is not known here.
fn is_of_another_release(payload: &Value) -> bool {
    let kind = payload.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| !TrajectoryPayload::KINDS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use midcourse::{Timestamp, TrajectoryPayload};

    use super::{LineDefaults, LineError, read_line};

    fn defaults() -> LineDefaults {
        LineDefaults { run_id: None, source: "x/y".into(), at: Timestamp::from_unix_ms(9) }
    }

    #[test]
    fn a_line_needs_a_run_and_a_payload() {
        let line = r#"{"run_id":"r","payload":{"kind":"turn_started"}}"#;
        let event = read_line(line, &defaults()).unwrap().events.remove(0);
        assert_eq!((event.run.run_id.as_str(), event.at.unix_ms()), ("r", 9));
        assert_eq!(event.payload, TrajectoryPayload::TurnStarted);
        let error = read_line(r#"{"payload":{"kind":"turn_started"}}"#, &defaults());
        assert!(matches!(error, Err(LineError::NoRun)));
        let error = read_line(r#"{"run_id":"r"}"#, &defaults());
        assert!(matches!(error, Err(LineError::Json(_))));
    }

    #[test]
    fn a_kind_of_a_newer_release_is_kept() {
        let line = r#"{"run_id":"r","payload":{"kind":"mood_changed","to":"blue"}}"#;
        let event = read_line(line, &defaults()).unwrap().events.remove(0);
        let TrajectoryPayload::Unread { raw, .. } = event.payload else { unreachable!() };
        assert_eq!(raw, line);
    }
}
