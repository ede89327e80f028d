//! The Responses API: items of all kinds, conversations that the server keeps, and streams.

use midcourse::{StopReason, TrajectoryPayload, Usage};
use serde_json::{Value, json};

use super::super::{Api, Conversation, Item, insert};

/// A request as Codex sends it.
fn codex_request() -> Value {
    let text = |text: &str| json!([{"type": "input_text", "text": text}]);
    let message = |role: &str, content: &str| json!({"type": "message", "id": "msg_1", "role": role, "content": text(content)});
    json!({"model": "gpt-5.4", "instructions": "Be brief.", "store": false, "stream": true,
    "tools": [{"type": "function", "name": "exec_command"}, {"type": "custom", "name": "apply_patch"},
              {"type": "web_search"}],
    "input": [
        message("developer", "rules"),
        message("user", "<environment_context>\n</environment_context>"),
        message("user", "do it"),
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_0001_aaaa", "name": "exec_command",
         "arguments": "{\"cmd\": \"ls\"}"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_0001_bbbb", "name": "apply_patch",
         "input": "*** Begin Patch"},
        message("developer", "a hook says"),
        {"type": "function_call_output", "call_id": "call_0001_aaaa", "output": "Process exited with code 3"},
        {"type": "custom_tool_call_output", "call_id": "call_0001_bbbb", "output": [{"type": "input_text", "text": "ok"}]},
    ]})
}

#[test]
fn a_request_of_codex_is_read() {
    let body = codex_request().to_string();
    let mut request = Api::Responses.parse_request(&body).unwrap();
    assert_eq!(request.tools, ["exec_command", "apply_patch", "web_search"]);
    assert_eq!(request.system_texts().collect::<Vec<_>>(), ["Be brief.", "rules"]);
    assert!(!request.is_kept_by_server && request.accepts_insertions());
    assert_eq!(request.message_count, 9);
    let delta = Conversation::default().apply_request(&mut request, true);
    let kinds: Vec<_> = delta.events.iter().map(|event| event.payload.kind()).collect();
    let message = "message_appended";
    let calls = ["tool_started", "tool_started"];
    let ends = ["tool_ended", "tool_ended"];
    assert_eq!(kinds, [[message, message].as_slice(), &calls, &[message], &ends].concat());
    let started = delta.events.iter().find_map(|event| match &event.payload {
        TrajectoryPayload::ToolStarted { tool_name, args, .. } => Some((tool_name, args)),
        _ => None,
    });
    let (tool, args) = started.unwrap();
    assert_eq!((tool.as_str(), args), ("exec_command", &json!({"cmd": "ls"})));
}

