//! Converts tool results of Gemini CLI and Qwen Code, which have the same origin.
//!
//! The field `llmContent` has what the model reads: a text or a list of parts. The result of a
//! command is a list of labelled lines (`Output:`, `Exit Code:` and so on), which the engine reads.

use midcourse::ToolResult;
use serde_json::Value;

/// Converts a result. It is an error if the host says so; of a command, the host reports only the
/// exit code, in the text.
pub(super) fn tool_result(mut response: Value) -> ToolResult {
    let text = response.get_mut("llmContent").map(Value::take).map_or_else(String::new, text);
    let error = response.pointer("/error/message").and_then(Value::as_str);
    match error {
        // The model reads the error message instead of the content.
        Some(error) => ToolResult::error(error),
        None => ToolResult::text(text),
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
