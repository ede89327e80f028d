//! The scripted model server for OpenAI's Chat Completions API, as far as the official Python
//! package uses this API.

use serde_json::{Value, json};

use super::http::{Content, Reply, Request};
use super::model::ModelApi;
use super::script::{AGENT_TASK, Piece, Requester, Turn};
use super::times;

pub(crate) struct ChatCompletions;

impl ModelApi for ChatCompletions {
    const PATH: &'static str = "/v1/chat/completions";

    /// Who sent the request: the subagent if the first user message is the subagent's task, else
    /// the main agent.
    fn requester(body: &Value) -> Requester {
        let mut messages = body["messages"].as_array().into_iter().flatten();
        let first = messages.find(|message| message["role"] == "user");
        let is_agent = first.is_some_and(|message| times(message, AGENT_TASK) > 0);
        if is_agent { Requester::Subagent } else { Requester::Main }
    }

    fn respond(turn: &Turn, body: &Value, number: usize) -> Reply {
        let pieces = match turn {
            Turn::Response(pieces) => pieces,
            Turn::Error(status) => return error(*status, "an error of the script"),
        };
        let is_calling = pieces.iter().any(|piece| matches!(piece, Piece::ToolCall { .. }));
        let reason = if is_calling { "tool_calls" } else { "stop" };
        let mut completion = json!({
            "id": format!("chatcmpl-{number}"), "created": 1_700_000_000, "model": body["model"],
        });
        let usage = json!({"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520});
        let content = if body["stream"] == true {
            completion["object"] = json!("chat.completion.chunk");
            let usage = (body["stream_options"]["include_usage"] == true).then_some(usage);
            Content::Events(stream(&completion, pieces, reason, usage))
        } else {
            completion["object"] = json!("chat.completion");
            completion["choices"] = json!([{"index": 0, "message": message(pieces),
                                            "logprobs": null, "finish_reason": reason}]);
            completion["usage"] = usage;
            Content::Json(completion.to_string())
        };
        Reply { status: 200, content }
    }

    fn other(_: &Request) -> Reply {
        error(404, "not found")
    }
}

fn error(status: u16, message: &str) -> Reply {
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    let error = json!({"message": message, "type": kind, "param": null, "code": null});
    Reply { status, content: Content::Json(json!({"error": error}).to_string()) }
}

fn message(pieces: &[Piece]) -> Value {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::ToolCall { id, tool, input, .. } => {
                let function = json!({"name": tool, "arguments": input.to_string()});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
        }
    }
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}

/// A response as server-sent events: the role, the text, three events for each call, the end, and
/// the token counts.
fn stream(head: &Value, pieces: &[Piece], reason: &str, usage: Option<Value>) -> Vec<String> {
    let mut deltas = vec![json!({"role": "assistant", "content": "", "refusal": null})];
    let mut index = 0;
    for piece in pieces {
        match piece {
            Piece::Text(text) => deltas.extend(halves(text).map(|half| json!({"content": half}))),
            Piece::ToolCall { id, tool, input, .. } => {
                let start = json!({"name": tool, "arguments": ""});
                deltas.push(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                                                   "function": start}]}));
                deltas.extend(halves(&input.to_string()).map(|half| {
                    json!({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
                }));
                index += 1;
            }
        }
    }
    let event = |choices: Value, tokens: Option<&Value>| {
        let mut chunk = head.clone();
        chunk["choices"] = choices;
        if usage.is_some() {
            chunk["usage"] = json!(tokens);
        }
        format!("data: {chunk}\n\n")
    };
    let step = |delta: Value, reason: Option<&str>| {
        event(json!([{"index": 0, "delta": delta, "finish_reason": reason}]), None)
    };
    let mut events: Vec<String> = deltas.into_iter().map(|delta| step(delta, None)).collect();
    events.push(step(json!({}), Some(reason)));
    events.extend(usage.as_ref().map(|tokens| event(json!([]), Some(tokens))));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// Cuts a text in the middle, to stream it in two events.
fn halves(text: &str) -> impl Iterator<Item = String> {
    let middle = text.chars().count().div_ceil(2);
    let (first, second) = (text.chars().take(middle), text.chars().skip(middle));
    [first.collect(), second.collect()].into_iter()
}
