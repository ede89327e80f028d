//! Tests of how captured payloads of Copilot CLI are decoded, in both forms.

use midcourse::Delivery;

use super::captures::session;
use super::{Host, at, call_ends, deliveries, hook_event, shown};

#[test]
fn tool_calls_of_copilot_cli_are_decoded() {
    let payloads = session("copilot-1.0.102", "main-run");
    insta::assert_snapshot!(shown(Host::Copilot, &payloads), @r#"
    SessionStart (no reply): nothing
    UserPromptSubmit:
      S message_appended {"message":{"role":"user","content":"do it"}} pre_render
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"","tool_name":"Bash","args":{"command":"echo hello","description":"x","mode":"sync"}}
    PostToolUse:
      S tool_ended {"tool_call_id":"","tool_name":"Bash","result":{"content":[{"type":"text","text":"hello\n<shellId: _ completed with exit code 0>"}]},"is_error":false} post_tool_result
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"","tool_name":"Bash","args":{"command":"echo bad; exit 3","description":"x","mode":"sync"}}
    PostToolUse:
      S tool_ended {"tool_call_id":"","tool_name":"Bash","result":{"content":[{"type":"text","text":"bad\n<shellId: _ completed with exit code 3>"}]},"is_error":false} post_tool_result
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"","tool_name":"Read","args":{"path":"/home/user/project/missing.txt"}}
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"","tool_name":"Read","result":{"content":[{"type":"text","text":"Path does not exist"}],"is_error":true},"is_error":true} post_tool_result
    Stop (no reply): nothing
    SessionEnd (no reply):
      S run_ended {"outcome":"completed","new_messages":[]}
    "#);
}

#[test]
fn payloads_of_copilot_cli_without_the_name_of_their_hook_event_are_decoded() {
    let payloads = session("copilot-1.0.102", "camel-case");
    insta::assert_snapshot!(shown(Host::Copilot, &payloads), @r#"
    unnamed:
      S message_appended {"message":{"role":"user","content":"do it"}} pre_render
    unnamed (no reply): nothing
    unnamed (no reply):
      S tool_started {"tool_call_id":"","tool_name":"bash","args":{"command":"echo hello","description":"x","mode":"sync"}}
    unnamed (no reply): nothing
    unnamed:
      S tool_ended {"tool_call_id":"","tool_name":"bash","result":{"content":[{"type":"text","text":"hello\n<shellId: _ completed with exit code 0>"}]},"is_error":false} post_tool_result
    unnamed (no reply):
      S tool_started {"tool_call_id":"","tool_name":"bash","args":{"command":"echo bad; exit 3","description":"x","mode":"sync"}}
    unnamed (no reply): nothing
    unnamed:
      S tool_ended {"tool_call_id":"","tool_name":"bash","result":{"content":[{"type":"text","text":"bad\n<shellId: _ completed with exit code 3>"}]},"is_error":false} post_tool_result
    unnamed (no reply):
      S tool_started {"tool_call_id":"","tool_name":"view","args":{"path":"/home/user/project/missing.txt"}}
    unnamed:
      S tool_ended {"tool_call_id":"","tool_name":"view","result":{"content":[{"type":"text","text":"Path does not exist"}],"is_error":true},"is_error":true} post_tool_result
    unnamed (no reply): nothing
    unnamed (no reply):
      S run_ended {"outcome":"completed","new_messages":[]}
    "#);
}

#[test]
fn a_subagent_of_copilot_cli_is_a_child_run() {
    let payloads = session("copilot-1.0.102", "subagent");
    insta::assert_snapshot!(shown(Host::Copilot, &payloads[12..]), @r#"
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"","tool_name":"Agent","args":{"description":"d","prompt":"SUB do","agent_type":"general-purpose","name":"n"}}
    unnamed (no reply): nothing
    UserPromptSubmit:
      1170cce6-bd35-4d8e-b56e-c0610bf06e83.S message_appended {"message":{"role":"user","content":"CTX-x\n\nSUB do"}} pre_render
    PreToolUse (no reply):
      1170cce6-bd35-4d8e-b56e-c0610bf06e83.S tool_started {"tool_call_id":"","tool_name":"Bash","args":{"command":"echo sub","description":"x","mode":"sync"}}
    PostToolUse:
      1170cce6-bd35-4d8e-b56e-c0610bf06e83.S tool_ended {"tool_call_id":"","tool_name":"Bash","result":{"content":[{"type":"text","text":"sub\n<shellId: _ completed with exit code 0>"}]},"is_error":false} post_tool_result
    Stop (no reply): nothing
    SubagentStop (no reply):
      S.e23f3afa-d5a9-4f5f-b283-dac60b9fd101 run_ended {"outcome":"completed","new_messages":[{"role":"assistant","content":[{"type":"text","text":"sub done"}],"stop_reason":"end_turn"}]}
    PostToolUse:
      S tool_ended {"tool_call_id":"","tool_name":"Agent","result":{"content":[{"type":"text","text":"sub done"}]},"is_error":false} post_tool_result
    Stop (no reply): nothing
    SessionEnd (no reply):
      S run_ended {"outcome":"completed","new_messages":[]}
    "#);
}

#[test]
fn failures_of_copilot_cli_are_recognised() {
    for (name, tools) in [
        ("main-run", ["Bash ok", "Bash failed", "Read failed"]),
        ("nested-output", ["Bash ok", "Bash failed", "Read failed"]),
        ("camel-case", ["bash ok", "bash failed", "view failed"]),
    ] {
        let ends = call_ends(Host::Copilot, &session("copilot-1.0.102", name));
        let ends: Vec<&str> = ends.lines().map(str::trim).collect();
        assert_eq!(ends, tools, "{name}");
    }
}

#[test]
fn equal_results_of_copilot_cli_have_equal_texts() {
    let payloads = session("copilot-1.0.102", "subagent");
    let ends = payloads.iter().filter(|payload| payload.contains("completed with exit code 3"));
    let ends = ends.map(|payload| Host::Copilot.decode(payload.as_bytes(), at()));
    let ends: Vec<_> = ends.map(|decoded| decoded.events[0].payload.clone()).collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[0], ends[1]);
}

#[test]
fn a_reply_to_copilot_cli_has_one_field() {
    let deliveries = deliveries(Host::Copilot);
    let text = Delivery::labelled_text(&deliveries).unwrap();
    let expected = format!("{{\"additionalContext\":{}}}", serde_json::to_string(&text).unwrap());
    for payload in session("copilot-1.0.102", "main-run") {
        let decoded = Host::Copilot.decode(payload.as_bytes(), at());
        let reply = Host::encode(&deliveries, decoded.reply.as_ref());
        let takes_message = matches!(
            hook_event(&payload).as_str(),
            "UserPromptSubmit" | "PostToolUse" | "PostToolUseFailure"
        );
        let expected = if takes_message { expected.as_str() } else { "" };
        assert_eq!(String::from_utf8(reply).unwrap(), expected, "{payload}");
    }
}
