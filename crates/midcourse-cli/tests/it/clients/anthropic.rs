//! The Messages API, as far as Claude Code and the package for Python use it.

use serde_json::{Value, json};

use super::http::{Content, Reply, Request};
use super::model::Dialect;
use super::script::{AGENT_TASK, Asker, Piece, Turn};
use super::times;

pub(crate) struct Messages;

impl Dialect for Messages {
    const PATH: &'static str = "/v1/messages";

    /// An agent's conversation begins with its task. What Claude Code, which names its session, asks
    /// for itself has no tools.
    fn asker(body: &Value) -> Asker {
        let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        if !has_tools && body["metadata"].is_object() {
            Asker::Side
        } else if times(&body["messages"][0], AGENT_TASK) > 0 {
            Asker::Agent
        } else {
            Asker::Main
        }
    }

    fn answer(turn: &Turn, body: &Value, number: usize) -> Reply {
        let pieces = match turn {
            Turn::Answers(pieces) => pieces,
            Turn::Refuses(status) => return refusal(*status, "the script refuses"),
        };
        let is_calling = pieces.iter().any(|piece| matches!(piece, Piece::Calls { .. }));
        let reason = if is_calling { "tool_use" } else { "end_turn" };
        let mut message = json!({
            "id": format!("msg_{number}"), "type": "message", "role": "assistant",
            "model": body["model"], "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 500, "cache_creation_input_tokens": 0,
                      "cache_read_input_tokens": 0, "output_tokens": 20},
        });
        let content = if body["stream"] == true {
            Content::Events(stream(&message, pieces, reason))
        } else {
            message["content"] = pieces.iter().map(block).collect();
            message["stop_reason"] = json!(reason);
            Content::Json(message.to_string())
        };
        Reply { status: 200, content }
    }

    fn beside(request: &Request) -> Reply {
        match (request.method.as_str(), request.path.as_str()) {
            ("HEAD", _) => Reply { status: 200, content: Content::Json(String::new()) },
            ("POST", "/v1/messages/count_tokens") => {
                let content = Content::Json(json!({"input_tokens": 100}).to_string());
                Reply { status: 200, content }
            }
            _ => refusal(404, "there is no such thing here"),
        }
    }
}

fn refusal(status: u16, message: &str) -> Reply {
    let kind = if status == 404 { "not_found_error" } else { "invalid_request_error" };
    let error = json!({"type": "error", "error": {"type": kind, "message": message}});
    Reply { status, content: Content::Json(error.to_string()) }
}

/// A piece of an answer, whole.
fn block(piece: &Piece) -> Value {
    match piece {
        Piece::Says(text) => json!({"type": "text", "text": text}),
        Piece::Calls { id, tool, input, .. } => {
            json!({"type": "tool_use", "id": id, "name": tool, "input": input})
        }
    }
}

/// An answer as events: what it is, each piece in three, how it ends.
fn stream(message: &Value, pieces: &[Piece], reason: &str) -> Vec<String> {
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, piece) in pieces.iter().enumerate() {
        let (start, delta) = match piece {
            Piece::Says(text) => {
                (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
            }
            Piece::Calls { id, tool, input, .. } => (
                json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
                json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            ),
        };
        events.extend([
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]);
    }
    events.push(json!({"type": "message_delta", "usage": {"output_tokens": 20},
                       "delta": {"stop_reason": reason, "stop_sequence": null}}));
    events.push(json!({"type": "message_stop"}));
    let event = |data: Value| {
        let name = data["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {data}\n\n")
    };
    events.into_iter().map(event).collect()
}
