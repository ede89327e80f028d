//! Gemini CLI's transcript: one JSON object per line. Only the last part of the file is read, so the
//! first line may be cut off.

use midcourse::Usage;
use serde::Deserialize;

use super::super::payload::TranscriptEnd;

#[derive(Deserialize)]
struct LineWire {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    tokens: TokensWire,
    model: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct TokensWire {
    /// Includes the cached tokens.
    input: i64,
    output: i64,
    cached: i64,
    thoughts: i64,
}

/// The token usage of each model response, and the model. A response with tool calls has two lines
/// with the same id.
pub(super) fn read(tail: &[u8]) -> TranscriptEnd {
    let lines = tail.split(|byte| *byte == b'\n');
    // Most lines are not model responses and are skipped.
    let lines = lines.filter_map(|line| serde_json::from_slice::<LineWire>(line).ok());
    let mut end = TranscriptEnd::default();
    for line in lines.filter(|line| line.kind == "gemini") {
        end.about.model = line.model.or(end.about.model);
        if end.usage.last().is_none_or(|(id, _)| *id != line.id) {
            end.usage.push((line.id, line.tokens.usage()));
        }
    }
    end
}

impl TokensWire {
    pub(super) const fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input.saturating_sub(self.cached),
            output_tokens: self.output.saturating_add(self.thoughts),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: self.cached,
            is_estimate: false,
        }
    }
}
