//! Tests of how captured payloads of Gemini CLI are decoded, and of the reply to BeforeModel.

use midcourse::Delivery;
use serde_json::{Value, json};

use super::captures::session;
use super::{Host, at, call_ends, deliveries, folder, hook_event, shown};

#[test]
fn tool_calls_of_gemini_cli_are_decoded() {
    let payloads = session("gemini-cli-0.61.0", "main-run");
    insta::assert_snapshot!(shown(Host::Gemini, &payloads), @r#"
    SessionStart (no reply):
      S run_started {}
    BeforeAgent:
      S message_appended {"message":{"role":"user","content":"do it"}} pre_render
    PreCompress (no reply): nothing
    BeforeModel:
      S turn_started {} pre_tool_selection
    BeforeToolSelection (no reply): nothing
    AfterModel (no reply): nothing
    BeforeTool (no reply):
      S tool_started {"tool_call_id":"","tool_name":"run_shell_command","args":{"command":"echo hello","description":"x"}}
    AfterTool (no reply):
      S tool_ended {"tool_call_id":"","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"<untrusted_context>\nOutput: hello\nProcess Group PGID:…
    PreCompress (no reply): nothing
    BeforeModel:
      S turn_started {} pre_tool_selection
    BeforeToolSelection (no reply): nothing
    AfterModel (no reply): nothing
    BeforeTool (no reply):
      S tool_started {"tool_call_id":"","tool_name":"run_shell_command","args":{"command":"echo bad; exit 3","description":"x"}}
    AfterTool (no reply):
      S tool_ended {"tool_call_id":"","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"<untrusted_context>\nOutput: bad\nExit Code: 3\nProcess…
    PreCompress (no reply): nothing
    BeforeModel:
      S turn_started {} pre_tool_selection
    BeforeToolSelection (no reply): nothing
    AfterModel (no reply): nothing
    BeforeTool (no reply):
      S tool_started {"tool_call_id":"","tool_name":"read_file","args":{"file_path":"missing.txt"}}
    AfterTool (no reply):
      S tool_ended {"tool_call_id":"","tool_name":"read_file","result":{"content":[{"type":"text","text":"File not found: /home/user/project/missing.txt"}],"is_error":tr…
    PreCompress (no reply): nothing
    BeforeModel:
      S turn_started {} pre_tool_selection
    BeforeToolSelection (no reply): nothing
    AfterModel (no reply): nothing
    AfterAgent (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn failures_of_gemini_cli_are_recognised() {
    let ends = call_ends(Host::Gemini, &session("gemini-cli-0.61.0", "main-run"));
    insta::assert_snapshot!(ends, @r#"
    run_shell_command ok
    run_shell_command failed
    read_file failed
    "#);
}

#[test]
fn parallel_calls_of_gemini_cli_differ_in_their_times() {
    let payloads = session("gemini-cli-0.61.0", "parallel");
    let decoded = payloads.iter().map(|payload| Host::Gemini.decode(payload.as_bytes(), at()));
    let mut calls: Vec<_> = decoded.filter_map(|decoded| decoded.unnamed_call).collect();
    let starts = calls.iter().filter(|call| call.is_start).count();
    assert_eq!((calls.len(), starts), (10, 5));
    calls.sort_by_key(|call| (call.is_start, call.kind, call.time.clone()));
    calls.dedup();
    assert_eq!(calls.len(), 10, "{calls:?}");
    calls.dedup_by_key(|call| (call.is_start, call.kind));
    assert_eq!(calls.len(), 6, "three kinds of calls");
}

#[test]
fn a_message_for_gemini_cli_is_added_to_the_model_request() {
    let deliveries = deliveries(Host::Gemini);
    let text = Delivery::labelled_text(&deliveries).unwrap();
    for payload in session("gemini-cli-0.61.0", "main-run") {
        let decoded = Host::Gemini.decode(payload.as_bytes(), at());
        let reply = Host::encode(&deliveries, decoded.reply.as_ref());
        assert_eq!(Host::encode([], decoded.reply.as_ref()), b"");
        let name = hook_event(&payload);
        let output = match name.as_str() {
            "BeforeAgent" => json!({"hookEventName": name, "additionalContext": text}),
            "BeforeModel" => {
                let mut payload: Value = serde_json::from_str(&payload).unwrap();
                let mut messages = payload["llm_request"]["messages"].take();
                let message = json!({"role": "user", "content": text});
                messages.as_array_mut().unwrap().push(message);
                json!({"hookEventName": name, "llm_request": {"messages": messages}})
            }
            _ => {
                assert_eq!(reply, b"", "{name}");
                continue;
            }
        };
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!(reply, json!({"hookSpecificOutput": output}));
    }
}

#[test]
fn tokens_of_gemini_cli_are_in_its_transcript() {
    let payload = session("gemini-cli-0.61.0", "main-run").pop().unwrap();
    let file = folder("gemini-cli-0.61.0").join("main-run.transcript.jsonl");
    let decoded = Host::Gemini.decode(payload.as_bytes(), at());
    let decoded = Host::Gemini.add_transcript(decoded, &std::fs::read(file).unwrap(), true);
    let events = decoded.events.iter();
    let shown: Vec<String> =
        events.map(|event| serde_json::to_string(&event.payload).unwrap()).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    {"kind":"usage_reported","usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"usage_reported","usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"usage_reported","usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"usage_reported","usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"run_ended","outcome":"unknown","new_messages":[]}
    "#);
}
