//! Tests of how captured payloads of Claude Code are decoded.

use super::captures::session;
use super::{Host, shown};

/// The payloads with these indices from the captured session `main-run`.
fn chosen(indices: &[usize]) -> Vec<String> {
    let payloads = session("claude-code-2.1.325", "main-run");
    indices.iter().map(|index| payloads[*index].clone()).collect()
}

#[test]
fn tool_calls_of_claude_code_are_decoded() {
    let payloads = chosen(&[0, 1, 2, 3, 4, 5, 6, 8, 11, 14, 15, 19, 20, 21, 22, 23]);
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads), @r#"
    SessionStart:
      S run_started {} pre_render
    InstructionsLoaded (no reply): nothing
    UserPromptSubmit:
      S message_appended {"message":{"role":"user","content":"MAIN-TASK: do the scripted thing"}} pre_render
    MessageDisplay (no reply): nothing
    PreToolUse:
      S tool_started {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","args":{"command":"echo hello","description":"say hello"}} pre_tool_execution
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"hello"}]},"is_error":false} post_tool_result
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","args":{"command":"echo hello","description":"say hello"}}
      S denied {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","reason":"hello"}
      S turn_started {} pre_tool_selection
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_fake0002_0","tool_name":"Write","result":{"content":[{"type":"text","text":"File created successfully at: /home/user/project/ne… post_tool_result
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_fake0003_0","tool_name":"Read","result":{"content":[{"type":"text","text":"hi\n"}]},"is_error":false} post_tool_result
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"toolu_fake0004_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"Exit code 3\nout\nerr"}],"is_error":true},"is_error"… post_tool_result
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0004_0","tool_name":"Bash","args":{"command":"echo out; echo err >&2; exit 3","description":"fail"}}
      S denied {"tool_call_id":"toolu_fake0004_0","tool_name":"Bash","reason":"Exit code 3\nout\nerr"}
      S turn_started {} pre_tool_selection
    PreToolUse:
      S tool_started {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","args":{"command":"echo a","description":"par1"}} pre_tool_execution
    PreToolUse:
      S tool_started {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","args":{"command":"echo b","description":"par2"}} pre_tool_execution
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"a"}]},"is_error":false} post_tool_result
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"b"}]},"is_error":false} post_tool_result
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","args":{"command":"echo a","description":"par1"}}
      S denied {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","reason":"a"}
      S tool_started {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","args":{"command":"echo b","description":"par2"}}
      S denied {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","reason":"b"}
      S turn_started {} pre_tool_selection
    "#);
}

#[test]
fn a_subagent_of_claude_code_is_a_child_run() {
    let payloads = chosen(&[24, 25, 26, 28, 30, 31, 32, 35, 58, 77]);
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads), @r#"
    PreToolUse:
      S tool_started {"tool_call_id":"toolu_fake0007_0","tool_name":"Agent","args":{"description":"sub","prompt":"SUBAGENT-TASK do it","subagent_type":"general-purpose"}} pre_tool_execution
    SubagentStart (no reply):
      S.a60b8f77967243656 run_started {}
    PostToolUse:
      S tool_ended {"tool_call_id":"toolu_fake0007_0","tool_name":"Agent","result":{"content":[{"type":"text","text":"{\"isAsync\":true,\"status\":\"async_launched\",\"a… post_tool_result
    PreToolUse:
      S.a60b8f77967243656 tool_started {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","args":{"command":"echo in-subagent","description":"sub echo"}} pre_tool_execution
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    PostToolUse:
      S.a60b8f77967243656 tool_ended {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"in-subagent"}]},"is_error":false} post_tool_result
    PostToolBatch:
      S.a60b8f77967243656 tool_started {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","args":{"command":"echo in-subagent","description":"sub echo"}}
      S.a60b8f77967243656 denied {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","reason":"in-subagent"}
      S.a60b8f77967243656 turn_started {} pre_tool_selection
    SubagentStop (no reply):
      S.a60b8f77967243656 run_ended {"outcome":"completed","new_messages":[{"role":"assistant","content":[{"type":"text","text":"subagent finished"}],"stop_reason":"end_turn"}]}
    UserPromptSubmit:
      S message_appended {"message":{"role":"custom","kind":"task_notification","payload":"<task-notification>\n<task-id>a60b8f77967243656</task-id>\n<tool-use-id>toolu_fake00… pre_render
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn a_refusal_is_in_the_batch_only() {
    let payloads = session("claude-code-2.1.325", "permission-denied");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads[2..]), @r#"
    PreToolUse:
      S tool_started {"tool_call_id":"toolu_fake0001_0","tool_name":"Bash","args":{"command":"touch /home/user/project/.scratch/x && rm -rf zzz","description":"t"}} pre_tool_execution
    PermissionRequest (no reply): nothing
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0001_0","tool_name":"Bash","args":{"command":"touch /home/user/project/.scratch/x && rm -rf zzz","description":"t"}}
      S denied {"tool_call_id":"toolu_fake0001_0","tool_name":"Bash","reason":"This Bash command contains multiple operations. The following parts require approval: …
      S turn_started {} pre_tool_selection
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"fin"}],"stop_reason":"end_turn"}}
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn a_call_that_could_not_be_made_is_in_the_batch_only() {
    let payloads = session("claude-code-2.1.325", "calls-not-made");
    let batches: Vec<String> = payloads
        .into_iter()
        .filter(|payload| payload.contains("PostToolBatch") && payload.contains("<tool_use_error>"))
        .collect();
    insta::assert_snapshot!(shown(Host::ClaudeCode, &batches), @r#"
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0006_0","tool_name":"Read","args":{}}
      S tool_ended {"tool_call_id":"toolu_fake0006_0","tool_name":"Read","result":{"content":[{"type":"text","text":"<tool_use_error>InputValidationError: Read failed du…
      S turn_started {} pre_tool_selection
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0007_0","tool_name":"NoSuchTool","args":{"a":1}}
      S tool_ended {"tool_call_id":"toolu_fake0007_0","tool_name":"NoSuchTool","result":{"content":[{"type":"text","text":"<tool_use_error>Error: No such tool available:…
      S turn_started {} pre_tool_selection
    "#);
}

#[test]
fn a_prompt_that_the_client_writes_is_not_from_the_user() {
    let payloads = session("claude-code-2.1.325", "background-bash");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads[7..9]), @r#"
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","args":{"command":"sleep 3; echo fg","description":"fg"}}
      S denied {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","reason":"fg"}
      S turn_started {} pre_tool_selection
    UserPromptSubmit:
      S message_appended {"message":{"role":"custom","kind":"task_notification","payload":"<task-notification>\n<task-id>bvtw2b17c</task-id>\n<tool-use-id>toolu_fake0001_0</to… pre_render
    "#);
}

#[test]
fn resuming_and_compacting_a_session_is_recorded() {
    let payloads = session("claude-code-2.1.325", "resume-and-compact");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads), @r#"
    SessionStart:
      S run_started {} pre_render
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    SessionStart:
      S resumed {} pre_render
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    SessionStart:
      S resumed {} pre_render
    PreCompact (no reply): nothing
    SubagentStop (no reply): nothing
    SessionStart:
      S context_compacted {} pre_render
    PostCompact (no reply): nothing
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    SessionStart:
      S resumed {} pre_render
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn an_older_claude_code_is_decoded_in_the_same_way() {
    let payloads = session("claude-code-2.1.197", "main-run");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads[5..]), @r#"
    PreToolUse:
      S tool_started {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","args":{"command":"exit 3","description":"f"}} pre_tool_execution
    PostToolUseFailure:
      S tool_ended {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"Exit code 3"}],"is_error":true},"is_error":true} post_tool_result
    PostToolBatch:
      S tool_started {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","args":{"command":"exit 3","description":"f"}}
      S denied {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","reason":"Exit code 3"}
      S turn_started {} pre_tool_selection
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}
