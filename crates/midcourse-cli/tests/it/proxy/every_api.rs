//! What has to hold for all four model APIs: which bytes arrive at the model's server, for how long
//! a message is in the requests, and that a proxy that is restarted or cannot store anything does no
//! harm. The same agent speaks each API: it makes the same failing call again and again.

use midcourse::{LABEL, TrajectoryPayload, TrajectoryRecord};
use serde_json::{Value, json};

use super::server::{Server, send_json};
use super::{Proxy, command, configured, deliveries, kinds, replays_the_same, runs};

const RESULT: &str = "make: *** No rule to make target 'all'. Stop.";
const BUDGET: &str = "[budget]\ncalls = 2\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Messages,
    Chat,
    Responses,
    Gemini,
}

const APIS: [Api; 4] = [Api::Messages, Api::Chat, Api::Responses, Api::Gemini];

impl Api {
    /// The path after the access token.
    const fn path(self) -> &'static str {
        match self {
            Self::Messages => "/anthropic/v1/messages",
            Self::Chat => "/openai/chat/completions",
            Self::Responses => "/openai/responses",
            Self::Gemini => "/gemini/v1beta/models/gemini-2.5-pro:generateContent",
        }
    }

    fn of_request(head: &str) -> Self {
        let is_path = |api: &Self| head.contains(api.path().rsplit_once('/').unwrap().1);
        APIS.into_iter().find(is_path).unwrap()
    }

    fn message(self, role: &str, text: &str) -> Value {
        match (self, role) {
            (Self::Gemini, "assistant") => json!({"role": "model", "parts": [{"text": text}]}),
            (Self::Gemini, _) => json!({"role": role, "parts": [{"text": text}]}),
            _ => json!({"role": role, "content": text}),
        }
    }

    /// A failing call with the number `number`, and its result.
    fn call(self, number: usize) -> Vec<Value> {
        let id = format!("call_{number:012}");
        match self {
            Self::Messages => {
                let call = json!({"type": "tool_use", "id": id, "name": "shell", "input": {"command": "make"}});
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": RESULT});
                vec![
                    json!({"role": "assistant", "content": [call]}),
                    json!({"role": "user", "content": [result]}),
                ]
            }
            Self::Chat => {
                let function = json!({"name": "shell", "arguments": r#"{"command":"make"}"#});
                let call = json!({"id": id, "type": "function", "function": function});
                vec![
                    json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                    json!({"role": "tool", "tool_call_id": id, "content": RESULT}),
                ]
            }
            Self::Responses => vec![
                json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"}),
                json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": r#"{"command":"make"}"#}),
                json!({"type": "function_call_output", "call_id": id, "output": RESULT}),
            ],
            // Gemini's calls need no ids.
            Self::Gemini => {
                let call = json!({"functionCall": {"name": "shell", "args": {"command": "make"}}, "thoughtSignature": "c2ln"});
                let result =
                    json!({"functionResponse": {"name": "shell", "response": {"output": RESULT}}});
                vec![
                    json!({"role": "model", "parts": [call]}),
                    json!({"role": "user", "parts": [result]}),
                ]
            }
        }
    }

    fn body(self, messages: &[Value], has_tools: bool) -> Value {
        let (field, tools) = match self {
            Self::Messages => ("messages", json!([{"name": "shell", "input_schema": {}}])),
            Self::Chat => {
                ("messages", json!([{"type": "function", "function": {"name": "shell"}}]))
            }
            Self::Responses => ("input", json!([{"type": "function", "name": "shell"}])),
            Self::Gemini => ("contents", json!([{"functionDeclarations": [{"name": "shell"}]}])),
        };
        let mut body = json!({"model": "m", field: messages});
        if self == Self::Gemini {
            body = json!({field: messages});
        }
        if self == Self::Responses {
            body["store"] = json!(false);
        }
        if has_tools {
            body["tools"] = tools;
        }
        body
    }

    /// A response with a text, or with the call of this number.
    fn response(self, text: Option<&str>, number: usize) -> Value {
        let id = format!("call_{number:012}");
        match (self, text) {
            (Self::Messages, Some(text)) => {
                json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 3, "output_tokens": 4}})
            }
            (Self::Messages, None) => {
                json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
                "content": [{"type": "tool_use", "id": id, "name": "shell", "input": {"command": "make"}}],
                "usage": {"input_tokens": 3, "output_tokens": 4}})
            }
            (Self::Chat, Some(text)) => {
                json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
            }
            (Self::Chat, None) => {
                let function = json!({"name": "shell", "arguments": r#"{"command":"make"}"#});
                let call = json!({"id": id, "type": "function", "function": function});
                json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}]})
            }
            (Self::Responses, Some(text)) => {
                json!({"id": format!("resp_{number}"), "status": "completed", "output":
                [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]})
            }
            (Self::Responses, None) => {
                json!({"id": format!("resp_{number}"), "status": "completed", "output":
                [{"type": "function_call", "call_id": id, "name": "shell", "arguments": r#"{"command":"make"}"#}]})
            }
            (Self::Gemini, Some(text)) => json!({"candidates":
                [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}),
            (Self::Gemini, None) => json!({"candidates": [{"content": {"role": "model", "parts":
                [{"functionCall": {"name": "shell", "args": {"command": "make"}}}]}, "finishReason": "STOP"}]}),
        }
    }

    /// A server whose model makes the same call in every response, or says `text`.
    fn server(text: Option<&'static str>) -> Server {
        Server::start(move |number, request, out| {
            let api = Self::of_request(&request.head);
            send_json(out, 200, &api.response(text, number + 1));
        })
    }
}

fn post(proxy: &Proxy, api: Api, body: &Value) {
    let reply = proxy.send("POST", api.path(), "host: x\r\n", body.to_string().as_bytes());
    assert!(reply.is_whole && reply.head.contains(" 200 "), "{api:?}: {}", reply.head);
}

/// The body without the texts that begin with midcourse's label, and how many these are.
fn without_messages(body: &str) -> (String, usize) {
    let label = json!(LABEL).to_string().trim_matches('"').to_owned();
    let (mut rest, mut count) = (body.to_owned(), 0);
    while let Some((before, after)) = rest.split_once(&label) {
        // The text of the message ends at the first quote that is not escaped.
        let mut escaped = false;
        let end = after.find(|c| {
            let is_end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        });
        let after = after.get(end.unwrap() + 1..).unwrap();
        // The text is at the end of another text, or an object of its own.
        let objects =
            [r#",{"type":"text","text":""#, r#",{"type":"input_text","text":""#, r#",{"text":""#];
        let start = objects.iter().find_map(|object| before.strip_suffix(object));
        let cut = match start {
            Some(start) => format!("{start}{}", after.strip_prefix('}').unwrap()),
            None => format!("{}\"{after}", before.strip_suffix(r"\n\n").unwrap()),
        };
        (rest, count) = (cut, count + 1);
    }
    (rest, count)
}

fn count(run: &[TrajectoryRecord], kind: &str) -> usize {
    kinds(run).iter().filter(|known| **known == kind).count()
}

#[test]
fn guidance_is_in_one_request_feedback_in_all_later_ones_and_no_other_byte_changes() {
    for api in APIS {
        let server = Api::server(None);
        let proxy = Proxy::start(&server, BUDGET);
        let mut messages = vec![api.message("user", "build it")];
        let mut sent = Vec::new();
        for number in 1..8 {
            let body = api.body(&messages, true);
            post(&proxy, api, &body);
            sent.push(body.to_string());
            messages.extend(api.call(number));
        }
        let folder = proxy.stop();
        let runs_of_api = runs(&folder);
        let [run] = runs_of_api.as_slice() else { panic!("{api:?}: {} runs", runs_of_api.len()) };
        assert_eq!((count(run, "tool_started"), count(run, "tool_ended")), (7, 6), "{api:?}");
        let (guidance, feedback): (Vec<_>, Vec<_>) =
            deliveries(run).into_iter().partition(|(is_guidance, _)| *is_guidance);
        assert!(!guidance.is_empty() && !feedback.is_empty(), "{api:?}");
        let arrived = server.bodies();
        for (arrived, sent) in arrived.iter().zip(&sent) {
            assert_eq!(without_messages(arrived).0, *sent, "{api:?}");
        }
        let times = |text: &str| -> Vec<usize> {
            let text = json!(text).to_string();
            let text = text.trim_matches('"');
            arrived.iter().map(|body| body.matches(text).count()).collect()
        };
        for (_, text) in &guidance {
            assert_eq!(times(text).iter().sum::<usize>(), 1, "{api:?}: {text}");
        }
        for (_, text) in &feedback {
            let times = times(text);
            let first = times.iter().position(|times| *times > 0).unwrap();
            assert!(times[first..].iter().all(|times| *times == 1), "{api:?}: {text} {times:?}");
        }
        replays_the_same(&folder);
    }
}

#[test]
fn a_restarted_proxy_continues_the_same_run() {
    for api in APIS {
        let server = Api::server(None);
        let mut folder = configured(BUDGET);
        let mut messages = vec![api.message("user", "build it")];
        for number in 1..6 {
            let proxy = Proxy::start_in(folder, server.address);
            post(&proxy, api, &api.body(&messages, true));
            folder = proxy.stop();
            messages.extend(api.call(number));
        }
        let runs = runs(&folder);
        let [run] = runs.as_slice() else { panic!("{api:?}: {} runs", runs.len()) };
        assert_eq!((count(run, "tool_started"), count(run, "tool_ended")), (5, 4), "{api:?}");
        let messages = server.bodies().iter().map(|body| without_messages(body).1).max();
        assert!(messages > Some(1), "{api:?}: the feedback is repeated");
    }
}

#[test]
fn a_store_that_cannot_be_opened_changes_nothing() {
    for api in APIS {
        let server = Api::server(None);
        let folder = tempfile::tempdir().unwrap();
        // A file is in the place of the data directory.
        std::fs::write(folder.path().join("midcourse"), "no folder").unwrap();
        let proxy = Proxy::start_in(folder, server.address);
        let mut messages = vec![api.message("user", "build it")];
        for number in 1..6 {
            let body = api.body(&messages, true);
            post(&proxy, api, &body);
            assert_eq!(server.bodies().last(), Some(&body.to_string()), "{api:?}");
            messages.extend(api.call(number));
        }
    }
}

#[test]
fn requests_of_another_form_pass_unchanged() {
    let bodies: [&[u8]; 10] = [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"{\"messages\":7,\"input\":{},\"contents\":\"x\"}",
        b"{\"messages\":[{}],\"input\":[{}],\"contents\":[{}]}",
        b"{\"messages\":[{\"role\":\"user\"}],\"input\":[{\"type\":\"function_call_output\"}],\"contents\":[{\"parts\":[{\"functionCall\":{}}]}]}",
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}],\"input\":\"\\ud800\",\"contents\":[{\"parts\":[{\"text\":\"\\ud800\"}]}]}",
        b"\xff\xfe{\"messages\"",
        b"{\"messages\":[],\"input\":[],\"contents\":[]} trailing",
    ];
    for api in APIS {
        let server = Api::server(Some("ok"));
        let proxy = Proxy::start(&server, BUDGET);
        for body in bodies {
            let reply = proxy.send("POST", api.path(), "host: x\r\n", body);
            assert!(reply.is_whole && reply.head.contains(" 200 "), "{api:?}: {}", reply.head);
            assert_eq!(server.received().last().unwrap().body, body, "{api:?}");
        }
        let folder = proxy.stop();
        let verified = command(&folder).arg("verify").output().unwrap();
        assert!(verified.status.success(), "{api:?}");
    }
}

#[test]
fn a_loop_of_actions_in_text_is_noticed() {
    let said = "I build it.\n\n```bash\nmake\n```";
    for api in APIS {
        let server = Api::server(Some("I build it.\n\n```bash\nmake\n```"));
        let proxy = Proxy::start(&server, "");
        let mut messages = vec![api.message("user", "build it")];
        let mut sent = Vec::new();
        for _ in 0..6 {
            let body = api.body(&messages, false);
            post(&proxy, api, &body);
            sent.push(body.to_string());
            messages.push(api.message("assistant", said));
            messages.push(api.message("user", &format!("<returncode>2</returncode>\n{RESULT}")));
        }
        let folder = proxy.stop();
        let runs = runs(&folder);
        let [run] = runs.as_slice() else { panic!("{api:?}: {} runs", runs.len()) };
        assert_eq!((count(run, "tool_started"), count(run, "tool_ended")), (5, 5), "{api:?}");
        let arrived = server.bodies();
        let changed: Vec<usize> = (0..6).filter(|n| arrived[*n] != sent[*n]).collect();
        let [changed] = changed.as_slice() else { panic!("{api:?}: changed {changed:?}") };
        assert_eq!(without_messages(&arrived[*changed]), (sent[*changed].clone(), 1));
        replays_the_same(&folder);
    }
}

#[test]
fn a_budget_is_told_without_tool_results_and_tokens_are_estimated() {
    for api in APIS {
        let server = Api::server(Some("I think about it."));
        let proxy = Proxy::start(&server, "[budget]\ntokens = 40\n");
        let mut messages = vec![api.message("user", "think about it")];
        for number in 0..8 {
            post(&proxy, api, &api.body(&messages, false));
            messages.push(api.message("assistant", "I think about it."));
            messages.push(api.message("user", &format!("{number}: go on")));
        }
        let folder = proxy.stop();
        let runs = runs(&folder);
        let [run] = runs.as_slice() else { panic!("{api:?}: {} runs", runs.len()) };
        let told = deliveries(run);
        assert!(!told.is_empty(), "{api:?}");
        let arrived = server.bodies();
        for (_, text) in &told {
            let text = json!(text).to_string();
            let count = arrived.iter().filter(|body| body.contains(text.trim_matches('"'))).count();
            assert_eq!(count, 1, "{api:?}: {text}");
        }
        // Only the Messages server of this test reports token counts.
        let is_estimate = run.iter().any(|record| match &record.payload {
            TrajectoryPayload::MessageAppended { message } => {
                matches!(message, midcourse::AgentMessage::Assistant { usage: Some(usage), .. } if usage.is_estimate)
            }
            _ => false,
        });
        assert_eq!(is_estimate, api != Api::Messages, "{api:?}");
        let says_about = told.iter().any(|(_, text)| text.contains("about "));
        assert_eq!(says_about, api != Api::Messages, "{api:?}: {told:?}");
    }
}

#[test]
fn a_conversation_that_the_server_keeps_is_one_run_with_limits() {
    let server = Api::server(None);
    let proxy = Proxy::start(&server, "");
    post(
        &proxy,
        Api::Responses,
        &json!({"model": "m", "input": "build it", "tools": [{"type": "function", "name": "shell"}]}),
    );
    let mut guided = 0;
    for number in 1..8 {
        let result = json!({"type": "function_call_output", "call_id": format!("call_{number:012}"), "output": RESULT});
        let body = json!({"model": "m", "previous_response_id": format!("resp_{number}"), "input": [result],
                          "tools": [{"type": "function", "name": "shell"}]});
        post(&proxy, Api::Responses, &body);
        guided += without_messages(server.bodies().last().unwrap()).1;
    }
    let folder = proxy.stop();
    let runs = runs(&folder);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!((count(run, "tool_started"), count(run, "tool_ended")), (8, 7));
    assert_eq!((count(run, "context_compacted"), deliveries(run).len()), (0, guided));
    assert!(guided > 0);
    let kept = run.iter().filter(|record| {
        matches!(
            record.payload,
            TrajectoryPayload::ProviderRequestPrepared { kept_by_server: true, .. }
        )
    });
    assert_eq!(kept.count(), 8);
    replays_the_same(&folder);
}
