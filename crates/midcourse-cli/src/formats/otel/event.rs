//! Span events: messages of midcourse, what followed them, and what happened to the run as a whole.

use serde_json::Value;

use super::ids::SpanId;
use super::json::hex;
use super::names::{RECORD, SEQS};
use super::record::nanos;
use super::span::{Attributes, SpanEvent};

/// The event of a record. `span_of` finds the span of another record, by its seq.
pub(super) fn event(record: &Value, span_of: impl Fn(u64) -> Option<SpanId>) -> SpanEvent {
    let payload = record.get("payload").unwrap_or(&Value::Null);
    let kind = payload.get("kind").and_then(Value::as_str).unwrap_or("unknown");
    let mut attributes = Attributes::default();
    let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str);
    match kind {
        "feedback_delivered" => {
            attributes.set_some("midcourse.text", text("/text"));
            attributes.set_some("midcourse.provider", text("/feedback/provider_name"));
            attributes.set_some("midcourse.severity", text("/feedback/severity"));
            add_why(&mut attributes, payload.pointer("/feedback/why"), span_of);
        }
        "guidance_delivered" => {
            attributes.set_some("midcourse.text", text("/guidance/injection/content"));
            attributes.set_some("midcourse.provider", text("/guidance/provider_name"));
            attributes.set_some("midcourse.decision_point", text("/guidance/decision_point"));
            attributes.set_some("midcourse.reason", text("/guidance/classification/reason"));
            add_why(&mut attributes, payload.pointer("/guidance/injection/why"), span_of);
        }
        "outcome" => {
            attributes.set_some("midcourse.verdict", text("/verdict"));
            for (name, field) in [
                ("midcourse.delivery_seq", "/delivery_seq"),
                ("midcourse.after_calls", "/after_calls"),
            ] {
                attributes.set_some(name, payload.pointer(field).and_then(Value::as_i64));
            }
        }
        _ => {}
    }
    if payload.get("shadow").and_then(Value::as_bool) == Some(true) {
        attributes.set("midcourse.shadow", true);
    }
    if let Some(assignment) = payload.get("assignment").and_then(Value::as_str) {
        attributes.set("midcourse.assignment", assignment);
    }
    attributes.set_some(SEQS, record.get("seq").and_then(Value::as_i64).map(|seq| vec![seq]));
    attributes.set_json(RECORD, record);
    SpanEvent { name: format!("midcourse.{kind}"), at: nanos(record), attributes }
}

/// Adds what a message is about, and the evidence: the seqs of records, and the spans that have
/// them.
fn add_why(
    attributes: &mut Attributes,
    why: Option<&Value>,
    span_of: impl Fn(u64) -> Option<SpanId>,
) {
    let Some(why) = why else { return };
    attributes.set_some("midcourse.cause", why.get("cause").and_then(Value::as_str));
    attributes.set_some("midcourse.rung", why.get("rung").and_then(Value::as_i64));
    let evidence = why.get("evidence").and_then(Value::as_array);
    let seqs: Vec<u64> = evidence.into_iter().flatten().filter_map(Value::as_u64).collect();
    let numbers: Vec<i64> = seqs.iter().filter_map(|seq| i64::try_from(*seq).ok()).collect();
    if !numbers.is_empty() {
        attributes.set("midcourse.evidence", numbers);
    }
    let mut spans: Vec<String> =
        seqs.into_iter().filter_map(span_of).map(|span| hex(&span)).collect();
    spans.dedup();
    if !spans.is_empty() {
        attributes.set("midcourse.evidence.span_ids", spans);
    }
}
