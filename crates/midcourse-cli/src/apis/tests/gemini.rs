//! Gemini's API: calls without ids, results in objects, and both kinds of streams.

use midcourse::{StopReason, TrajectoryPayload, Usage};
use serde_json::{Value, json};

use super::super::{Api, Conversation, insert};

fn content(role: &str, parts: Value) -> Value {
    json!({"role": role, "parts": parts})
}

fn call(name: &str, args: Value) -> Value {
    json!({"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2ln"})
}

fn result(name: &str, response: Value) -> Value {
    json!({"functionResponse": {"name": name, "response": response}})
}

#[test]
fn calls_without_ids_are_told_apart_by_their_order() {
    let contents = json!([
        content("user", json!([{"text": "go"}])),
        content(
            "model",
            json!([{"text": "hm", "thought": true}, call("sh", json!({"c": 1})), call("sh", json!({"c": 2}))])
        ),
        content(
            "user",
            json!([result("sh", json!({"output": "one"})), result("sh", json!({"error": "two"}))])
        ),
        content("model", json!([call("sh", json!({"c": 3}))])),
        content("user", json!([result("sh", json!({"lines": [3]}))])),
    ]);
    let body = json!({"contents": contents, "systemInstruction": {"parts": [{"text": "rules"}]},
        "tools": [{"functionDeclarations": [{"name": "sh"}]}]})
    .to_string();
    let mut request = Api::Gemini.parse_request(&body).unwrap();
    assert_eq!((request.tools.as_slice(), request.message_count), (&["sh".to_owned()][..], 5));
    assert_eq!(request.system_texts().collect::<Vec<_>>(), ["rules"]);
    let delta = Conversation::default().apply_request(&mut request, true);
    let ended: Vec<_> = delta
        .events
        .iter()
        .filter_map(|event| match &event.payload {
            TrajectoryPayload::ToolEnded { tool_call_id, result, is_error, .. } => {
                Some((tool_call_id.as_str(), result.comparable_text().into_owned(), *is_error))
            }
            _ => None,
        })
        .collect();
    let lines = r#"{"lines":[3]}"#;
    let expected = [("call", "one", false), ("call#2", "two", true), ("call#3", lines, false)];
    assert_eq!(ended, expected.map(|(id, text, failed)| (id, text.to_owned(), failed)));
}

#[test]
fn a_reply_and_the_next_request_agree_on_calls_without_ids() {
    let mut conversation = Conversation::default();
    let mut contents = vec![content("user", json!([{"text": "go"}]))];
    let mut ended = Vec::new();
    for number in 0..4 {
        let body = json!({"contents": contents}).to_string();
        let delta =
            conversation.apply_request(&mut Api::Gemini.parse_request(&body).unwrap(), true);
        ended.extend(delta.events.iter().filter_map(|event| match &event.payload {
            TrajectoryPayload::ToolEnded { tool_call_id, .. } => Some(tool_call_id.to_string()),
            TrajectoryPayload::ToolStarted { .. } => panic!("the reply has reported this call"),
            _ => None,
        }));
        let parts = json!([call("sh", json!({"n": number}))]);
        let candidate = json!({"content": content("model", parts.clone()), "finishReason": "STOP"});
        let response = json!({"candidates": [candidate]}).to_string();
        conversation.apply_reply(Api::Gemini.parse_response(200, response.as_bytes()).unwrap());
        // Gemini CLI gives calls ids of its own.
        let id = format!("sh_179472664838{number}_0");
        let mut with_id = parts;
        with_id[0]["functionCall"]["id"] = json!(id);
        contents.push(content("model", with_id));
        let mut response = result("sh", json!({"output": "x"}));
        response["functionResponse"]["id"] = json!(id);
        contents.push(content("user", json!([response])));
    }
    assert_eq!(ended, ["call", "call#2", "call#3"]);
}

