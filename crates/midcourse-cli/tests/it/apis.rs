//! The APIs, on bytes: what is read from requests and answers, and what inserting leaves as it was.

use midcourse::{StopReason, TrajectoryPayload, Usage};
use midcourse_cli::apis::{Answer, Api, Conversation, Insertion, insert};
use proptest::prelude::*;
use serde_json::{Value, json};

const APIS: [Api; 2] = [Api::Messages, Api::ChatCompletions];

/// One step of a conversation, in the words of no API.
#[derive(Debug, Clone)]
enum Step {
    Says(String),
    Calls(Vec<(String, bool)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = || prop_oneof![".{0,12}", "[\\PC\"\\\\\\n\\]}]{0,12}"];
    let step = prop_oneof![
        text().prop_map(Step::Says),
        prop::collection::vec((text(), any::<bool>()), 1..4).prop_map(Step::Calls),
    ];
    prop::collection::vec(step, 0..8)
}

/// The conversation as an API writes it; results are texts or parts, as the flag says.
fn body(api: Api, steps: &[Step]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Says(text) => {
                messages.push(json!({"role": "assistant", "content": text}));
                messages.push(json!({"role": "user", "content": text}));
            }
            Step::Calls(results) => {
                let id = |place: usize| format!("call-{number}-{place}");
                let content = |(text, in_parts): &(String, bool)| match in_parts {
                    true => json!([{"type": "text", "text": text}]),
                    false => json!(text),
                };
                let results = results.iter().enumerate();
                match api {
                    Api::Messages => {
                        let call = |place| json!({"type": "tool_use", "id": id(place), "name": "t", "input": {}});
                        let calls: Vec<_> = results.clone().map(|(place, _)| call(place)).collect();
                        let result = |(place, result)| json!({"type": "tool_result", "tool_use_id": id(place), "content": content(result)});
                        let results: Vec<_> = results.map(result).collect();
                        messages.push(json!({"role": "assistant", "content": calls}));
                        messages.push(json!({"role": "user", "content": results}));
                    }
                    Api::ChatCompletions => {
                        let call = |place| {
                            json!({"id": id(place), "type": "function",
                                   "function": {"name": "t", "arguments": "{}"}})
                        };
                        let calls: Vec<_> = results.clone().map(|(place, _)| call(place)).collect();
                        messages.push(
                            json!({"role": "assistant", "content": null, "tool_calls": calls}),
                        );
                        for (place, result) in results {
                            messages.push(json!({"role": "tool", "tool_call_id": id(place), "content": content(result)}));
                        }
                    }
                }
            }
        }
    }
    json!({"model": "m", "messages": messages, "tools": [{"name": "t"}]})
}

/// The same JSON with white space wherever it may stand.
fn spaced(value: &Value) -> String {
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

/// All texts in a value, joined.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(fields) => fields.values().map(texts).collect(),
        _ => String::new(),
    }
}

proptest! {
    #[test]
    fn what_is_inserted_can_be_cut_out_and_is_all_that_is_new(steps in steps()) {
        const WORDS: &str = "[monitor]\n\"quoted\" \\ → words";
        for api in APIS {
            let sent = spaced(&body(api, &steps));
            let request = api.request(&sent).unwrap();
            let mut insertions: Vec<Insertion> = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                let Step::Calls(results) = step else { continue };
                for place in 0..results.len() {
                    let place = request.place_of(&format!("call-{number}-{place}")).unwrap();
                    insertions.push(place.insertion(WORDS));
                }
            }
            insertions.push(request.place.unwrap().insertion(WORDS));
            let count = insertions.len();
            let inserted = String::from_utf8(insert(sent.as_bytes(), &mut insertions)).unwrap();
            // It is still the same conversation, with these words in it.
            let value: Value = serde_json::from_str(&inserted).unwrap();
            prop_assert_eq!(texts(&value).matches(WORDS).count(), count);
            let before: Value = serde_json::from_str(&sent).unwrap();
            prop_assert_eq!(
                value["messages"].as_array().unwrap().len(),
                before["messages"].as_array().unwrap().len()
            );
            let mut cut = inserted.clone();
            for Insertion { text, .. } in &insertions {
                cut = cut.replacen(text.as_str(), "", 1);
            }
            prop_assert_eq!(cut, sent);
        }
    }

    #[test]
    fn a_conversation_that_grows_tells_each_thing_once(steps in steps()) {
        for api in APIS {
            let mut growing = Conversation::default();
            let mut told = Vec::new();
            for length in 0..=steps.len() {
                let sent = body(api, &steps[..length]).to_string();
                let news = growing.take(&api.request(&sent).unwrap(), true);
                prop_assert!(!news.is_summed_up);
                told.extend(news.facts.into_iter().map(|fact| (fact.payload, fact.key)));
                // Sent again, it is nothing new.
                prop_assert!(growing.take(&api.request(&sent).unwrap(), true).facts.is_empty());
            }
            let whole = body(api, &steps).to_string();
            let at_once = Conversation::default().take(&api.request(&whole).unwrap(), true);
            let at_once: Vec<_> =
                at_once.facts.into_iter().map(|fact| (fact.payload, fact.key)).collect();
            prop_assert_eq!(told, at_once, "another process finds the same keys");
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".*") {
        for api in APIS {
            let _ = api.answer(200, &bytes);
            let _ = api.answer(500, &bytes);
            let _ = api.answer(200, format!("data: {text}\n\n").as_bytes());
            if let Some(request) = api.request(&text) {
                let _ = Conversation::default().take(&request, true);
            }
        }
    }
}

