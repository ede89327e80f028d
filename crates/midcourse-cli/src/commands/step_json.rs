//! The JSON lines that `replay --json` and `backtest --json` print for one step of the engine. In a
//! step, the engine processes one record of a run and returns patterns, messages and so on.
//!
//! Every line says where in the run the step happened: the run, the event (only for `backtest`),
//! the sequence number of the record (`seq`), its time (`at`), and how many tool calls had ended by then (`call`).

use midcourse::{Delivery, Fault, Outcome, Step, Timestamp, TrajectoryPattern, TrajectoryRecord};
use serde_json::{Value, json};

use crate::display::rfc3339;

/// Where in a run a step happened.
#[derive(Clone, Copy)]
pub(super) struct Position<'a> {
    pub(super) run_id: Option<&'a str>,
    /// Position of the event in its run, counted from 1; `None` for `replay`, which reads records
    /// and not events.
    pub(super) event: Option<usize>,
    pub(super) seq: u64,
    /// The time of the record; `None` if the run has no times.
    pub(super) at: Option<Timestamp>,
    pub(super) call: u64,
}

/// The JSON lines for one step of the engine, in this order: faults (parts of the engine that
/// failed), outcomes (what followed an earlier message), detected patterns, and delivered messages.
pub(super) fn step_lines(position: Position<'_>, step: &Step) -> Vec<Value> {
    let faults = step.faults.iter().map(|fault| ("fault", fault_fields(fault)));
    let outcomes = step.outcomes.iter().map(|outcome| ("outcome", outcome_fields(outcome)));
    let patterns = step.patterns.iter().map(|pattern| ("pattern", pattern_fields(pattern)));
    // `step.records` contains one record for each outcome, then one record for each delivery.
    let (mut shown, mut withheld) = (step.deliveries.iter(), step.withheld.iter());
    let deliveries = step.records.iter().skip(step.outcomes.len()).filter_map(|record| {
        let delivery = if record.payload.is_withheld() { withheld.next() } else { shown.next() };
        Some(("delivery", delivery_fields(delivery?, record)))
    });
    let lines = faults.chain(outcomes).chain(patterns).chain(deliveries);
    lines.map(|(kind, fields)| line(kind, position, fields)).collect()
}

fn line(kind: &str, position: Position<'_>, fields: Value) -> Value {
    let Position { run_id, event, seq, at, call } = position;
    let mut line = json!({"type": kind, "run_id": run_id, "event": event, "seq": seq,
                          "at": at.map(rfc3339), "call": call});
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    line
}

fn fault_fields(fault: &Fault) -> Value {
    json!({"text": fault.to_string()})
}

fn outcome_fields(outcome: &Outcome) -> Value {
    json!({"delivery_seq": outcome.delivery_seq, "verdict": outcome.verdict,
           "after_calls": outcome.after_calls})
}

fn pattern_fields(pattern: &TrajectoryPattern) -> Value {
    json!({"pattern": pattern.pattern_type().as_str(), "confidence": pattern.confidence(),
           "evidence": pattern.evidence()})
}

/// The confidence that a message states; `None` if it states none.
pub(super) fn confidence_of(delivery: &Delivery) -> Option<f64> {
    match delivery {
        Delivery::Feedback { .. } => None,
        Delivery::Guidance(guidance) => Some(guidance.classification.confidence().value()),
    }
}

/// The fields of the line about a message. `record` says that the message was delivered. A later
/// line about the outcome of the message contains its sequence number as `delivery_seq`.
fn delivery_fields(delivery: &Delivery, record: &TrajectoryRecord) -> Value {
    let kind = match delivery {
        Delivery::Feedback { .. } => "feedback_delivered",
        Delivery::Guidance(_) => "guidance_delivered",
    };
    let confidence = confidence_of(delivery);
    let why = delivery.why();
    json!({
        "delivery_seq": record.seq, "decision_point": delivery.decision_point(), "kind": kind,
        "provider": delivery.provider(), "cause": why.map(|why| why.cause.kind()),
        "rung": why.map(|why| why.rung), "confidence": confidence, "text": delivery.text(),
        "evidence": why.map(|why| &why.evidence), "assignment": record.payload.assignment(),
    })
}
