//! The lines of a session file, as far as they are used.

use std::borrow::Cow;
use std::ops::Deref;

use midcourse::Usage;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::blocks::result_from_blocks;

/// A text that is borrowed from the line if it contains no escapes. (`Option<Cow<str>>` is always
/// copied.)
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineWire<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) subtype: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) uuid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) session_id: Option<Text<'a>>,
    /// In the lines of a subagent: its id.
    #[serde(borrow)]
    pub(super) agent_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) cwd: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Text<'a>>,
    /// Why a call was refused.
    #[serde(borrow)]
    pub(super) tool_denial_kind: Option<Text<'a>>,
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
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
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
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) input: Option<Value>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Text<'a>>,
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

/// The tokens of a response. A count that is missing or null is 0.
pub(super) fn usage_of(raw: &RawValue) -> Option<Usage> {
    let wire: UsageWire = serde_json::from_str(raw.get()).ok()?;
    Some(Usage {
        input_tokens: wire.input_tokens.unwrap_or_default(),
        output_tokens: wire.output_tokens.unwrap_or_default(),
        cache_creation_input_tokens: wire.cache_creation_input_tokens.unwrap_or_default(),
        cache_read_input_tokens: wire.cache_read_input_tokens.unwrap_or_default(),
        is_estimate: false,
    })
}

#[derive(Deserialize)]
struct UsageWire {
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    cache_creation_input_tokens: Option<i64>,
    cache_read_input_tokens: Option<i64>,
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
