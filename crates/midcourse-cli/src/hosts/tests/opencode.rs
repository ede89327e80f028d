//! Tests of how captured payloads of the plugin for opencode are decoded.

use midcourse::Delivery;
use serde_json::{Value, json};

use super::captures::session;
use super::{Host, at, call_ends, deliveries, shown};

#[test]
fn tool_calls_of_opencode_are_decoded() {
    let payloads = session("opencode-1.18.33", "main-run");
    insta::assert_snapshot!(shown(Host::Opencode, &payloads), @r#"
    chat.message (no reply):
      S message_appended {"message":{"role":"user","content":"\"do it\""}}
    chat.messages.transform:
      S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake002_0","tool_name":"bash","args":{"command":"echo a; exit 3","description":"x"}}
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake002_1","tool_name":"bash","args":{"command":"echo b","description":"x"}}
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake002_2","tool_name":"read","args":{"filePath":"missing.txt"}}
    tool.execute.after (no reply):
      S tool_ended {"tool_call_id":"call_fake002_0","tool_name":"bash","result":{"content":[{"type":"text","text":"a\n"}],"is_error":true,"details":{"exit_code":3}},"is_…
    tool.execute.after (no reply):
      S tool_ended {"tool_call_id":"call_fake002_1","tool_name":"bash","result":{"content":[{"type":"text","text":"b\n"}]},"is_error":false}
    chat.messages.transform:
      S tool_started {"tool_call_id":"call_fake002_2","tool_name":"read","args":{"filePath":"missing.txt"}}
      S tool_ended {"tool_call_id":"call_fake002_2","tool_name":"read","result":{"content":[{"type":"text","text":"File not found: /home/user/project/missing.txt"}],"is_…
      S usage_reported {"usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
      S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake003_0","tool_name":"nosuch","args":{"tool":"nosuch","error":"Model tried to call unavailable tool 'nosuch'. Available tools:…
    tool.execute.after (no reply):
      S tool_ended {"tool_call_id":"call_fake003_0","tool_name":"nosuch","result":{"content":[{"type":"text","text":"The arguments provided to the tool are invalid: Mode…
    chat.messages.transform:
      S usage_reported {"usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
      S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake004_0","tool_name":"read","args":{}}
    chat.messages.transform:
      S tool_started {"tool_call_id":"call_fake004_0","tool_name":"read","args":{}}
      S tool_ended {"tool_call_id":"call_fake004_0","tool_name":"read","result":{"content":[{"type":"text","text":"The read tool was called with invalid arguments: Schem…
      S usage_reported {"usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
      S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake005_0","tool_name":"bash","args":{"command":"rm -rf zzz","description":"x"}}
    chat.messages.transform:
      S tool_started {"tool_call_id":"call_fake005_0","tool_name":"bash","args":{"command":"rm -rf zzz","description":"x"}}
      S denied {"tool_call_id":"call_fake005_0","tool_name":"bash","reason":"The user has specified a rule which prevents you from using this specific tool call. Her…
      S usage_reported {"usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
      S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake006_0","tool_name":"bash","args":{"command":"sleep 5","description":"x","timeout":300}}
    tool.execute.after (no reply):
      S tool_ended {"tool_call_id":"call_fake006_0","tool_name":"bash","result":{"content":[{"type":"text","text":"(no output)\n\n<shell_metadata>\nshell tool terminated…
    chat.messages.transform:
      S usage_reported {"usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
      S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake007_0","tool_name":"task","args":{"description":"d","prompt":"SUB do","subagent_type":"general"}}
    chat.message (no reply):
      ses_e1c472cd3ffeVnLi7fLf9i8Vbw.S message_appended {"message":{"role":"user","content":"SUB do"}}
    chat.messages.transform:
      ses_e1c472cd3ffeVnLi7fLf9i8Vbw.S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      ses_e1c472cd3ffeVnLi7fLf9i8Vbw.S tool_started {"tool_call_id":"call_fake008_0","tool_name":"bash","args":{"command":"echo sub","description":"x"}}
    tool.execute.after (no reply):
      ses_e1c472cd3ffeVnLi7fLf9i8Vbw.S tool_ended {"tool_call_id":"call_fake008_0","tool_name":"bash","result":{"content":[{"type":"text","text":"sub\n"}]},"is_error":false}
    chat.messages.transform:
      ses_e1c472cd3ffeVnLi7fLf9i8Vbw.S usage_reported {"usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
      ses_e1c472cd3ffeVnLi7fLf9i8Vbw.S turn_started {} pre_tool_selection
    session.idle (no reply):
      ses_e1c472cd3ffeVnLi7fLf9i8Vbw.S run_ended {"outcome":"completed","new_messages":[{"role":"assistant","content":[{"type":"text","text":"sub done"}],"stop_reason":"end_turn"}]}
    tool.execute.after (no reply):
      S tool_ended {"tool_call_id":"call_fake007_0","tool_name":"task","result":{"content":[{"type":"text","text":"<task id=\"ses_e1c471d62ffekd5OsAkjS14yqM\" state=\"co…
    chat.messages.transform:
      S usage_reported {"usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
      S turn_started {} pre_tool_selection
    session.idle (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    "#);
}

#[test]
fn a_refusal_that_ends_the_turn_of_opencode_is_decoded() {
    let payloads = session("opencode-1.18.33", "rejected");
    insta::assert_snapshot!(shown(Host::Opencode, &payloads), @r#"
    chat.message (no reply):
      S message_appended {"message":{"role":"user","content":"\"do it\""}}
    chat.messages.transform:
      S turn_started {} pre_tool_selection
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake002_0","tool_name":"bash","args":{"command":"echo a; exit 3","description":"x"}}
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake002_1","tool_name":"bash","args":{"command":"echo b","description":"x"}}
    tool.execute.before (no reply):
      S tool_started {"tool_call_id":"call_fake002_2","tool_name":"read","args":{"filePath":"/nonexist"}}
    tool.execute.after (no reply):
      S tool_ended {"tool_call_id":"call_fake002_0","tool_name":"bash","result":{"content":[{"type":"text","text":"a\n"}],"is_error":true,"details":{"exit_code":3}},"is_…
    tool.execute.after (no reply):
      S tool_ended {"tool_call_id":"call_fake002_1","tool_name":"bash","result":{"content":[{"type":"text","text":"b\n"}]},"is_error":false}
    session.idle (no reply):
      S tool_started {"tool_call_id":"call_fake002_2","tool_name":"read","args":{"filePath":"/nonexist"}}
      S denied {"tool_call_id":"call_fake002_2","tool_name":"read","reason":"The user rejected permission to use this specific tool call."}
    "#);
}

#[test]
fn failures_of_opencode_are_recognised() {
    let ends = call_ends(Host::Opencode, &session("opencode-1.18.33", "main-run"));
    let mut known: Vec<&str> = Vec::new();
    for end in ends.lines() {
        if !known.contains(&end) {
            known.push(end);
        }
    }
    insta::assert_snapshot!(known.join("\n"), @r#"
    call_fake002_0 bash failed
    call_fake002_1 bash ok
    call_fake002_2 read failed
    call_fake003_0 nosuch failed
    call_fake004_0 read failed
    call_fake005_0 bash denied
    call_fake006_0 bash failed
    call_fake008_0 bash ok
    call_fake007_0 task ok
    "#);
}

#[test]
fn the_plugin_gets_the_text_of_a_message() {
    let deliveries = deliveries(Host::Opencode);
    let text = Delivery::labelled_text(&deliveries).unwrap();
    for payload in session("opencode-1.18.33", "main-run") {
        let decoded = Host::Opencode.decode(payload.as_bytes(), at());
        let reply = Host::encode(&deliveries, decoded.reply.as_ref());
        if payload.contains("chat.messages.transform") {
            let reply: Value = serde_json::from_slice(&reply).unwrap();
            assert_eq!(reply, json!({ "text": text }));
        } else {
            assert_eq!(reply, b"", "{payload}");
        }
    }
    let payload = r#"{"session_id":"s","hook_event_name":"chat.messages.transform",
                      "after_message":"m","accepts_message":false}"#;
    let decoded = Host::Opencode.decode(payload.as_bytes(), at());
    assert_eq!((decoded.reply, decoded.events[0].decision_point), (None, None));
}
