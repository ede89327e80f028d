//! Qwen Code's transcript: one JSON object per line. Only the last part of the file is read, so the
//! first line may be cut off.

use midcourse::Usage;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineWire {
    uuid: String,
    #[serde(rename = "type")]
    kind: String,
    usage_metadata: UsageWire,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UsageWire {
    /// Includes the cached tokens.
    prompt_token_count: i64,
    candidates_token_count: i64,
    thoughts_token_count: i64,
    cached_content_token_count: i64,
}

/// The token usage of each model response, with the response's id.
pub(super) fn usage(tail: &[u8]) -> Vec<(String, Usage)> {
    let lines = tail.split(|byte| *byte == b'\n');
    // Most lines are not model responses and are skipped.
    let lines = lines.filter_map(|line| serde_json::from_slice::<LineWire>(line).ok());
    let responses = lines.filter(|line| line.kind == "assistant");
    responses.map(|line| (line.uuid, line.usage_metadata.usage())).collect()
}

impl UsageWire {
    const fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_token_count.saturating_sub(self.cached_content_token_count),
            output_tokens: self.candidates_token_count.saturating_add(self.thoughts_token_count),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: self.cached_content_token_count,
            is_estimate: false,
        }
    }
}
