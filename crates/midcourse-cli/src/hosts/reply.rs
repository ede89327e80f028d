//! The reply to a hook, in a form that all supported hosts accept.

use serde::Serialize;

/// The hook event that a reply names. It must be the payload's own hook event: Claude Code drops a
/// reply that names another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyEvent(pub(super) &'static str);

/// Codex drops a reply with a field that it does not know, so add none.
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
    // Serialising strings cannot fail; if it did, the empty reply would deliver nothing.
    serde_json::to_vec(&ReplyWire { hook_specific_output }).unwrap_or_default()
}
