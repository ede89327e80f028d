//! The Chat Completions API, as far as the package for Python uses it.

use serde_json::{Value, json};

use super::http::{Content, Reply, Request};
use super::model::Dialect;
use super::script::{AGENT_TASK, Asker, Piece, Turn};
use super::times;

pub(crate) struct ChatCompletions;

impl Dialect for ChatCompletions {
    const PATH: &'static str = "/v1/chat/completions";

    /// An agent's task is the first word of its user. Who offers no tools may still be one.
    fn asker(body: &Value) -> Asker {
        let mut messages = body["messages"].as_array().into_iter().flatten();
        let first = messages.find(|message| message["role"] == "user");
        let is_agent = first.is_some_and(|message| times(message, AGENT_TASK) > 0);
        if is_agent { Asker::Agent } else { Asker::Main }
    }

    fn answer(turn: &Turn, body: &Value, number: usize) -> Reply {
        let pieces = match turn {
            Turn::Answers(pieces) => pieces,
            Turn::Refuses(status) => return refusal(*status, "the script refuses"),
        };
        let is_calling = pieces.iter().any(|piece| matches!(piece, Piece::Calls { .. }));
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

    fn beside(_: &Request) -> Reply {
        refusal(404, "there is no such thing here")
    }
}

fn refusal(status: u16, message: &str) -> Reply {
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    let error = json!({"message": message, "type": kind, "param": null, "code": null});
    Reply { status, content: Content::Json(json!({"error": error}).to_string()) }
}

/// An answer, whole.
fn message(pieces: &[Piece]) -> Value {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Says(said) => text.push_str(said),
            Piece::Calls { id, tool, input, .. } => {
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

/// An answer as events: whose it is, what is said, each call in three, how it ends, what it cost.
fn stream(head: &Value, pieces: &[Piece], reason: &str, usage: Option<Value>) -> Vec<String> {
    let mut deltas = vec![json!({"role": "assistant", "content": "", "refusal": null})];
    let mut index = 0;
    for piece in pieces {
        match piece {
            Piece::Says(text) => deltas.extend(halves(text).map(|half| json!({"content": half}))),
            Piece::Calls { id, tool, input, .. } => {
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
    let event = |choices: Value, cost: Option<&Value>| {
        let mut chunk = head.clone();
        chunk["choices"] = choices;
        if usage.is_some() {
            chunk["usage"] = json!(cost);
        }
        format!("data: {chunk}\n\n")
    };
    let step = |delta: Value, reason: Option<&str>| {
        event(json!([{"index": 0, "delta": delta, "finish_reason": reason}]), None)
    };
    let mut events: Vec<String> = deltas.into_iter().map(|delta| step(delta, None)).collect();
    events.push(step(json!({}), Some(reason)));
    events.extend(usage.as_ref().map(|cost| event(json!([]), Some(cost))));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// A text in two, neither of which is empty if it has more than one character.
fn halves(text: &str) -> impl Iterator<Item = String> {
    let middle = text.chars().count().div_ceil(2);
    let (first, second) = (text.chars().take(middle), text.chars().skip(middle));
    [first.collect(), second.collect()].into_iter()
}
