//! Request bodies of the same conversation in every API.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Api;

/// One step of a conversation, independent of the API.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Message(String),
    /// Parallel calls: the text of each result, and whether the result is sent as a list of content
    /// blocks instead of a string.
    Calls(Vec<(String, bool)>),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = || prop_oneof![".{0,12}", "[\\PC\"\\\\\\n\\]}]{0,12}"];
    let step = prop_oneof![
        text().prop_map(Step::Message),
        prop::collection::vec((text(), any::<bool>()), 1..4).prop_map(Step::Calls),
    ];
    prop::collection::vec(step, 0..8)
}

/// The name of the field with the messages.
pub(super) const fn messages_field(api: Api) -> &'static str {
    match api {
        Api::Messages | Api::ChatCompletions => "messages",
        Api::Responses => "input",
        Api::Gemini => "contents",
    }
}

/// Builds the request body for a conversation.
pub(super) fn body(api: Api, steps: &[Step]) -> Value {
    let mut messages = vec![message(api, "user", "go")];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Message(text) => {
                messages.push(message(api, "assistant", text));
                messages.push(message(api, "user", text));
            }
            Step::Calls(results) => messages.extend(calls(api, number, results)),
        }
    }
    let tools = match api {
        Api::Gemini => json!([{"functionDeclarations": [{"name": "t"}]}]),
        Api::ChatCompletions => json!([{"type": "function", "function": {"name": "t"}}]),
        Api::Messages | Api::Responses => json!([{"name": "t"}]),
    };
    json!({"model": "m", messages_field(api): messages, "tools": tools})
}

fn message(api: Api, role: &str, text: &str) -> Value {
    match api {
        Api::Gemini => {
            let role = if role == "assistant" { "model" } else { role };
            json!({"role": role, "parts": [{"text": text}]})
        }
        _ => json!({"role": role, "content": text}),
    }
}

/// The messages for parallel calls and their results.
fn calls(api: Api, number: usize, results: &[(String, bool)]) -> Vec<Value> {
    let id = |index: usize| format!("call-{number}-{index}");
    let list = |kind: &str, text: &str| json!([{"type": kind, "text": text}]);
    let content = |(text, as_blocks): &(String, bool)| match (api, as_blocks) {
        (Api::Gemini, false) => json!({"output": text}),
        (Api::Gemini, true) => json!({"more": [1], "result": text}),
        (Api::Responses, true) => list("input_text", text),
        (_, true) => list("text", text),
        (_, false) => json!(text),
    };
    let ids: Vec<_> = (0..results.len()).map(id).collect();
    let results: Vec<_> = ids.iter().zip(results.iter().map(content)).collect();
    match api {
        Api::Messages => {
            let call = |id| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
            let calls: Vec<_> = ids.iter().map(call).collect();
            let result = |(id, content)| json!({"type": "tool_result", "tool_use_id": id, "content": content});
            let results: Vec<_> = results.into_iter().map(result).collect();
            vec![
                json!({"role": "assistant", "content": calls}),
                json!({"role": "user", "content": results}),
            ]
        }
        Api::ChatCompletions => {
            let function = json!({"name": "t", "arguments": "{}"});
            let call = |id| json!({"id": id, "type": "function", "function": function});
            let calls: Vec<_> = ids.iter().map(call).collect();
            let result =
                |(id, content)| json!({"role": "tool", "tool_call_id": id, "content": content});
            let first = json!({"role": "assistant", "content": null, "tool_calls": calls});
            std::iter::once(first).chain(results.into_iter().map(result)).collect()
        }
        Api::Responses => {
            let call = |id| json!({"type": "function_call", "call_id": id, "name": "t", "arguments": "{}"});
            let result = |(id, content)| json!({"type": "function_call_output", "call_id": id, "output": content});
            ids.iter().map(call).chain(results.into_iter().map(result)).collect()
        }
        Api::Gemini => {
            let call = |id| json!({"functionCall": {"id": id, "name": "t", "args": {}}});
            let calls: Vec<_> = ids.iter().map(call).collect();
            let result = |(id, content)| json!({"functionResponse": {"id": id, "name": "t", "response": content}});
            let results: Vec<_> = results.into_iter().map(result).collect();
            vec![
                json!({"role": "model", "parts": calls}),
                json!({"role": "user", "parts": results}),
            ]
        }
    }
}

/// Serialises JSON with white space wherever JSON allows it.
pub(super) fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[ {}\n]", items.join(" ,\t"))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{} : {}", json!(name), spaced(value)))
                .collect();
            format!("{{\r\n{} }}", fields.join(" , "))
        }
        other => other.to_string(),
    }
}

/// All strings in a JSON value, joined.
pub(super) fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(fields) => fields.values().map(texts).collect(),
        _ => String::new(),
    }
}
