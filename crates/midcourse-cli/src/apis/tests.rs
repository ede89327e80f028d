//! Tests that requests and responses are parsed correctly, and that inserting text changes nothing
//! else in a request.

mod bodies;
mod captures;
mod gemini;
mod responses;
mod text_actions;

use midcourse::{StopReason, TrajectoryPayload, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Api, Conversation, Insertion, InsertionPoint, Item, Reply, Request, RequestDigests, insert,
};
use bodies::{Step, body, messages_field, spaced, steps, texts};

/// Where feedback about the result of this call is inserted.
fn result_point(request: &Request<'_>, call: &str) -> Option<InsertionPoint> {
    request.items.iter().find_map(|item| match item {
        Item::ToolResult { id, insertion_point, .. } if id == call => *insertion_point,
        _ => None,
    })
}

/// How a client writes its history.
#[derive(Debug, Clone, Copy)]
struct Client {
    calls: CallForm,
    /// What the client does with the model's text: keeps, rewrites or drops it.
    text: u8,
    /// How many of the latest turns it sends, after the task.
    kept: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum CallForm {
    Kept,
    /// Each call gets another id, which is the same in all later requests.
    OtherIds,
    /// Calls and results are text; one text for the results of parallel calls.
    Text,
}

/// The model's text, and the result of each call, of which there are at most three.
type Turn = (String, Vec<String>);

fn clients() -> impl Strategy<Value = Client> {
    let calls = prop_oneof![Just(CallForm::Kept), Just(CallForm::OtherIds), Just(CallForm::Text)];
    let parts = (calls, 0..3_u8, prop_oneof![Just(99_usize), 1..4_usize]);
    parts.prop_map(|(calls, text, kept)| Client { calls, text, kept })
}

fn call_id(turn: usize, index: usize) -> String {
    format!("call_{turn:08}_{index}")
}

impl Client {
    /// The request after these turns.
    fn request(&self, turns: &[Turn]) -> Value {
        let mut messages = vec![json!({"role": "user", "content": "the task"})];
        for (number, (text, results)) in turns.iter().enumerate() {
            if number + self.kept < turns.len() {
                continue;
            }
            let id = |index: usize| match self.calls {
                CallForm::OtherIds => format!("toolu-{number:08}-{index}"),
                _ => call_id(number, index),
            };
            let text =
                [text.clone(), format!("({text})"), String::new()][usize::from(self.text)].clone();
            let ids: Vec<_> = (0..results.len()).map(id).collect();
            if self.calls == CallForm::Text {
                let content = format!("{text}\nCalling tools: {ids:?}");
                messages.push(json!({"role": "assistant", "content": content}));
                let content = format!("Observation: {}", results.join(" "));
                messages.push(json!({"role": "user", "content": content}));
                continue;
            }
            let call =
                |id: &String| json!({"id": id, "function": {"name": "t", "arguments": "{}"}});
            let calls: Vec<_> = ids.iter().map(call).collect();
            messages.push(json!({"role": "assistant", "content": text, "tool_calls": calls}));
            for (id, result) in ids.iter().zip(results) {
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
            }
        }
        json!({"model": "m", "messages": messages})
    }
}

fn reply(number: usize, (text, results): &Turn) -> Reply {
    let function = json!({"name": "t", "arguments": "{}"});
    let call = |index| json!({"id": call_id(number, index), "function": function});
    let calls: Vec<_> = (0..results.len()).map(call).collect();
    let message = json!({"content": text, "tool_calls": calls});
    let body = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    Api::ChatCompletions.parse_response(200, body.to_string().as_bytes()).unwrap()
}

proptest! {
    #[test]
    fn each_result_is_recorded_once_however_the_client_writes_its_history(
        client in clients(),
        turns in prop::collection::vec(("[ab]{1,2}", prop::collection::vec("[xy]", 1..4)), 0..8),
        resend in any::<bool>(),
    ) {
        let (mut conversation, mut results) = (Conversation::default(), Vec::new());
        for length in 0..=turns.len() {
            let body = client.request(&turns[..length]).to_string();
            let parse = || Api::ChatCompletions.parse_request(&body).unwrap();
            if length > 0 {
                let fit = conversation.fit(&RequestDigests::of(&parse()));
                prop_assert!(fit.is_some(), "request {} is of another run", length);
            }
            let delta = conversation.apply_request(&mut parse(), true);
            let user_messages = delta.events.iter().filter(|event| {
                matches!(event.payload, TrajectoryPayload::MessageAppended { .. })
            });
            prop_assert_eq!(user_messages.count(), usize::from(length == 0));
            for event in delta.events {
                prop_assert!(event.is_new_to_model);
                prop_assert_ne!(event.payload.kind(), "tool_started");
                if let TrajectoryPayload::ToolEnded { tool_call_id, .. } = event.payload {
                    results.push(tool_call_id.to_string());
                }
            }
            if resend {
                let again = conversation.apply_request(&mut parse(), true);
                prop_assert!(again.events.is_empty());
            }
            if let Some(turn) = turns.get(length) {
                conversation.apply_reply(reply(length, turn));
            }
        }
        let expected: Vec<_> = turns
            .iter()
            .enumerate()
            .flat_map(|(number, (_, results))| (0..results.len()).map(move |at| call_id(number, at)))
            .collect();
        prop_assert_eq!(results, expected);
    }

    #[test]
    fn removing_insertions_gives_back_the_bytes_of_the_client(steps in steps()) {
        const TEXT: &str = "[monitor]\n\"quoted\" \\ → text";
        for api in Api::ALL {
            let sent = spaced(&body(api, &steps));
            let request = api.parse_request(&sent).unwrap();
            let mut insertions: Vec<Insertion> = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                let Step::Calls(results) = step else { continue };
                for index in 0..results.len() {
                    let call = format!("call-{number}-{index}");
                    insertions.push(result_point(&request, &call).unwrap().insertion(TEXT));
                }
            }
            insertions.push(request.insertion_point.unwrap().insertion(TEXT));
            let count = insertions.len();
            let inserted = String::from_utf8(insert(sent.as_bytes(), &mut insertions)).unwrap();
            // The body is still valid JSON and contains every inserted text.
            let value: Value = serde_json::from_str(&inserted).unwrap();
            prop_assert_eq!(texts(&value).matches(TEXT).count(), count);
            let before: Value = serde_json::from_str(&sent).unwrap();
            let messages = messages_field(api);
            prop_assert_eq!(
                value[messages].as_array().unwrap().len(),
                before[messages].as_array().unwrap().len()
            );
            let mut cut = inserted.clone();
            for Insertion { json, .. } in &insertions {
                cut = cut.replacen(json.as_str(), "", 1);
            }
            prop_assert_eq!(cut, sent);
        }
    }