#[test]
fn parallel_calls_without_ids_in_a_reply_are_told_apart() {
    let mut conversation = Conversation::default();
    let task = content("user", json!([{"text": "go"}]));
    let body = json!({"contents": [task]}).to_string();
    conversation.apply_request(&mut Api::Gemini.parse_request(&body).unwrap(), true);
    let calls = content("model", json!([call("sh", json!({"c": 1})), call("sh", json!({"c": 2}))]));
    let response = json!({"candidates": [{"content": calls, "finishReason": "STOP"}]}).to_string();
    let reply = Api::Gemini.parse_response(200, response.as_bytes()).unwrap();
    let started: Vec<_> = conversation
        .apply_reply(reply)
        .iter()
        .filter_map(|event| event.payload.call_id().map(ToString::to_string))
        .collect();
    assert_eq!(started, ["call", "call#2"]);
    // The next request has the same calls, with their results: nothing starts again.
    let results =
        json!([result("sh", json!({"output": "1"})), result("sh", json!({"output": "2"}))]);
    let body = json!({"contents": [task, calls, content("user", results)]}).to_string();
    let delta = conversation.apply_request(&mut Api::Gemini.parse_request(&body).unwrap(), true);
    let kinds: Vec<_> = delta.events.iter().map(|event| event.payload.kind()).collect();
    assert_eq!(kinds, ["tool_ended", "tool_ended"]);
}

#[test]
fn guidance_is_appended_to_the_last_result_or_is_a_part() {
    let guided = |contents: Value| {
        let body = json!({"contents": contents}).to_string();
        let request = Api::Gemini.parse_request(&body).unwrap();
        let point = request.insertion_point?;
        let sent = insert(body.as_bytes(), &mut [point.insertion("TEXT")]);
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        Some(sent["contents"].as_array().unwrap().last().unwrap()["parts"].clone())
    };
    let task = content("user", json!([{"text": "go"}]));
    assert_eq!(guided(json!([task])), Some(json!([{"text": "go"}, {"text": "TEXT"}])));
    let done = content("user", json!([result("sh", json!({"output": "x"}))]));
    let expected = json!([result("sh", json!({"output": "x\n\nTEXT"}))]);
    assert_eq!(
        guided(json!([task, content("model", json!([call("sh", json!({}))])), done])),
        Some(expected)
    );
    assert_eq!(guided(json!([task, content("model", json!([{"text": "I"}]))])), None);
}

#[test]
fn both_kinds_of_streams_parse_like_the_whole_response() {
    let usage = json!({"promptTokenCount": 12, "candidatesTokenCount": 15, "thoughtsTokenCount": 5,
        "cachedContentTokenCount": 5});
    let chunk = |parts: Value, reason: Option<&str>| {
        let mut candidate = json!({"index": 0, "content": content("model", parts)});
        if let Some(reason) = reason {
            candidate["finishReason"] = json!(reason);
        }
        json!({"candidates": [candidate], "usageMetadata": usage})
    };
    let sh = call("sh", json!({"c": 1}));
    let whole =
        chunk(json!([{"text": "hm", "thought": true}, {"text": "I look."}, sh]), Some("STOP"));
    let chunks = [
        chunk(json!([{"text": "hm", "thought": true}]), None),
        chunk(json!([{"text": "I "}]), None),
        chunk(json!([{"text": "look."}, sh]), Some("STOP")),
    ];
    let parse = |body: &str| Api::Gemini.parse_response(200, body.as_bytes()).unwrap();
    let expected = parse(&whole.to_string());
    assert_eq!((expected.blocks.len(), expected.stop_reason), (3, StopReason::ToolUse));
    let counts = Usage {
        input_tokens: 7,
        output_tokens: 20,
        cache_read_input_tokens: 5,
        ..Usage::default()
    };
    assert_eq!(expected.usage, Some(counts));
    let events = |chunks: &[Value]| -> String {
        chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
    };
    assert_eq!(parse(&events(&chunks)), expected);
    assert_eq!(parse(&Value::from(chunks.to_vec()).to_string()), expected);
    assert!(!parse(&events(&chunks[..2])).is_complete());
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}}).to_string();
    assert_eq!(parse(&blocked).error.as_deref(), Some("SAFETY"));
}

#[test]
fn the_model_is_in_the_path() {
    let path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
    assert_eq!(Api::of_path(path), Some(Api::Gemini));
    assert_eq!(Api::Gemini.model_in(path).as_deref(), Some("gemini-2.5-pro"));
    for path in ["/openai/deployments/d/chat/completions", "/api/v1/chat/completions"] {
        assert_eq!(Api::of_path(path), Some(Api::ChatCompletions));
    }
    for path in ["/openai/v1/responses", "/openai/responses", "/api/v1/responses"] {
        assert_eq!(Api::of_path(path), Some(Api::Responses));
    }
    assert_eq!(Api::of_path("/api/v1/messages"), Some(Api::Messages));
}
