//! Tests of how captured payloads of Qwen Code are decoded.

use super::captures::session;
use super::{Host, at, call_ends, folder, shown};

#[test]
fn tool_calls_of_qwen_code_are_decoded() {
    let payloads = session("qwen-code-0.24.4", "main-run");
    insta::assert_snapshot!(shown(Host::Qwen, &payloads), @r#"
    SessionStart:
      S run_started {} pre_render
    Notification (no reply): nothing
    UserPromptSubmit:
      S message_appended {"message":{"role":"user","content":"do it"}} pre_render
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"call_fake001_0","tool_name":"run_shell_command","args":{"command":"echo hello","is_background":false}}
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake001_0","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"Command: echo hello\nDirectory: (root)\nO… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"call_fake002_0","tool_name":"run_shell_command","args":{"command":"echo bad; exit 3","is_background":false}}
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"call_fake002_0","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"Command: echo bad; exit 3\nDirectory: (ro… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"call_fake003_0","tool_name":"read_file","args":{"file_path":"/home/user/project/missing.txt"}}
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"call_fake003_0","tool_name":"read_file","result":{"content":[{"type":"text","text":"File not found: /home/user/project/missing.txt"}]… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    "#);
}

#[test]
fn releases_of_qwen_code_without_call_ids_are_decoded() {
    let payloads = session("qwen-code-0.15.10", "main-run");
    insta::assert_snapshot!(shown(Host::Qwen, &payloads), @r#"
    Notification (no reply): nothing
    UserPromptSubmit:
      S message_appended {"message":{"role":"user","content":"do it"}} pre_render
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"toolu_1794726663481_vnn4i71se","tool_name":"run_shell_command","args":{"command":"echo hello","is_background":false}}
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_1794726663481_vnn4i71se","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"Command: echo hello\nDirec… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"toolu_1794726664771_mmaep1jiv","tool_name":"run_shell_command","args":{"command":"echo bad; exit 3","is_background":false}}
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_1794726664771_mmaep1jiv","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"Command: echo bad; exit 3\… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"toolu_1794726665729_j2wd61pjo","tool_name":"read_file","args":{"file_path":"/home/user/project/missing.txt"}}
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"toolu_1794726665729_j2wd61pjo","tool_name":"read_file","result":{"content":[{"type":"text","text":"File not found: /home/user/project… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    "#);
}

#[test]
fn calls_that_qwen_code_did_not_run_are_in_the_batch() {
    let payloads = session("qwen-code-0.24.4", "refusals");
    insta::assert_snapshot!(shown(Host::Qwen, &payloads), @r#"
    SessionStart:
      S run_started {} pre_render
    UserPromptSubmit:
      S message_appended {"message":{"role":"user","content":"do it"}} pre_render
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake001_0","tool_name":"run_shell_command","args":{"command":"echo hello","is_background":false}}
      S denied {"tool_call_id":"call_fake001_0","tool_name":"run_shell_command","reason":"Qwen Code requires permission to use \"run_shell_command\", but that permis… post_tool_result
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake001_1","tool_name":"run_shell_command","args":{"command":"touch x; exit 3","is_background":false}}
      S denied {"tool_call_id":"call_fake001_1","tool_name":"run_shell_command","reason":"Qwen Code requires permission to use \"run_shell_command\", but that permis… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake002_0","tool_name":"nosuch","args":{}}
      S tool_ended {"tool_call_id":"call_fake002_0","tool_name":"nosuch","result":{"content":[{"type":"text","text":"Tool \"nosuch\" not found in registry. Tools must us… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake003_0","tool_name":"read_file","args":{}}
      S tool_ended {"tool_call_id":"call_fake003_0","tool_name":"read_file","result":{"content":[{"type":"text","text":"params must have required property 'file_path'"}]… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake004_0","tool_name":"read_file","args":{"file_path":"/nonexist/x"}}
      S denied {"tool_call_id":"call_fake004_0","tool_name":"read_file","reason":"Qwen Code requires permission to use \"read_file\", but that permission was decline… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake005_0","tool_name":"agent","args":{"description":"d","prompt":"SUB do","subagent_type":"general-purpose"}}
      S denied {"tool_call_id":"call_fake005_0","tool_name":"agent","reason":"Qwen Code requires permission to use \"agent\", but that permission was declined (non-i… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake006_0","tool_name":"run_shell_command","args":{"command":"echo sub","is_background":false}}
      S denied {"tool_call_id":"call_fake006_0","tool_name":"run_shell_command","reason":"Qwen Code requires permission to use \"run_shell_command\", but that permis… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"sub done"}],"stop_reason":"end_turn"}}
    "#);
}

#[test]
fn a_subagent_of_qwen_code_is_a_child_run() {
    let payloads = session("qwen-code-0.24.4", "subagent");
    insta::assert_snapshot!(shown(Host::Qwen, &payloads), @r#"
    SessionStart:
      S run_started {} pre_render
    UserPromptSubmit:
      S message_appended {"message":{"role":"user","content":"do it"}} pre_render
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"call_fake001_0","tool_name":"run_shell_command","args":{"command":"echo hello","is_background":false}}
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake001_0","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"Command: echo hello\nDirectory: (root)\nO… post_tool_result
    PostToolBatch (no reply): nothing
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"call_fake001_1","tool_name":"run_shell_command","args":{"command":"touch x; exit 3","is_background":false}}
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"call_fake001_1","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"Command: touch x; exit 3\nDirectory: (roo… post_tool_result
    PostToolBatch (no reply): nothing
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake002_0","tool_name":"nosuch","args":{}}
      S tool_ended {"tool_call_id":"call_fake002_0","tool_name":"nosuch","result":{"content":[{"type":"text","text":"Tool \"nosuch\" not found in registry. Tools must us… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolBatch:
      S tool_started {"tool_call_id":"call_fake003_0","tool_name":"read_file","args":{}}
      S tool_ended {"tool_call_id":"call_fake003_0","tool_name":"read_file","result":{"content":[{"type":"text","text":"params must have required property 'file_path'"}]… post_tool_result
    UserPromptSubmit (no reply):
      S turn_started {}
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"call_fake004_0","tool_name":"read_file","args":{"file_path":"/nonexist/x"}}
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"call_fake004_0","tool_name":"read_file","result":{"content":[{"type":"text","text":"File not found: /nonexist/x"}],"is_error":true},"… post_tool_result
    PostToolBatch (no reply): nothing
    UserPromptSubmit (no reply):
      S turn_started {}
    PreToolUse (no reply):
      S tool_started {"tool_call_id":"call_fake005_0","tool_name":"agent","args":{"description":"d","prompt":"SUB do","subagent_type":"general-purpose"}}
    SubagentStart (no reply):
      S.general-purpose-call_fake005_0 run_started {}
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake005_0","tool_name":"agent","result":{"content":[{"type":"text","text":"Background agent launched successfully.\ntask_id: gen… post_tool_result
    PostToolBatch (no reply): nothing
    PreToolUse (no reply):
      S.general-purpose-call_fake005_0 tool_started {"tool_call_id":"call_fake006_0","tool_name":"run_shell_command","args":{"command":"echo sub","is_background":false}}
    UserPromptSubmit (no reply):
      S turn_started {}
    PostToolUse:
      S.general-purpose-call_fake005_0 tool_ended {"tool_call_id":"call_fake006_0","tool_name":"run_shell_command","result":{"content":[{"type":"text","text":"Command: echo sub\nDirectory: (root)\nOut… post_tool_result
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"sub done"}],"stop_reason":"end_turn"}}
    PostToolBatch (no reply): nothing
    SubagentStop (no reply):
      S.general-purpose-call_fake005_0 run_ended {"outcome":"completed","new_messages":[{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}]}
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All done."}],"stop_reason":"end_turn"}}
    "#);
}

#[test]
fn tokens_of_qwen_code_are_in_its_transcript() {
    let payload = session("qwen-code-0.24.4", "main-run").pop().unwrap();
    let tail = std::fs::read(folder("qwen-code-0.24.4").join("main-run.transcript.jsonl")).unwrap();
    let decoded = Host::Qwen.decode(payload.as_bytes(), at());
    let kinds: Vec<String> = Host::Qwen
        .add_transcript(decoded, &tail, true)
        .events
        .iter()
        .map(|event| serde_json::to_string(&event.payload).unwrap())
        .collect();
    insta::assert_snapshot!(kinds.join("\n"), @r#"
    {"kind":"usage_reported","usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"usage_reported","usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"usage_reported","usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"usage_reported","usage":{"input_tokens":500,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    {"kind":"message_appended","message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    "#);
}

#[test]
fn failures_of_qwen_code_are_recognised() {
    for client in ["qwen-code-0.24.4", "qwen-code-0.15.10"] {
        let ends = call_ends(Host::Qwen, &session(client, "main-run"));
        let ends: Vec<&str> =
            ends.lines().filter_map(|line| line.split_once(' ')).map(|it| it.1).collect();
        assert_eq!(ends, ["run_shell_command ok", "run_shell_command failed", "read_file failed"]);
    }
}
