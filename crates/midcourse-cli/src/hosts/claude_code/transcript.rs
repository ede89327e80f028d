//! Claude Code's transcript: one JSON object per line. Only the last part of the file is read, so
//! the first line may be cut off. When a hook is called, the latest one or two model responses may
//! not be in the transcript yet.

use midcourse::Usage;
use serde::Deserialize;

use super::super::About;
use super::super::payload::TranscriptEnd;

/// The name of the model in messages that Claude Code itself writes instead of the model.
pub(super) const NO_MODEL: &str = "<synthetic>";

#[derive(Deserialize)]
struct LineWire {
    #[serde(rename = "type")]
    kind: String,
    message: Option<MessageWire>,
    version: Option<String>,
}

#[derive(Deserialize)]
struct MessageWire {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
}

/// The token usage of each model response, the model and the version of Claude Code.
pub(super) fn read(tail: &[u8]) -> TranscriptEnd {
    let mut responses: Vec<(String, Usage)> = Vec::new();
    let mut about = About::default();
    // Most lines are not model responses. Those that cannot be one are skipped without parsing them,
    // because they may be long.
    let is_response = |line: &&[u8]| memchr::memmem::find(line, b"\"usage\"").is_some();
    for line in tail.split(|byte| *byte == b'\n').filter(is_response) {
        let Ok(LineWire { kind, message: Some(message), version }) = serde_json::from_slice(line)
        else {
            continue;
        };
        let (Some(id), Some(usage), "assistant") = (message.id, message.usage, kind.as_str())
        else {
            continue;
        };
        about.model = message.model.filter(|model| model != NO_MODEL).or(about.model);
        about.host_version = version.or(about.host_version);
        // A response with several content blocks has one line for each block. The last of these
        // lines has the token count of the whole response.
        match responses.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known = usage,
            None => responses.push((id, usage)),
        }
    }
    TranscriptEnd { usage: responses, about }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_last_line_of_a_response_has_its_tokens() {
        let line = |id: &str, output: i64| {
            format!(
                r#"{{"type":"assistant","version":"2.1.0","message":{{"id":"{id}","model":"model-1","role":"assistant","content":[],"usage":{{"input_tokens":5,"output_tokens":{output},"cache_read_input_tokens":100,"service_tier":"standard"}}}}}}"#
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
        let end = read(text.join("\n").as_bytes());
        let found = end.usage;
        assert_eq!(end.about.model.as_deref(), Some("model-1"));
        assert_eq!(end.about.host_version.as_deref(), Some("2.1.0"));
        let counted: Vec<_> =
            found.iter().map(|(id, usage)| (id.as_str(), usage.output_tokens)).collect();
        assert_eq!(counted, [("m1", 20), ("m2", 7)]);
        assert_eq!(found[0].1.cache_read_input_tokens, 100);
        assert_eq!(read(b"\xff\xfe\n\n{}"), super::TranscriptEnd::default());
    }
}
