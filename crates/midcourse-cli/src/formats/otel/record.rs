//! Access to the fields of a record in the form of `export`.

use serde_json::Value;

/// The time of a record in nanoseconds since 1970.
pub(super) fn nanos(record: &Value) -> u64 {
    millis(record).saturating_mul(1_000_000)
}

/// The time of a record in milliseconds since 1970.
pub(super) fn millis(record: &Value) -> u64 {
    record.get("recorded_at_unix_ms").and_then(Value::as_u64).unwrap_or_default()
}

pub(super) fn seq(record: &Value) -> Option<u64> {
    record.get("seq").and_then(Value::as_u64)
}

pub(super) fn kind(record: &Value) -> &str {
    record.pointer("/payload/kind").and_then(Value::as_str).unwrap_or_default()
}

/// Whether records of this kind end a tool call.
pub(super) fn ends_call(kind: &str) -> bool {
    matches!(kind, "tool_ended" | "denied")
}

/// Whether records of this kind are decisions of midcourse.
pub(super) fn is_conclusion(kind: &str) -> bool {
    matches!(kind, "feedback_delivered" | "guidance_delivered" | "outcome")
}

/// A text in the payload.
pub(super) fn text<'r>(record: &'r Value, name: &str) -> Option<&'r str> {
    record.get("payload")?.get(name)?.as_str()
}

/// The message that a record adds to the conversation.
pub(super) fn message(record: &Value) -> Option<&Value> {
    record.pointer("/payload/message").filter(|_| kind(record) == "message_appended")
}

pub(super) fn role(record: &Value) -> Option<&str> {
    message(record)?.get("role")?.as_str()
}

/// Identifies a call in its run. A call without an id is identified by its record.
pub(super) fn call_key(record: &Value) -> String {
    match text(record, "tool_call_id") {
        Some(id) if !id.is_empty() => id.to_owned(),
        _ => format!("\0{}", seq(record).unwrap_or_default()),
    }
}
