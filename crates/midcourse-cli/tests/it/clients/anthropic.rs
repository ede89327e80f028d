//! The scripted model server for Anthropic's Messages API, as far as Claude Code and the official
//! Python package use this API.

use serde_json::{Value, json};

use super::http::{Content, Reply, Request};
use super::model::ModelApi;
use super::script::{AGENT_TASK, Piece, Requester, Turn};
use super::times;

pub(crate) struct Messages;

impl ModelApi for Messages {
    const PATH: &'static str = "/v1/messages";

    /// Who sent the request. Requests with metadata but without tools come from Claude Code itself,
    /// for example to get a title for the session. A conversation that begins with the subagent's
    /// task is the subagent's; all others are the main agent's.
    fn requester(body: &Value) -> Requester {
        let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        if !has_tools && body["metadata"].is_object() {
            Requester::Client
        } else if times(&body["messages"][0], AGENT_TASK) > 0 {
            Requester::Subagent
        } else {
            Requester::Main
        }
    }

    fn respond(turn: &Turn, body: &Value, number: usize) -> Reply {
        let pieces = match turn {
            Turn::Response(pieces) => pieces,
            Turn::Error(status) => return error(*status, "an error of the script"),
        };
        let is_calling = pieces.iter().any(|piece| matches!(piece, Piece::ToolCall { .. }));
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

    fn other(request: &Request) -> Reply {
        match (request.method.as_str(), request.path.as_str()) {
            ("HEAD", _) => Reply { status: 200, content: Content::Json(String::new()) },
            ("POST", "/v1/messages/count_tokens") => {
                let content = Content::Json(json!({"input_tokens": 100}).to_string());
                Reply { status: 200, content }
            }
            _ => error(404, "not found"),
        }
    }
}

fn error(status: u16, message: &str) -> Reply {
    let kind = if status == 404 { "not_found_error" } else { "invalid_request_error" };
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    Reply { status, content: Content::Json(body.to_string()) }
}

fn block(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::ToolCall { id, tool, input, .. } => {
            json!({"type": "tool_use", "id": id, "name": tool, "input": input})
        }
    }
}

/// A response as server-sent events: a start, three events for each text or call, and an end.
fn stream(message: &Value, pieces: &[Piece], reason: &str) -> Vec<String> {
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, piece) in pieces.iter().enumerate() {
        let (start, delta) = match piece {
            Piece::Text(text) => {
                (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
            }
            Piece::ToolCall { id, tool, input, .. } => (
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