    #[test]
    fn a_growing_conversation_yields_each_event_once(steps in steps()) {
        for api in Api::ALL {
            let mut growing = Conversation::default();
            let mut yielded = Vec::new();
            for length in 0..=steps.len() {
                let sent = body(api, &steps[..length]).to_string();
                let delta = growing.apply_request(&mut api.parse_request(&sent).unwrap(), true);
                prop_assert!(!delta.is_compacted);
                yielded.extend(delta.events.into_iter().map(|event| (event.payload, event.fact_key)));
                let again = growing.apply_request(&mut api.parse_request(&sent).unwrap(), true);
                prop_assert!(again.events.is_empty(), "the same request again adds nothing");
            }
            let whole = body(api, &steps).to_string();
            let at_once = Conversation::default().apply_request(&mut api.parse_request(&whole).unwrap(), true);
            let at_once: Vec<_> =
                at_once.events.into_iter().map(|event| (event.payload, event.fact_key)).collect();
            prop_assert_eq!(yielded, at_once, "another process computes the same keys");
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".*") {
        for api in Api::ALL {
            let _ = api.parse_response(200, &bytes);
            let _ = api.parse_response(500, &bytes);
            let _ = api.parse_response(200, format!("data: {text}\n\n").as_bytes());
            if let Some(mut request) = api.parse_request(&text) {
                let _ = Conversation::default().apply_request(&mut request, true);
            }
        }
    }
}

#[test]
fn a_stream_parses_like_the_whole_response() {
    let usage = json!({"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1});
    let whole = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 20},
        "content": [{"type": "thinking", "thinking": "hm…"}, {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "a"}}]});
    let events = [
        json!({"type": "message_start", "message": {"usage": usage}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm…"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I "}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}}),
        json!({"type": "content_block_start", "index": 2,
               "content_block": {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"pa"}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "th\":\"a\"}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ];
    let stream = |events: &[Value], end: &str| -> String {
        events.iter().map(|event| format!("event: x{end}data: {event}{end}{end}")).collect()
    };
    let parse = |body: &str| Api::Messages.parse_response(200, body.as_bytes()).unwrap();
    let expected = parse(&whole.to_string());
    assert_eq!(expected.usage.unwrap().output_tokens, 20);
    for end in ["\n", "\r\n"] {
        assert_eq!(parse(&stream(&events, end)), expected);
    }
    let cut = parse(&stream(&events[..8], "\n"));
    assert_eq!((cut.stop_reason, cut.is_complete()), (StopReason::Aborted, false));
    assert_eq!(cut.texts().collect::<String>(), "I look.");

    let chunk = |delta: Value, reason: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let call = |id: Option<&str>, name: Option<&str>, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": 0, "id": id, "function": function}]})
    };
    let chunks = [
        chunk(json!({"role": "assistant", "content": ""}), None),
        chunk(json!({"content": "I look."}), None),
        chunk(call(Some("t1"), Some("ls"), ""), None),
        chunk(call(None, None, "{\"path\""), None),
        chunk(call(None, None, ": \"a\"}"), None),
        chunk(json!({}), Some("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 20,
                                        "prompt_tokens_details": {"cached_tokens": 5}}}),
    ];
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    let streamed = Api::ChatCompletions.parse_response(200, text.as_bytes()).unwrap();
    assert_eq!(streamed.blocks, expected.blocks[1..]);
    assert_eq!(streamed.stop_reason, StopReason::ToolUse);
    let usage = Usage {
        input_tokens: 7,
        output_tokens: 20,
        cache_read_input_tokens: 5,
        ..Usage::default()
    };
    assert_eq!(streamed.usage, Some(usage));
}