#[test]
fn guidance_is_appended_to_the_last_result_and_feedback_to_its_own() {
    let body = codex_request().to_string();
    let request = Api::Responses.parse_request(&body).unwrap();
    let end = request.insertion_point.unwrap();
    let sent = String::from_utf8(insert(body.as_bytes(), &mut [end.insertion("TEXT")])).unwrap();
    assert!(
        sent.contains(r#"{"type":"input_text","text":"ok"},{"type":"input_text","text":"TEXT"}]"#),
        "{sent}"
    );
    let results: Vec<_> = request
        .items
        .iter()
        .filter_map(|item| match item {
            Item::ToolResult { insertion_point, .. } => *insertion_point,
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 2);
    let mut insertions = [results[0].insertion("TEXT")];
    let sent = String::from_utf8(insert(body.as_bytes(), &mut insertions)).unwrap();
    assert!(sent.contains(r#""Process exited with code 3\n\nTEXT""#), "{sent}");
}

#[test]
fn guidance_needs_a_place_that_the_server_accepts() {
    let guided = |input: Value| {
        let body = json!({"model": "m", "input": input}).to_string();
        let request = Api::Responses.parse_request(&body).unwrap();
        let point = request.insertion_point?;
        let sent = insert(body.as_bytes(), &mut [point.insertion("TEXT")]);
        Some(serde_json::from_slice::<Value>(&sent).unwrap()["input"].clone())
    };
    assert_eq!(guided(json!("go")), Some(json!("go\n\nTEXT")));
    let user = json!({"role": "user", "content": "go"});
    assert_eq!(guided(json!([user])), Some(json!([{"role": "user", "content": "go\n\nTEXT"}])));
    // An item without a text is followed by a message of the developer.
    let reference = json!({"type": "item_reference", "id": "msg_1"});
    let developer = json!({"role": "developer", "content": "TEXT"});
    assert_eq!(guided(json!([reference])), Some(json!([reference, developer])));
    // The model would continue its own item.
    assert_eq!(guided(json!([user, {"role": "assistant", "content": "I"}])), None);
    assert_eq!(guided(json!([user, {"type": "reasoning", "summary": []}])), None);
}

#[test]
fn a_conversation_that_the_server_keeps_is_recorded_piece_by_piece() {
    let mut conversation = Conversation::default();
    let mut apply = |body: Value| {
        let body = body.to_string();
        let mut request = Api::Responses.parse_request(&body).unwrap();
        assert!(request.is_kept_by_server);
        let delta = conversation.apply_request(&mut request, true);
        assert!(!delta.is_compacted);
        let kinds: Vec<_> = delta.events.iter().map(|event| event.payload.kind()).collect();
        let call =
            json!({"type": "function_call", "call_id": "call_1", "name": "t", "arguments": "{}"});
        let response = json!({"id": "resp_1", "status": "completed", "output": [call]}).to_string();
        let reply = Api::Responses.parse_response(200, response.as_bytes()).unwrap();
        assert_eq!(reply.response_id.as_deref(), Some("resp_1"));
        conversation.apply_reply(reply);
        kinds
    };
    assert_eq!(apply(json!({"input": "go"})), ["message_appended"]);
    let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let next = |input: Value| json!({"previous_response_id": "resp_1", "input": input});
    assert_eq!(apply(next(json!([result("call_1")]))), ["tool_ended"]);
    // The same words again are a new message, and the second call has its own id.
    assert_eq!(apply(next(json!("go"))), ["message_appended"]);
    assert_eq!(apply(next(json!("go"))), ["message_appended"]);
    let named =
        json!({"conversation": {"id": "conv_1"}, "store": false, "input": "go"}).to_string();
    let request = Api::Responses.parse_request(&named).unwrap();
    assert_eq!((request.session.as_deref(), request.is_kept_by_server), (Some("conv_1"), true));
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: x\ndata: {event}\n\n")).collect()
}

#[test]
fn a_stream_parses_like_the_whole_response() {
    let output = json!([
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{\"path\":\"a\"}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** text"},
    ]);
    let usage = json!({"input_tokens": 12, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 5}});
    let whole = json!({"id": "resp_1", "status": "completed", "output": output, "usage": usage});
    let parse = |body: &str| Api::Responses.parse_response(200, body.as_bytes()).unwrap();
    let expected = parse(&whole.to_string());
    assert_eq!((expected.blocks.len(), expected.stop_reason), (4, StopReason::ToolUse));
    let counts = Usage {
        input_tokens: 7,
        output_tokens: 20,
        cache_read_input_tokens: 5,
        ..Usage::default()
    };
    assert_eq!(expected.usage, Some(counts));
    let created =
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}});
    let mut events = vec![created];
    events.push(json!({"type": "response.output_text.delta", "delta": "I lo"}));
    let cut = parse(&stream(&events));
    assert_eq!((cut.texts().collect::<String>().as_str(), cut.is_complete()), ("I lo", false));
    let done = |item: &Value| json!({"type": "response.output_item.done", "item": item});
    events.extend(output.as_array().unwrap().iter().map(done));
    let completed = |response: &Value| json!({"type": "response.completed", "response": response});
    let with_output = [events.as_slice(), &[completed(&whole)]].concat();
    assert_eq!(parse(&stream(&with_output)), expected);
    // Some servers leave the output out of the last event.
    let short = json!({"id": "resp_1", "usage": usage});
    let without_output = [events.as_slice(), &[completed(&short)]].concat();
    assert_eq!(parse(&stream(&without_output)), expected);
}

#[test]
fn responses_that_did_not_complete_have_no_calls_to_run() {
    let parse =
        |body: Value| Api::Responses.parse_response(200, body.to_string().as_bytes()).unwrap();
    let call = json!({"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"});
    let failed =
        parse(json!({"status": "failed", "error": {"code": "server_error"}, "output": [call]}));
    assert!(!failed.is_complete() && failed.error.unwrap().contains("server_error"));
    let cut =
        json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}});
    assert_eq!(parse(cut).stop_reason, StopReason::MaxTokens);
    assert!(!parse(json!({"status": "queued"})).is_complete());
    assert!(Api::Responses.parse_response(200, b"{}").is_none());
}
