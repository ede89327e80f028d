//! The lines of a rollout, as far as they are used for an import.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::rollout::UsageWire;

#[derive(Deserialize)]
pub(super) struct LineWire<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
    /// In the first line of a rollout that has no line `session_meta`: the id of the session.
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    /// In old rollouts: the kind of a line that is no item.
    #[serde(borrow)]
    pub(super) record_type: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct MetaWire {
    pub(super) id: String,
    /// The session of the main agent.
    pub(super) session_id: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) cli_version: Option<String>,
    /// A text, or an object that describes the parent of a subagent.
    #[serde(default)]
    pub(super) source: Value,
}

impl MetaWire {
    /// The session of the main agent, if this is the rollout of a subagent.
    pub(super) fn parent(&self) -> Option<&str> {
        let spawned = self.source.pointer("/subagent/thread_spawn/parent_thread_id");
        let parent = self.session_id.as_deref().or(spawned.and_then(Value::as_str));
        parent.filter(|parent| !parent.is_empty() && *parent != self.id)
    }
}

#[derive(Deserialize)]
pub(super) struct TurnContextWire {
    pub(super) cwd: Option<String>,
    pub(super) model: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct TokenUsageWire {
    pub(super) response_id: String,
    pub(super) usage: UsageWire,
}

/// An item of the conversation.
#[derive(Deserialize)]
pub(super) struct ItemWire<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) call_id: Option<Cow<'a, str>>,
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) arguments: Option<String>,
    pub(super) input: Option<String>,
    pub(super) action: Option<ActionWire>,
    pub(super) output: Option<Value>,
    /// Parts of a message or of a thought.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(rename = "internal_chat_message_metadata_passthrough")]
    pub(super) metadata: Option<MetadataWire>,
}

#[derive(Deserialize)]
pub(super) struct ActionWire {
    #[serde(default)]
    pub(super) command: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct MetadataWire {
    #[serde(default)]
    content_item_metadata: Vec<PartMetadataWire>,
}

#[derive(Deserialize)]
struct PartMetadataWire {
    provenance: Option<ProvenanceWire>,
}

#[derive(Deserialize)]
struct ProvenanceWire {
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl MetadataWire {
    /// Whether the user wrote this part of a message; `None` if Codex does not say.
    pub(super) fn is_from_user(&self, part: usize) -> Option<bool> {
        let provenance = self.content_item_metadata.get(part)?.provenance.as_ref()?;
        Some(provenance.kind.as_deref()? == "user")
    }
}

#[derive(Deserialize)]
struct PartWire<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// The texts of a list of parts. A part that is no text is left out, but counts.
pub(super) fn texts(parts: Option<&RawValue>) -> Vec<(usize, Cow<'_, str>)> {
    let parts: Vec<&RawValue> =
        parts.and_then(|parts| serde_json::from_str(parts.get()).ok()).unwrap_or_default();
    let texts = parts.into_iter().enumerate();
    texts.filter_map(|(position, part)| Some((position, text_of(part)?))).collect()
}

fn text_of(part: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<PartWire<'_>>(part.get()).ok()?.text
}

#[derive(Deserialize)]
pub(super) struct EventWire<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Cow<'a, str>,
    pub(super) message: Option<String>,
    pub(super) info: Option<TokenInfoWire>,
    pub(super) item: Option<super::super::rollout::CompletedItemWire>,
}

#[derive(Deserialize)]
pub(super) struct TokenInfoWire {
    pub(super) total_token_usage: Option<UsageWire>,
    pub(super) last_token_usage: Option<UsageWire>,
}
