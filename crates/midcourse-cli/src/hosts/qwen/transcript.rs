//! Qwen Code's transcript: one JSON object per line. Only the last part of the file is read, so the
//! first line may be cut off.

use midcourse::Usage;
use serde::Deserialize;

use super::super::About;
use super::super::payload::TranscriptEnd;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineWire {
    uuid: String,
    #[serde(rename = "type")]
    kind: String,
    usage_metadata: UsageWire,
    model: Option<String>,
    version: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UsageWire {
    /// Includes the cached tokens.
    prompt_token_count: i64,
    candidates_token_count: i64,
    thoughts_token_count: i64,
    cached_content_token_count: i64,
}

/// The token usage of each model response, the model and the version of Qwen Code.
pub(super) fn read(tail: &[u8]) -> TranscriptEnd {
    let lines = tail.split(|byte| *byte == b'\n');
    // Most lines are not model responses and are skipped.
    let lines = lines.filter_map(|line| serde_json::from_slice::<LineWire>(line).ok());
    let mut end = TranscriptEnd::default();
    for line in lines.filter(|line| line.kind == "assistant") {
        let About { model, host_version } = &mut end.about;
        *model = line.model.or(model.take());
        *host_version = line.version.or(host_version.take());
        end.usage.push((line.uuid, line.usage_metadata.usage()));
    }
    end
}

impl UsageWire {
    pub(super) const fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_token_count.saturating_sub(self.cached_content_token_count),
            output_tokens: self.candidates_token_count.saturating_add(self.thoughts_token_count),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: self.cached_content_token_count,
            is_estimate: false,
        }
    }
}