#[test]
fn an_error_is_an_incomplete_reply_without_calls() {
    let refused = Api::Messages.parse_response(529, br#"{"type":"error"}"#).unwrap();
    assert_eq!((refused.stop_reason, refused.is_complete()), (StopReason::Error, false));
    assert!(refused.error.as_deref().unwrap().starts_with("HTTP status 529: "));
    let stream =
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    let broken = Api::Messages.parse_response(200, stream.as_bytes()).unwrap();
    assert!(broken.error.unwrap().contains("overloaded_error"));
    let count = |reply: &Reply| reply.tool_calls().count();
    assert_eq!(count(&refused), 0);
}

/// Claude Code's safety check takes text in user messages as the user's words, unless it is marked.
#[test]
fn guidance_is_marked_like_the_notes_of_the_client() {
    let note = json!({"type": "text", "text": "<system-reminder>\nDate\n</system-reminder>"});
    let task = json!({"type": "text", "text": "go"});
    let call = json!({"type": "tool_use", "id": "c1", "name": "Bash", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "c1", "content": "denied"});
    let guided = |messages: Value| {
        let body = json!({"model": "m", "messages": messages}).to_string();
        let request = Api::Messages.parse_request(&body).unwrap();
        let point = request.insertion_point?;
        Some(String::from_utf8(insert(body.as_bytes(), &mut [point.insertion("TEXT")])).unwrap())
    };
    let opening = json!({"role": "user", "content": [note, task]});
    let after_result = json!([opening, {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]}]);
    for messages in [json!([opening]), after_result] {
        let sent = guided(messages).unwrap();
        let marked = r#"{"type":"text","text":"<system-reminder>\nTEXT\n</system-reminder>"}]}"#;
        assert!(sent.contains(marked), "{sent}");
    }
    // There is no place for a mark in a plain text of the user.
    let plain = json!([opening, {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "yes"}]);
    assert_eq!(guided(plain), None);
    let with_system = json!([{"role": "user", "content": "go"}, {"role": "system", "content": "n"},
        {"role": "assistant", "content": "ok"}, {"role": "user", "content": "yes"}]);
    let sent = guided(with_system).unwrap();
    assert!(sent.contains(r#""yes"},{"role":"system","content":"TEXT"}]"#), "{sent}");
}

#[test]
fn cache_breakpoints_that_move_add_no_events() {
    let breakpoint = json!({"type": "ephemeral"});
    let before = json!({"model": "m", "messages": [
        {"role": "user", "content": "go"},
        {"role": "system", "content": [{"type": "text", "text": "note", "cache_control": breakpoint}]}]});
    let after = json!({"model": "m", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "system", "content": "note"},
        {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": breakpoint}]}]});
    let mut conversation = Conversation::default();
    let (before, after) = (before.to_string(), after.to_string());
    let first =
        conversation.apply_request(&mut Api::Messages.parse_request(&before).unwrap(), true);
    assert_eq!(first.events.len(), 2);
    let delta = conversation.apply_request(&mut Api::Messages.parse_request(&after).unwrap(), true);
    let [event] = delta.events.as_slice() else { panic!("{delta:?}") };
    assert!(matches!(&event.payload, TrajectoryPayload::MessageAppended { .. }));
}

#[test]
fn responses_of_less_strict_servers_are_parsed() {
    let parse =
        |api: Api, body: Value| api.parse_response(200, body.to_string().as_bytes()).unwrap();
    let counted = parse(
        Api::Messages,
        json!({"content": [{"type": "text", "text": "a"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "cache_read_input_tokens": null}}),
    );
    assert_eq!((counted.texts().count(), counted.usage.unwrap().input_tokens), (1, 3));
    let message = json!({"content": "a", "reasoning": "hm", "reasoning_content": "hm"});
    let both = parse(
        Api::ChatCompletions,
        json!({"usage": {"prompt_tokens": null},
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}),
    );
    assert_eq!((both.blocks.len(), both.is_complete()), (2, true));
    let piece = |arguments: &str| {
        let function = json!({"name": "shell", "arguments": arguments});
        let call = json!({"index": 0, "id": "c1", "function": function});
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    };
    let stream = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", piece("{\"a\""), piece(":1}"));
    let reply = Api::ChatCompletions.parse_response(200, stream.as_bytes()).unwrap();
    let calls: Vec<_> = reply.tool_calls().collect();
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(
        (call.id.as_str(), call.name.as_str(), &call.arguments),
        ("c1", "shell", &json!({"a": 1}))
    );
}

#[test]
fn a_result_without_content_gets_the_field_and_a_null_content_is_left_alone() {
    let body = |result: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"n","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t"{result}}}]}}]}}"#
        )
    };
    let missing = body("");
    let request = Api::Messages.parse_request(&missing).unwrap();
    let point = result_point(&request, "t").unwrap();
    let inserted = insert(missing.as_bytes(), &mut [point.insertion("text")]);
    let value: Value = serde_json::from_slice(&inserted).unwrap();
    assert_eq!(value["messages"][2]["content"][0]["content"], "text");
    let null = body(r#","content":null"#);
    assert_eq!(result_point(&Api::Messages.parse_request(&null).unwrap(), "t"), None);
}

#[test]
fn custom_tools_are_tools() {
    let call = json!({"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** x"}});
    let body = json!({"messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"}],
        "tools": [{"type": "custom", "custom": {"name": "patch"}}]})
    .to_string();
    let mut request = Api::ChatCompletions.parse_request(&body).unwrap();
    assert_eq!(request.tools, ["patch"]);
    let delta = Conversation::default().apply_request(&mut request, true);
    let kinds: Vec<_> = delta.events.iter().map(|event| event.payload.kind()).collect();
    assert_eq!(kinds, ["message_appended", "tool_started", "tool_ended"]);
}
