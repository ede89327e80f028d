//! Tests of how captured payloads of Codex are decoded, and what the rollout adds.

use std::fmt::Write as _;

use midcourse::TrajectoryPayload;

use super::captures::{rollout_at, session};
use super::{Host, at, hook_event, shown};

#[test]
fn tool_calls_of_codex_are_decoded() {
    let payloads = session("codex-0.166.0", "main-run");
    insta::assert_snapshot!(shown(Host::Codex, &payloads), @r#"
    SessionStart:
      S run_started {} pre_render
    UserPromptSubmit:
      S message_appended {"message":{"role":"user","content":"do the scripted thing"}} pre_render
    PreToolUse:
      S tool_started {"tool_call_id":"call_fake001_1","tool_name":"Bash","args":{"command":"echo hello"}} pre_tool_execution
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake001_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"hello\n"}]},"is_error":false} pre_tool_selection
    PreToolUse:
      S tool_started {"tool_call_id":"call_fake002_0","tool_name":"Bash","args":{"command":"echo out; echo err >&2; exit 3"}} pre_tool_execution
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake002_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"out\nerr\n"}]},"is_error":false} pre_tool_selection
    PreToolUse:
      S tool_started {"tool_call_id":"call_fake004_0","tool_name":"Bash","args":{"command":"echo a"}} pre_tool_execution
    PreToolUse:
      S tool_started {"tool_call_id":"call_fake004_1","tool_name":"Bash","args":{"command":"echo b"}} pre_tool_execution
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake004_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"a\n"}]},"is_error":false} pre_tool_selection
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake004_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"b\n"}]},"is_error":false} pre_tool_selection
    Stop (no reply):
      S message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn patches_and_interrupts_of_codex_are_decoded() {
    let mut payloads = session("codex-0.166.0", "apply_patch-ok-then-fail");
    payloads.extend_from_slice(&session("codex-0.166.0", "sigint")[3..]);
    insta::assert_snapshot!(shown(Host::Codex, &payloads), @r#"
    PreToolUse:
      S tool_started {"tool_call_id":"call_fake001_0","tool_name":"apply_patch","args":{"command":"*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"}} pre_tool_execution
    PostToolUse:
      S tool_ended {"tool_call_id":"call_fake001_0","tool_name":"apply_patch","result":{"content":[{"type":"text","text":"Exit code: 0\nWall time: 0 seconds\nOutput:\nSu… pre_tool_selection
    PreToolUse:
      S tool_started {"tool_call_id":"call_fake002_0","tool_name":"apply_patch","args":{"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"… pre_tool_execution
    Interrupt (no reply):
      S message_appended {"message":{"role":"custom","kind":"interrupt","payload":null}}
    SessionEnd (no reply):
      S run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn the_rollout_adds_exit_codes_and_calls_that_no_hook_reports() {
    let (name, mut shown) = ("calls-without-hooks", String::new());
    for payload in session("codex-0.166.0", name) {
        let decoded = Host::Codex.decode(payload.as_bytes(), at());
        // Skip the two hook events at which Codex's transcript adds only token usage, which this
        // test does not show.
        let begins = matches!(hook_event(&payload).as_str(), "SessionStart" | "UserPromptSubmit");
        if decoded.transcript.is_none() || begins {
            continue;
        }
        let tail = rollout_at(name, &payload);
        let decoded = Host::Codex.add_transcript(decoded, tail.as_bytes(), false);
        let _ = writeln!(shown, "{}", hook_event(&payload));
        for event in decoded.events {
            let call = event.payload.call_id().map_or("", |id| id.as_str());
            let rest = match &event.payload {
                TrajectoryPayload::ToolStarted { args, .. } => args.to_string(),
                TrajectoryPayload::ToolEnded { result, is_error, .. } => {
                    format!("{is_error} {:?}", result.comparable_text())
                }
                _ => String::new(),
            };
            let channel = event.source.channel().as_str();
            let _ = writeln!(shown, "  {channel} {} {call} {rest}", event.payload.kind());
        }
    }
    insta::assert_snapshot!(shown.replace("  \n", "\n"), @r#"
    PreToolUse
      hook tool_started call_fake001_0 {"command":"ls nosuch"}
    PostToolUse
      hook tool_ended call_fake001_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      hook tool_started call_fake002_0 {"command":"ls nosuch"}
    PostToolUse
      hook tool_ended call_fake002_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      hook tool_started call_fake003_0 {"command":"ls nosuch"}
    PostToolUse
      hook tool_ended call_fake003_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      hook tool_started call_fake004_0 {"command":"ls nosuch"}
    PostToolUse
      hook tool_ended call_fake004_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      hook tool_started call_fake005_0 {"command":"*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"}
    PostToolUse
      hook tool_ended call_fake005_0 false "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nA new.txt\n"
    PreToolUse
      hook tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
    PreToolUse
      transcript tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      transcript tool_ended call_fake006_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      hook tool_started call_fake007_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
    PreToolUse
      transcript tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      transcript tool_ended call_fake006_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      transcript tool_started call_fake007_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      transcript tool_ended call_fake007_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      hook tool_started call_fake008_0 {"command":"exit 5"}
    PreToolUse
      transcript tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      transcript tool_ended call_fake006_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      transcript tool_started call_fake007_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      transcript tool_ended call_fake007_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      hook tool_started call_fake008_1 {"command":"echo b"}
    PostToolUse
      hook tool_ended call_fake008_1 false "b\n"
    PostToolUse
      hook tool_ended call_fake008_0 true "Process exited with code 5\n"
    PreToolUse
      transcript tool_started call_fake009_0 {"plan":[{"step":"x","status":"pending"}]}
      transcript tool_ended call_fake009_0 true "unsupported call: update_plan"
      transcript tool_started call_fake010_0 {"a":1}
      transcript tool_ended call_fake010_0 true "unsupported call: nosuch"
      hook tool_started call_fake011_0 {"command":"sleep 30; echo late"}
    Stop
      transcript tool_started call_fake009_0 {"plan":[{"step":"x","status":"pending"}]}
      transcript tool_ended call_fake009_0 true "unsupported call: update_plan"
      transcript tool_started call_fake010_0 {"a":1}
      transcript tool_ended call_fake010_0 true "unsupported call: nosuch"
      transcript tool_started call_fake011_0 {"command":"sleep 30; echo late"}
      transcript tool_ended call_fake011_0 false "Chunk ID: d97960\nWall time: 0.5013 seconds\nProcess running with session ID 99178\nOriginal token count: 0\nOutput:\n"
      hook message_appended
    Stop
      hook message_appended
    "#);
}

/// Writes one line for each call: the first hook event at which its end was known, and how the call
/// ended. Each payload is decoded together with Codex's transcript as it was at that moment.
fn call_ends(name: &str, payloads: &[String]) -> String {
    let (mut shown, mut known) = (String::new(), Vec::new());
    for payload in payloads {
        let decoded = Host::Codex.decode(payload.as_bytes(), at());
        if decoded.transcript.is_none() {
            continue;
        }
        let tail = rollout_at(name, payload);
        let decoded = Host::Codex.add_transcript(decoded, tail.as_bytes(), false);
        for event in decoded.events {
            let (id, how) = match &event.payload {
                TrajectoryPayload::ToolEnded { tool_call_id, is_error, result, .. } => {
                    (tool_call_id, format!("failed: {is_error} {}", result.comparable_text()))
                }
                TrajectoryPayload::Denied { tool_call_id, reason, .. } => {
                    (tool_call_id, format!("denied: {}", reason.as_deref().unwrap()))
                }
                _ => continue,
            };
            if !known.contains(id) {
                known.push(id.clone());
                let _ = writeln!(shown, "{} {id} {}", hook_event(payload), how.trim_end());
            }
        }
    }
    shown
}

#[test]
fn every_kind_of_refusal_is_recorded_as_a_refusal() {
    let payloads = session("codex-0.166.0", "refusals");
    insta::assert_snapshot!(call_ends("refusals", &payloads), @r#"
    PreToolUse call_main000_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"`/bin/bash -lc 'curl --version'` rejected: policy forbids commands starting with `curl`\")" }
    PreToolUse call_main001_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"approval required by policy, but AskForApproval is set to Never\")" }
    PreToolUse call_main002_0 denied: Command blocked by PreToolUse hook: the user said no. Command: echo denyme
    PreToolUse call_main003_0 denied: approval policy is Never; reject command — you cannot ask for escalated permissions if the approval policy is Never
    PreToolUse call_main004_0 denied: patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings
    PreToolUse call_main005_0 denied: patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings
    Stop call_main006_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"`/bin/bash -lc 'rm -rf zzz'` rejected: rm -f style commands are not permitted. Use a safer approach\")" }
    "#);
}

#[test]
fn the_last_refusal_of_a_subagent_is_recorded_when_it_stops() {
    let mut payloads = session("codex-0.166.0", "subagent");
    payloads.retain(|payload| payload.contains("\"agent_id\""));
    insta::assert_snapshot!(call_ends("subagent", &payloads), @r#"
    PostToolUse call_sub000_0 failed: false in-sub
    SubagentStop call_sub001_0 denied: exec_command failed: CreateProcess { message: "Rejected(\"`/bin/bash -lc 'curl x'` rejected: policy forbids commands starting with `curl`\")" }
    "#);
}
