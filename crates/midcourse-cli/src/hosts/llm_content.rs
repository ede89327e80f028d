//! Converts tool results of Gemini CLI and Qwen Code, which have the same origin.
//!
//! The field `llmContent` has what the model reads: a text or a list of parts. The result of a
//! command is a list of labelled lines (`Output:`, `Exit Code:` and so on). The engine compares the
//! texts of results to detect repetition, so the line with the id of the process group is left out.

use midcourse::ToolResult;
use serde_json::Value;

/// How the line begins that names the process group of a command.
const PROCESS_GROUP: &str = "Process Group PGID:";

/// The tags that Gemini CLI puts around output that the model should not trust.
const UNTRUSTED: (&str, &str) = ("<untrusted_context>", "</untrusted_context>");

/// Converts a result. It is an error if the host says so; of a command, the host reports only the
/// exit code, in the text.
pub(super) fn tool_result(mut response: Value) -> ToolResult {
    let text = response.get_mut("llmContent").map(Value::take).map_or_else(String::new, text);
    let error = response.pointer("/error/message").and_then(Value::as_str);
    match error {
        // The model reads the error message instead of the content.
        Some(error) => ToolResult::error(error),
        None => ToolResult::text(comparable(&text)),
    }
}

/// The text without what differs between two equal results.
pub(super) fn comparable(text: &str) -> String {
    let (start, end) = UNTRUSTED;
    let inner = text.trim().strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    let text = inner.map_or(text, str::trim);
    match text.rsplit_once('\n') {
        Some((before, last)) if last.starts_with(PROCESS_GROUP) => before.to_owned(),
        _ => text.to_owned(),
    }
}

fn text(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(parts) => {
            let texts: Vec<String> = parts.into_iter().map(text).collect();
            texts.join("\n")
        }
        Value::Object(mut part) => match part.remove("text") {
            Some(Value::String(text)) => text,
            _ => Value::Object(part).to_string(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::tool_result;

    #[test]
    fn the_text_of_a_result_is_what_the_model_reads() {
        for (response, text) in [
            (json!({"llmContent": "plain", "returnDisplay": "shown"}), "plain"),
            (
                json!({"llmContent": "Output: hi\nExit Code: 3\nProcess Group PGID: 17"}),
                "Output: hi\nExit Code: 3",
            ),
            (
                json!({"llmContent": "<untrusted_context>\nOutput: hi\nProcess Group PGID: 17\n\
                       </untrusted_context>"}),
                "Output: hi",
            ),
            (json!({"llmContent": [{"text": "a"}, "b"]}), "a\nb"),
            (json!({"llmContent": {"text": "a"}}), "a"),
            (json!({"llmContent": [{"inlineData": {}}]}), r#"{"inlineData":{}}"#),
            (json!({}), ""),
            (json!(null), ""),
            (json!(7), ""),
        ] {
            let result = tool_result(response.clone());
            assert_eq!(result.comparable_text(), text, "{response}");
            assert!(!result.is_error);
        }
        let failed = json!({"llmContent": "a", "error": {"message": "not found", "type": "x"}});
        let failed = tool_result(failed);
        assert_eq!((failed.comparable_text().as_ref(), failed.is_error), ("not found", true));
    }
}
