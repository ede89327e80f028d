//! The scripted model server for OpenAI's Responses API, as far as Codex uses this API.

use serde_json::{Value, json};

use super::http::{Content, Reply, Request};
use super::model::ModelApi;
use super::script::{AGENT_ID, AGENT_TASK, Piece, Requester, Turn};
use super::times;

pub(crate) struct Responses;

impl ModelApi for Responses {
    const PATH: &'static str = "/v1/responses";

    /// Who sent the request. The subagent's conversation contains the subagent's task as a user
    /// message. The main agent's conversation contains the task only in the input of the call that
    /// starts the subagent.
    fn requester(body: &Value) -> Requester {
        let mut items = body["input"].as_array().into_iter().flatten();
        let is_agent = items.any(|item| item["role"] == "user" && times(item, AGENT_TASK) > 0);
        if is_agent { Requester::Subagent } else { Requester::Main }
    }

    fn respond(turn: &Turn, body: &Value, number: usize) -> Reply {
        let pieces = match turn {
            Turn::Response(pieces) => pieces,
            Turn::Error(status) => return error(*status, "an error of the script"),
        };
        let agent = last_subagent(body).unwrap_or_default();
        let id = format!("resp_{number}");
        let mut events = vec![json!({"type": "response.created", "response": {"id": id}})];
        for (index, piece) in pieces.iter().enumerate() {
            events.push(json!({"type": "response.output_item.done", "output_index": index,
                               "item": item(piece, &agent, number, index)}));
        }
        let usage = json!({"input_tokens": 500, "input_tokens_details": {"cached_tokens": 0},
                           "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0},
                           "total_tokens": 520});
        events.push(json!({"type": "response.completed", "response": {"id": id, "usage": usage}}));
        let event = |data: Value| {
            let name = data["type"].as_str().unwrap_or_default();
            format!("event: {name}\ndata: {data}\n\n")
        };
        Reply { status: 200, content: Content::Events(events.into_iter().map(event).collect()) }
    }

    fn other(request: &Request) -> Reply {
        if request.method == "GET" && request.path.ends_with("/models") {
            let none = json!({"object": "list", "data": [], "models": []});
            return Reply { status: 200, content: Content::Json(none.to_string()) };
        }
        error(404, "not found")
    }
}

fn error(status: u16, message: &str) -> Reply {
    let body = json!({"error": {"type": "invalid_request_error", "message": message}});
    Reply { status, content: Content::Json(body.to_string()) }
}

fn item(piece: &Piece, agent: &str, number: usize, index: usize) -> Value {
    match piece {
        Piece::Text(text) => {
            json!({"type": "message", "role": "assistant", "id": format!("msg_{number}_{index}"),
                   "content": [{"type": "output_text", "text": text, "annotations": []}]})
        }
        Piece::ToolCall { id, group, tool, input } => {
            let arguments = input.to_string().replace(AGENT_ID, agent);
            let mut item = json!({"type": "function_call", "id": format!("fc_{number}_{index}"),
                                  "call_id": id, "name": tool, "arguments": arguments});
            if let Some(group) = group {
                item["namespace"] = json!(group);
            }
            item
        }
    }
}

/// The id of the subagent that was started last. The conversation contains the id in the result of
/// the call that started the subagent.
fn last_subagent(body: &Value) -> Option<String> {
    let items = body["input"].as_array()?.iter().rev();
    items.into_iter().find_map(|item| {
        let output: Value = serde_json::from_str(item["output"].as_str()?).ok()?;
        Some(output["agent_id"].as_str()?.to_owned())
    })
}
