//! Converts tool results from the structured form in which hosts pass them to hooks.
//!
//! The text of a result is as close as possible to the text that the model reads. The engine
//! compares the texts of results to detect repetition, so lengths, durations and flags are left
//! out: with them, equal results would have different texts.

use midcourse::ToolResult;
use serde_json::{Map, Value};

use crate::blocks::result_from_blocks;

pub(super) fn tool_result(response: Value) -> ToolResult {
    match response {
        Value::Null => ToolResult::default(),
        Value::String(text) => ToolResult::text(text),
        Value::Array(items) => result_from_blocks(items),
        Value::Object(fields) => structured(fields),
        other => ToolResult::text(other.to_string()),
    }
}

fn structured(mut fields: Map<String, Value>) -> ToolResult {
    if fields.contains_key("stdout") || fields.contains_key("stderr") {
        return shell(&fields);
    }
    if fields.contains_key("structuredPatch")
        && let Some(Value::String(file)) = fields.get("filePath")
    {
        let is_new = fields.get("type").is_some_and(|kind| kind == "create");
        let text = if is_new {
            format!("File created successfully at: {file}")
        } else {
            format!("The file {file} has been updated.")
        };
        return ToolResult { details: Value::Object(fields), ..ToolResult::text(text) };
    }
    if let Some(Value::String(text)) = fields.get_mut("file").and_then(|it| it.get_mut("content")) {
        return ToolResult::text(std::mem::take(text));
    }
    for name in ["content", "result"] {
        match fields.get_mut(name) {
            Some(Value::String(text)) if !text.is_empty() => {
                return ToolResult::text(std::mem::take(text));
            }
            Some(Value::Array(items)) if !items.is_empty() => {
                return result_from_blocks(std::mem::take(items));
            }
            _ => {}
        }
    }
    if let Some(Value::Array(names)) = fields.get("filenames") {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        return ToolResult::text(names.join("\n"));
    }
    fields.retain(|name, _| !name.to_ascii_lowercase().contains("duration"));
    ToolResult::text(Value::Object(fields).to_string())
}

fn shell(fields: &Map<String, Value>) -> ToolResult {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut parts: Vec<&str> = [text("stdout"), text("stderr")].into();
    parts.retain(|part| !part.is_empty());
    let background = text("backgroundTaskId");
    let running = format!("Running in the background as {background}.");
    if !background.is_empty() {
        parts.push(&running);
    }
    let is_interrupted = fields.get("interrupted").is_some_and(|flag| *flag == true);
    ToolResult { is_error: is_interrupted, ..ToolResult::text(parts.join("\n")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::tool_result;

    #[test]
    fn the_text_of_a_result_is_what_the_model_reads() {
        for (response, text) in [
            (json!("plain"), "plain"),
            (json!(null), ""),
            (json!({"stdout": "out", "stderr": "err", "interrupted": false}), "out\nerr"),
            (json!({"stdout": "", "stderr": ""}), ""),
            (
                json!({"stdout": "", "stderr": "", "backgroundTaskId": "b1"}),
                "Running in the background as b1.",
            ),
            (json!({"type": "text", "file": {"content": "hi\n", "numLines": 2}}), "hi\n"),
            (
                json!({"type": "create", "filePath": "a.rs", "structuredPatch": []}),
                "File created successfully at: a.rs",
            ),
            (
                json!({"filePath": "a.rs", "oldString": "x", "structuredPatch": [1]}),
                "The file a.rs has been updated.",
            ),
            (json!({"mode": "content", "content": "a.rs:1:x", "numLines": 1}), "a.rs:1:x"),
            (json!({"filenames": ["a", "b"], "durationMs": 12, "numFiles": 2}), "a\nb"),
            (json!({"content": [{"type": "text", "text": "done"}], "agentId": "x"}), "done"),
            (json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]), "one\ntwo"),
            (json!({"code": 200, "result": "a page", "durationMs": 9}), "a page"),
            (json!({"totalDurationMs": 9, "status": "launched"}), r#"{"status":"launched"}"#),
            (
                json!([{"type": "image", "source": {"media_type": "image/png", "data": "AA=="}}]),
                "data:image/png;base64,AA==",
            ),
        ] {
            assert_eq!(tool_result(response.clone()).comparable_text(), text, "{response}");
        }
        assert!(tool_result(json!({"stdout": "", "interrupted": true})).is_error);
    }
}
