//! Claude Code's transcript: one JSON object per line. Only the last part of the file is read, so
//! the first line may be cut off. When a hook is called, the latest one or two model responses may
//! not be in the transcript yet.

use midcourse::Usage;
use serde::Deserialize;

#[derive(Deserialize)]
struct LineWire {
    #[serde(rename = "type")]
    kind: String,
    message: Option<MessageWire>,
}

#[derive(Deserialize)]
struct MessageWire {
    id: Option<String>,
    usage: Option<Usage>,
}

/// The token usage of each model response, with the response's id.
pub(super) fn usage(tail: &[u8]) -> Vec<(String, Usage)> {
    let mut responses: Vec<(String, Usage)> = Vec::new();
    for line in tail.split(|byte| *byte == b'\n') {
        // Most lines are not model responses and are skipped.
        let Ok(LineWire { kind, message: Some(message) }) = serde_json::from_slice(line) else {
            continue;
        };
        let (Some(id), Some(usage), "assistant") = (message.id, message.usage, kind.as_str())
        else {
            continue;
        };
        // A response with several content blocks has one line for each block. The last of these
        // lines has the token count of the whole response.
        match responses.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known = usage,
            None => responses.push((id, usage)),
        }
    }
    responses
}

#[cfg(test)]
mod tests {
    use super::usage;

    #[test]
    fn the_last_line_of_a_response_has_its_tokens() {
        let line = |id: &str, output: i64| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"{id}","role":"assistant","content":[],"usage":{{"input_tokens":5,"output_tokens":{output},"cache_read_input_tokens":100,"service_tier":"standard"}}}}}}"#
            )
        };
        let text = [
            "orn\",\"message\":{\"id\":\"m0\"}}".to_owned(),
            line("m1", 1),
            line("m1", 20),
            r#"{"type":"user","message":{"id":"m9","usage":{"input_tokens":9}}}"#.to_owned(),
            r#"{"type":"attachment"}"#.to_owned(),
            line("m2", 7),
            "{\"type\":\"assis".to_owned(),
        ];
        let found = usage(text.join("\n").as_bytes());
        let counted: Vec<_> =
            found.iter().map(|(id, usage)| (id.as_str(), usage.output_tokens)).collect();
        assert_eq!(counted, [("m1", 20), ("m2", 7)]);
        assert_eq!(found[0].1.cache_read_input_tokens, 100);
        assert!(usage(b"\xff\xfe\n\n{}").is_empty());
    }
}
