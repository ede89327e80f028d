//! The end of a session's file as Claude Code writes it: one JSON object a line, the first perhaps
//! torn. It lags behind the hooks by an answer or two.

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

/// The tokens of each answer of the model, by the answer's id.
pub(super) fn usage(end: &[u8]) -> Vec<(String, Usage)> {
    let mut answers: Vec<(String, Usage)> = Vec::new();
    for line in end.split(|byte| *byte == b'\n') {
        // Most lines are something else, and long.
        let Ok(LineWire { kind, message: Some(message) }) = serde_json::from_slice(line) else {
            continue;
        };
        let (Some(id), Some(usage), "assistant") = (message.id, message.usage, kind.as_str())
        else {
            continue;
        };
        // An answer of several parts has a line for each; the last one has counted to the end.
        match answers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known = usage,
            None => answers.push((id, usage)),
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::usage;

    #[test]
    fn the_last_line_of_an_answer_counts() {
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
