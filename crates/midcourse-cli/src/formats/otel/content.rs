//! Messages of a conversation in the form of the GenAI conventions: a role and typed parts.
//!
//! The conversion is for readers of spans. `content` turns parts back into the content of a message;
//! where that does not give the same content, the span also has the original message.

use serde_json::{Value, json};

/// A message as the conventions write it; `None` if they have no such message.
pub(super) fn genai_message(message: &Value) -> Option<Value> {
    let content = message.get("content")?;
    let role = match message.get("role")?.as_str()? {
        "tool_result" => "tool",
        role @ ("system" | "user" | "assistant") => role,
        _ => return None,
    };
    let parts: Vec<Value> = match content {
        Value::String(text) => vec![text_part(text)],
        Value::Array(blocks) if role == "tool" => {
            let id = message.get("tool_call_id");
            vec![json!({"type": "tool_call_response", "id": id, "response": plain_text(blocks)})]
        }
        Value::Array(blocks) => blocks.iter().filter_map(part).collect(),
        _ => return None,
    };
    let mut message_json = json!({"role": role, "parts": parts});
    if let Some(reason) = message.get("stop_reason").and_then(Value::as_str)
        && let Some(fields) = message_json.as_object_mut()
    {
        fields.insert("finish_reason".to_owned(), finish_reason(reason).into());
    }
    Some(message_json)
}

/// The conventions' word for why a response ended.
pub(super) fn finish_reason(stop_reason: &str) -> &str {
    match stop_reason {
        "end_turn" => "stop",
        "tool_use" => "tool_call",
        "max_tokens" => "length",
        other => other,
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

fn part(block: &Value) -> Option<Value> {
    let text = || block.get("text").and_then(Value::as_str);
    match block.get("type")?.as_str()? {
        "text" => text().map(text_part),
        "thinking" | "reasoning" => {
            text().map(|text| json!({"type": "reasoning", "content": text}))
        }
        "tool_call" => Some(json!({
            "type": "tool_call",
            "id": block.get("id"),
            "name": block.get("name"),
            "arguments": block.get("arguments"),
        })),
        "image" => Some(json!({
            "type": "uri",
            "modality": "image",
            "mime_type": block.get("media_type"),
            "uri": block.get("source"),
        })),
        _ => None,
    }
}

/// The texts of the blocks, joined with newlines.
pub(super) fn plain_text(blocks: &[Value]) -> String {
    let texts = blocks.iter().filter_map(|block| match block.get("text") {
        Some(text) => text.as_str(),
        None => block.get("source")?.as_str(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The content of a recorded message, from a message of the conventions.
pub(super) fn content(message: &Value) -> Option<Value> {
    let parts = message.get("parts")?.as_array()?;
    let text = |part: &Value, name: &str| part.get(name).and_then(Value::as_str).map(Value::from);
    match (message.get("role")?.as_str()?, parts.as_slice()) {
        ("user" | "system", [only]) if is(only, "text") => text(only, "content"),
        ("tool", [only]) if is(only, "tool_call_response") => {
            Some(json!([{"type": "text", "text": only.get("response")?}]))
        }
        ("assistant", parts) => parts
            .iter()
            .map(|part| match part.get("type")?.as_str()? {
                "text" => Some(json!({"type": "text", "text": text(part, "content")?})),
                "reasoning" => Some(json!({"type": "reasoning", "text": text(part, "content")?})),
                "tool_call" => Some(json!({
                    "type": "tool_call",
                    "id": part.get("id")?,
                    "name": part.get("name")?,
                    "arguments": part.get("arguments")?,
                })),
                _ => None,
            })
            .collect::<Option<Vec<Value>>>()
            .map(Value::Array),
        _ => None,
    }
}

fn is(part: &Value, kind: &str) -> bool {
    part.get("type").and_then(Value::as_str) == Some(kind)
}
