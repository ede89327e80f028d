//! The reply that a hook prints, in a form that all supported hosts accept.

use serde::Serialize;

/// The name of the hook event in a reply. It must be the hook event to which the reply belongs:
/// Claude Code ignores a reply with the name of another hook event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyEvent(pub(super) &'static str);

/// The JSON of a reply. Do not add fields: Codex ignores a reply if it does not know one of its
/// fields.
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
