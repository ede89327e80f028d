//! The reply to a hook, in the form that all hosts so far understand.

use serde::Serialize;

/// The hook event that a reply names. It has to be the event of the payload: Claude Code drops a
/// reply that names another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyEvent(pub(super) &'static str);

/// No other field: Codex drops a reply with a field that it does not know.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplyWire<'a> {
    hook_specific_output: OutputWire<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputWire<'a> {
    hook_event_name: &'a str,
    additional_context: &'a str,
}

pub(super) fn encode(text: &str, event: ReplyEvent) -> Vec<u8> {
    let hook_specific_output = OutputWire { hook_event_name: event.0, additional_context: text };
    // Serializing strings does not fail; an empty reply delivers nothing.
    serde_json::to_vec(&ReplyWire { hook_specific_output }).unwrap_or_default()
}