#[test]
fn a_stream_is_the_answer_that_it_makes() {
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
    let answer = |body: &str| Api::Messages.answer(200, body.as_bytes()).unwrap();
    let known = answer(&whole.to_string());
    assert_eq!(known.usage.unwrap().output_tokens, 20);
    for end in ["\n", "\r\n"] {
        assert_eq!(answer(&stream(&events, end)), known);
    }
    let cut = answer(&stream(&events[..8], "\n"));
    assert_eq!((cut.stop_reason, cut.is_whole()), (StopReason::Aborted, false));
    assert_eq!(cut.texts().collect::<String>(), "I look.");

    let chunk = |delta: Value, reason: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let called = |id: Option<&str>, name: Option<&str>, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": 0, "id": id, "function": function}]})
    };
    let chunks = [
        chunk(json!({"role": "assistant", "content": ""}), None),
        chunk(json!({"content": "I look."}), None),
        chunk(called(Some("t1"), Some("ls"), ""), None),
        chunk(called(None, None, "{\"path\""), None),
        chunk(called(None, None, ": \"a\"}"), None),
        chunk(json!({}), Some("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 20,
                                        "prompt_tokens_details": {"cached_tokens": 5}}}),
    ];
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    let streamed = Api::ChatCompletions.answer(200, text.as_bytes()).unwrap();
    assert_eq!(streamed.blocks, known.blocks[1..]);
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
fn an_error_is_an_answer_that_did_not_come() {
    let refused = Api::Messages.answer(529, br#"{"type":"error"}"#).unwrap();
    assert_eq!((refused.stop_reason, refused.is_whole()), (StopReason::Error, false));
    assert!(refused.error.as_deref().unwrap().starts_with("HTTP status 529: "));
    let stream =
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    let broken = Api::Messages.answer(200, stream.as_bytes()).unwrap();
    assert!(broken.error.unwrap().contains("overloaded_error"));
    let calls = |answer: &Answer| answer.calls().count();
    assert_eq!(calls(&refused), 0);
}

#[test]
fn marks_that_move_change_nothing() {
    let mark = json!({"type": "ephemeral"});
    let marked = json!({"model": "m", "messages": [
        {"role": "user", "content": "go"},
        {"role": "system", "content": [{"type": "text", "text": "note", "cache_control": mark}]}]});
    let moved = json!({"model": "m", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "system", "content": "note"},
        {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": mark}]}]});
    let mut conversation = Conversation::default();
    let (marked, moved) = (marked.to_string(), moved.to_string());
    assert_eq!(conversation.take(&Api::Messages.request(&marked).unwrap(), true).facts.len(), 2);
    let news = conversation.take(&Api::Messages.request(&moved).unwrap(), true);
    let [fact] = news.facts.as_slice() else { panic!("{news:?}") };
    assert!(matches!(&fact.payload, TrajectoryPayload::MessageAppended { .. }));
}

#[test]
fn answers_of_servers_that_are_not_quite_like_the_others_are_read() {
    let read = |api: Api, body: Value| api.answer(200, body.to_string().as_bytes()).unwrap();
    let counted = read(
        Api::Messages,
        json!({"content": [{"type": "text", "text": "a"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "cache_read_input_tokens": null}}),
    );
    assert_eq!((counted.texts().count(), counted.usage.unwrap().input_tokens), (1, 3));
    let message = json!({"content": "a", "reasoning": "hm", "reasoning_content": "hm"});
    let both = read(
        Api::ChatCompletions,
        json!({"usage": {"prompt_tokens": null},
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}),
    );
    assert_eq!((both.blocks.len(), both.is_whole()), (2, true));
    let piece = |arguments: &str| {
        let function = json!({"name": "shell", "arguments": arguments});
        let call = json!({"index": 0, "id": "c1", "function": function});
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    };
    let stream = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", piece("{\"a\""), piece(":1}"));
    let answer = Api::ChatCompletions.answer(200, stream.as_bytes()).unwrap();
    let calls: Vec<_> = answer.calls().collect();
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(
        (call.id.as_str(), call.name.as_str(), &call.arguments),
        ("c1", "shell", &json!({"a": 1}))
    );
}

#[test]
fn a_result_without_content_gets_one_and_a_result_of_nothing_does_not() {
    let body = |result: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"n","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t"{result}}}]}}]}}"#
        )
    };
    let missing = body("");
    let place = Api::Messages.request(&missing).unwrap().place_of("t").unwrap();
    let inserted = insert(missing.as_bytes(), &mut [place.insertion("words")]);
    let value: Value = serde_json::from_slice(&inserted).unwrap();
    assert_eq!(value["messages"][2]["content"][0]["content"], "words");
    let nothing = body(r#","content":null"#);
    assert_eq!(Api::Messages.request(&nothing).unwrap().place_of("t"), None);
}

#[test]
fn tools_of_ones_own_kind_are_tools() {
    let call = json!({"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** x"}});
    let body = json!({"messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"}],
        "tools": [{"type": "custom", "custom": {"name": "patch"}}]})
    .to_string();
    let request = Api::ChatCompletions.request(&body).unwrap();
    assert_eq!(request.tools, ["patch"]);
    let news = Conversation::default().take(&request, true);
    let kinds: Vec<_> = news.facts.iter().map(|fact| fact.payload.kind()).collect();
    assert_eq!(kinds, ["message_appended", "tool_started", "tool_ended"]);
}
