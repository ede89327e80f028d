//! The messages of a model call, in the forms in which instrumentations write them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::attributes::{Attributes, json_value, text_value};

/// A message of a model request or response.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<CallRequest>,
    /// The call of which the message is the result.
    pub(super) result_of: Option<String>,
    pub(super) finish_reason: Option<String>,
}

/// A tool call that the model asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CallRequest {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// The messages of a request.
pub(super) fn input(attributes: &Attributes) -> Vec<Message> {
    let found =
        by_convention(attributes, "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt");
    if !found.is_empty() {
        return found;
    }
    let value = attributes.value(&["input.value", "mlflow.spanInputs", "traceloop.entity.input"]);
    value.map_or_else(Vec::new, |value| messages_in(&json_value(value), "user"))
}

/// The messages of a response.
pub(super) fn output(attributes: &Attributes) -> Vec<Message> {
    let names = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion");
    let found = by_convention(attributes, names.0, names.1, names.2);
    if !found.is_empty() {
        return found;
    }
    let value =
        attributes.value(&["output.value", "mlflow.spanOutputs", "traceloop.entity.output"]);
    value.map_or_else(Vec::new, |value| messages_in(&json_value(value), "assistant"))
}

fn by_convention(
    attributes: &Attributes,
    genai: &str,
    openinference: &str,
    traceloop: &str,
) -> Vec<Message> {
    if let Some(messages) = attributes.value(&[genai])
        && let Value::Array(messages) = json_value(messages)
    {
        return messages.iter().map(message).collect();
    }
    let found = numbered(attributes, openinference);
    if found.is_empty() { numbered(attributes, traceloop) } else { found }
}

/// Messages in a value: a list of them, an object that has one, or a text.
fn messages_in(value: &Value, role: &str) -> Vec<Message> {
    let list = value.get("messages").or_else(|| value.get("choices")).unwrap_or(value);
    match list {
        Value::Array(messages) if messages.iter().any(Value::is_object) => {
            messages.iter().map(|item| message(item.get("message").unwrap_or(item))).collect()
        }
        Value::Object(fields) if fields.contains_key("role") => vec![message(list)],
        other => {
            vec![Message { role: role.to_owned(), text: text_value(other), ..Message::default() }]
        }
    }
}

/// A message as the GenAI conventions or a model API write it.
fn message(value: &Value) -> Message {
    let field = |name: &str| value.get(name).map(text_value).filter(|text| !text.is_empty());
    let mut message = Message {
        role: field("role").unwrap_or_default(),
        result_of: field("tool_call_id"),
        finish_reason: field("finish_reason"),
        reasoning: field("reasoning_content").unwrap_or_default(),
        ..Message::default()
    };
    match value.get("parts").or_else(|| value.get("content")) {
        Some(Value::Array(parts)) => parts.iter().for_each(|part| add_part(&mut message, part)),
        Some(content) => message.text = text_value(content),
        None => {}
    }
    for call in value.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        message.calls.push(call_request(call.get("id"), function));
    }
    message
}

fn call_request(id: Option<&Value>, function: &Value) -> CallRequest {
    CallRequest {
        id: id.map(text_value).unwrap_or_default(),
        name: function.get("name").map(text_value).unwrap_or_default(),
        arguments: function.get("arguments").map(json_value).unwrap_or_default(),
    }
}

fn add_part(message: &mut Message, part: &Value) {
    let text = |names: &[&str]| names.iter().find_map(|name| part.get(name)).map(text_value);
    let append = |field: &mut String, text: Option<String>| {
        let text = text.unwrap_or_default();
        if !field.is_empty() && !text.is_empty() {
            field.push('\n');
        }
        field.push_str(&text);
    };
    match part.get("type").and_then(Value::as_str) {
        Some("text" | "input_text" | "output_text") | None => {
            append(&mut message.text, text(&["content", "text"]));
        }
        Some("reasoning" | "thinking") => {
            append(&mut message.reasoning, text(&["content", "text", "thinking"]));
        }
        Some("tool_call" | "tool_use") => {
            let arguments = part.get("arguments").or_else(|| part.get("input"));
            message.calls.push(CallRequest {
                id: text(&["id"]).unwrap_or_default(),
                name: text(&["name"]).unwrap_or_default(),
                arguments: arguments.map(json_value).unwrap_or_default(),
            });
        }
        Some("tool_call_response" | "tool_result") => {
            message.result_of = text(&["id", "tool_use_id"]);
            append(&mut message.text, text(&["response", "result", "content"]));
        }
        Some(_) => {}
    }
}

/// Messages in attributes with numbers: `llm.input_messages.0.message.role` of OpenInference, or
/// `gen_ai.prompt.0.role`.
fn numbered(attributes: &Attributes, prefix: &str) -> Vec<Message> {
    let mut messages: BTreeMap<usize, (Message, BTreeMap<usize, CallRequest>)> = BTreeMap::new();
    let mut contents: BTreeMap<(usize, usize), &Value> = BTreeMap::new();
    for (number, rest, value) in attributes.numbered(prefix) {
        let (message, calls) = messages.entry(number).or_default();
        let rest = rest.strip_prefix("message.").unwrap_or(rest);
        match rest {
            "role" => message.role = text_value(value),
            "content" => message.text = text_value(value),
            "tool_call_id" => message.result_of = Some(text_value(value)),
            "finish_reason" => message.finish_reason = Some(text_value(value)),
            _ => {
                let mut parts = rest.splitn(3, '.');
                let (list, number_in, field) = (parts.next(), parts.next(), parts.next());
                let Some(number_in) = number_in.and_then(|it| it.parse().ok()) else { continue };
                match (list, field.unwrap_or_default()) {
                    (Some("contents"), "message_content.text") => {
                        contents.insert((number, number_in), value);
                    }
                    (Some("tool_calls"), field) => {
                        let call: &mut CallRequest = calls.entry(number_in).or_default();
                        match field.strip_prefix("tool_call.").unwrap_or(field) {
                            "id" => call.id = text_value(value),
                            "name" | "function.name" => call.name = text_value(value),
                            "arguments" | "function.arguments" => {
                                call.arguments = json_value(value)
                            }
                            _ => {}
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    for ((number, _), text) in contents {
        if let Some((message, _)) = messages.get_mut(&number) {
            if !message.text.is_empty() {
                message.text.push('\n');
            }
            message.text.push_str(&text_value(text));
        }
    }
    let message = |(mut message, calls): (Message, BTreeMap<usize, CallRequest>)| {
        message.calls = calls.into_values().collect();
        message
    };
    messages.into_values().map(message).collect()
}
