//! The lines of a session file, as far as they are used.

use std::borrow::Cow;

use midcourse::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::blocks::result_from_blocks;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineWire<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) subtype: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) session_id: Option<Cow<'a, str>>,
    /// In the lines of a subagent: its id.
    #[serde(borrow)]
    pub(super) agent_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) cwd: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) version: Option<Cow<'a, str>>,
    /// Why a call was refused.
    #[serde(borrow)]
    pub(super) tool_denial_kind: Option<Cow<'a, str>>,
    pub(super) is_meta: Option<bool>,
    pub(super) is_compact_summary: Option<bool>,
    pub(super) is_api_error_message: Option<bool>,
    #[serde(borrow)]
    pub(super) compact_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<MessageWire<'a>>,
    /// The result of a call in the form in which hooks get it.
    #[serde(borrow)]
    pub(super) tool_use_result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct MessageWire<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    /// A text, or a list of blocks.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct BlockWire<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) input: Option<Value>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
}

/// The blocks of a message. Content that is only a text becomes one text block. An invalid block
/// becomes a block of the kind `(invalid block)`.
pub(super) fn blocks(content: Option<&RawValue>) -> Vec<BlockWire<'_>> {
    let Some(content) = content.map(RawValue::get) else { return Vec::new() };
    if content.starts_with('"') {
        let text = serde_json::from_str(content).ok();
        return vec![BlockWire { text, ..BlockWire::of_kind("text") }];
    }
    if let Ok(blocks) = serde_json::from_str(content) {
        return blocks;
    }
    // One of the blocks is not as expected.
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content) else { return Vec::new() };
    let invalid = |_| BlockWire::of_kind("(invalid block)");
    blocks.into_iter().map(|raw| serde_json::from_str(raw.get()).unwrap_or_else(invalid)).collect()
}

impl BlockWire<'_> {
    fn of_kind(kind: &'static str) -> Self {
        Self {
            kind: Cow::Borrowed(kind),
            text: None,
            thinking: None,
            id: None,
            name: None,
            input: None,
            tool_use_id: None,
            content: None,
            is_error: None,
        }
    }
}

/// The tokens of a response. A count that is missing or no number is 0.
pub(super) fn usage_of(raw: &RawValue) -> Option<Usage> {
    let fields: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
    let count = |name: &str| fields.get(name).and_then(Value::as_i64).unwrap_or_default();
    Some(Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_creation_input_tokens: count("cache_creation_input_tokens"),
        cache_read_input_tokens: count("cache_read_input_tokens"),
        is_estimate: false,
    })
}

/// What caused a compaction, in the host's word.
pub(super) fn compaction_trigger(metadata: &RawValue) -> Option<String> {
    let metadata: Value = serde_json::from_str(metadata.get()).ok()?;
    metadata.get("trigger")?.as_str().map(ToOwned::to_owned)
}

/// The text of a tool result as the model gets it.
pub(super) fn text_of(content: Option<&RawValue>) -> String {
    match content.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
        Some(Value::String(text)) => text,
        Some(Value::Array(blocks)) => result_from_blocks(blocks).comparable_text().into_owned(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
