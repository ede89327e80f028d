//! Real payloads of real clients: what each is read as, and the bytes of each answer.

use std::fmt::Write as _;
use std::path::PathBuf;

use midcourse::{
    Budget, DecisionPoint, Delivery, Engine, LABEL, Prompt, TrajectoryAnalysisConfig,
    TrajectoryPayload, parse_notation,
};
use midcourse_cli::hosts::{Decoded, Host};
use serde_json::Value;

use crate::events::at;

fn captures(client: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures").join(client)
}

/// The captured sessions of a client.
fn sessions(client: &str) -> Vec<String> {
    let files = std::fs::read_dir(captures(client)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned()));
    names.filter(|name| !name.ends_with(".rollout")).collect()
}

/// A captured session: its payloads, one a line.
pub(crate) fn session(client: &str, name: &str) -> Vec<String> {
    let file = captures(client).join(format!("{name}.jsonl"));
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

/// A payload's event.
pub(crate) fn event_of(payload: &str) -> String {
    let payload: Value = serde_json::from_str(payload).unwrap();
    payload["hook_event_name"].as_str().unwrap().to_owned()
}

/// What some payloads are read as: the event, what it carries words as, and its facts, with the
/// run if it is not the session's own.
fn shown(host: Host, payloads: &[String]) -> String {
    let mut shown = String::new();
    for payload in payloads {
        let session: Value = serde_json::from_str(payload).unwrap();
        let session = session["session_id"].as_str().unwrap();
        let Decoded { facts, carrier, .. } = host.decode(payload.as_bytes(), at(0));
        let carries = if carrier.is_some() { "" } else { " (silent)" };
        let _ = write!(shown, "{}{carries}:", event_of(payload));
        if facts.is_empty() {
            shown.push_str(" nothing\n");
            continue;
        }
        shown.push('\n');
        for event in facts {
            let point =
                host.point_of(&event.source, event.run.parent_run_id.is_some(), &event.payload);
            let run = event.run.run_id.as_str().replace(session, "S");
            let point = point.map_or("", DecisionPoint::as_str);
            let mut value = serde_json::to_value(&event.payload).unwrap();
            value.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "identity");
            let mut text = value.to_string().replace(session, "S");
            if text.chars().count() > 150 {
                text = text.chars().take(150).collect::<String>() + "…";
            }
            let way = event.source.as_str().rsplit('/').next().unwrap();
            // A batch names all its calls; the store knows which of them have ended.
            let unless = if way == "batch" { " unless known" } else { "" };
            let kind = event.payload.kind();
            let _ = writeln!(shown, "  {run} {way} {kind}{unless} {text} {point}");
        }
    }
    shown.replace(" \n", "\n")
}

/// Some payloads of the long captured session, by their places.
fn chosen(places: &[usize]) -> Vec<String> {
    let payloads = session("claude-code-2.1.325", "main-run");
    places.iter().map(|place| payloads[*place].clone()).collect()
}

#[test]
fn the_calls_of_claude_code() {
    let payloads = chosen(&[0, 1, 2, 3, 4, 5, 6, 8, 11, 14, 15, 19, 20, 21, 22, 23]);
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads), @r#"
    SessionStart:
      S hook run_started {} pre_render
    InstructionsLoaded (silent): nothing
    UserPromptSubmit:
      S hook message_appended {"message":{"role":"user","content":"MAIN-TASK: do the scripted thing"}} pre_render
    MessageDisplay (silent): nothing
    PreToolUse:
      S hook tool_started {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","args":{"command":"echo hello","description":"say hello"}} pre_tool_execution
    PostToolUse:
      S hook tool_ended {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"hello"}]},"is_error":false} post_tool_result
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","args":{"command":"echo hello","description":"say hello"}}
      S batch denied unless known {"tool_call_id":"toolu_fake0001_1","tool_name":"Bash","reason":"hello"}
      S batch turn_started unless known {} pre_tool_selection
    PostToolUse:
      S hook tool_ended {"tool_call_id":"toolu_fake0002_0","tool_name":"Write","result":{"content":[{"type":"text","text":"File created successfully at: /home/user/project/ne… post_tool_result
    PostToolUse:
      S hook tool_ended {"tool_call_id":"toolu_fake0003_0","tool_name":"Read","result":{"content":[{"type":"text","text":"hi\n"}]},"is_error":false} post_tool_result
    PostToolUseFailure:
      S hook tool_ended {"tool_call_id":"toolu_fake0004_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"Exit code 3\nout\nerr"}],"is_error":true},"is_error"… post_tool_result
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0004_0","tool_name":"Bash","args":{"command":"echo out; echo err >&2; exit 3","description":"fail"}}
      S batch denied unless known {"tool_call_id":"toolu_fake0004_0","tool_name":"Bash","reason":"Exit code 3\nout\nerr"}
      S batch turn_started unless known {} pre_tool_selection
    PreToolUse:
      S hook tool_started {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","args":{"command":"echo a","description":"par1"}} pre_tool_execution
    PreToolUse:
      S hook tool_started {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","args":{"command":"echo b","description":"par2"}} pre_tool_execution
    PostToolUse:
      S hook tool_ended {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"a"}]},"is_error":false} post_tool_result
    PostToolUse:
      S hook tool_ended {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"b"}]},"is_error":false} post_tool_result
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","args":{"command":"echo a","description":"par1"}}
      S batch denied unless known {"tool_call_id":"toolu_fake0006_0","tool_name":"Bash","reason":"a"}
      S batch tool_started unless known {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","args":{"command":"echo b","description":"par2"}}
      S batch denied unless known {"tool_call_id":"toolu_fake0006_1","tool_name":"Bash","reason":"b"}
      S batch turn_started unless known {} pre_tool_selection
    "#);
}

#[test]
fn a_subagent_of_claude_code_is_a_child_run() {
    let payloads = chosen(&[24, 25, 26, 28, 30, 31, 32, 35, 58, 77]);
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads), @r#"
    PreToolUse:
      S hook tool_started {"tool_call_id":"toolu_fake0007_0","tool_name":"Agent","args":{"description":"sub","prompt":"SUBAGENT-TASK do it","subagent_type":"general-purpose"}} pre_tool_execution
    SubagentStart (silent):
      S.a60b8f77967243656 hook run_started {}
    PostToolUse:
      S hook tool_ended {"tool_call_id":"toolu_fake0007_0","tool_name":"Agent","result":{"content":[{"type":"text","text":"{\"isAsync\":true,\"status\":\"async_launched\",\"a… post_tool_result
    PreToolUse:
      S.a60b8f77967243656 hook tool_started {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","args":{"command":"echo in-subagent","description":"sub echo"}} pre_tool_execution
    Stop (silent):
      S hook message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    PostToolUse:
      S.a60b8f77967243656 hook tool_ended {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"in-subagent"}]},"is_error":false} post_tool_result
    PostToolBatch:
      S.a60b8f77967243656 batch tool_started unless known {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","args":{"command":"echo in-subagent","description":"sub echo"}}
      S.a60b8f77967243656 batch denied unless known {"tool_call_id":"toolu_fake0008_0","tool_name":"Bash","reason":"in-subagent"}
      S.a60b8f77967243656 batch turn_started unless known {} pre_tool_selection
    SubagentStop (silent):
      S.a60b8f77967243656 hook run_ended {"outcome":"completed","new_messages":[{"role":"assistant","content":[{"type":"text","text":"subagent finished"}],"stop_reason":"end_turn"}]}
    UserPromptSubmit:
      S hook message_appended {"message":{"role":"custom","kind":"task_notification","payload":"<task-notification>\n<task-id>a60b8f77967243656</task-id>\n<tool-use-id>toolu_fake00… pre_render
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn a_refusal_is_seen_in_the_batch_alone() {
    let payloads = session("claude-code-2.1.325", "permission-denied");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads[2..]), @r#"
    PreToolUse:
      S hook tool_started {"tool_call_id":"toolu_fake0001_0","tool_name":"Bash","args":{"command":"touch /home/user/project/.scratch/x && rm -rf zzz","description":"t"}} pre_tool_execution
    PermissionRequest (silent): nothing
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0001_0","tool_name":"Bash","args":{"command":"touch /home/user/project/.scratch/x && rm -rf zzz","description":"t"}}
      S batch denied unless known {"tool_call_id":"toolu_fake0001_0","tool_name":"Bash","reason":"This Bash command contains multiple operations. The following parts require approval: …
      S batch turn_started unless known {} pre_tool_selection
    Stop (silent):
      S hook message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"fin"}],"stop_reason":"end_turn"}}
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn calls_that_could_not_be_made_are_seen_in_the_batch_alone() {
    let payloads = session("claude-code-2.1.325", "calls-not-made");
    let batches: Vec<String> = payloads
        .into_iter()
        .filter(|payload| payload.contains("PostToolBatch") && payload.contains("<tool_use_error>"))
        .collect();
    insta::assert_snapshot!(shown(Host::ClaudeCode, &batches), @r#"
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0006_0","tool_name":"Read","args":{}}
      S batch tool_ended unless known {"tool_call_id":"toolu_fake0006_0","tool_name":"Read","result":{"content":[{"type":"text","text":"<tool_use_error>InputValidationError: Read failed du…
      S batch turn_started unless known {} pre_tool_selection
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0007_0","tool_name":"NoSuchTool","args":{"a":1}}
      S batch tool_ended unless known {"tool_call_id":"toolu_fake0007_0","tool_name":"NoSuchTool","result":{"content":[{"type":"text","text":"<tool_use_error>Error: No such tool available:…
      S batch turn_started unless known {} pre_tool_selection
    "#);
}

#[test]
fn what_the_client_notes_is_nobodys_word() {
    let payloads = session("claude-code-2.1.325", "background-bash");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads[7..9]), @r#"
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","args":{"command":"sleep 3; echo fg","description":"fg"}}
      S batch denied unless known {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","reason":"fg"}
      S batch turn_started unless known {} pre_tool_selection
    UserPromptSubmit:
      S hook message_appended {"message":{"role":"custom","kind":"task_notification","payload":"<task-notification>\n<task-id>bvtw2b17c</task-id>\n<tool-use-id>toolu_fake0001_0</to… pre_render
    "#);
}

#[test]
fn a_session_is_resumed_and_compacted() {
    let payloads = session("claude-code-2.1.325", "resume-and-compact");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads), @r#"
    SessionStart:
      S hook run_started {} pre_render
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    SessionStart:
      S hook resumed {} pre_render
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    SessionStart:
      S hook resumed {} pre_render
    PreCompact (silent): nothing
    SubagentStop (silent): nothing
    SessionStart:
      S hook context_compacted {} pre_render
    PostCompact (silent): nothing
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    SessionStart:
      S hook resumed {} pre_render
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn an_older_claude_code_says_the_same() {
    let payloads = session("claude-code-2.1.197", "main-run");
    insta::assert_snapshot!(shown(Host::ClaudeCode, &payloads[5..]), @r#"
    PreToolUse:
      S hook tool_started {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","args":{"command":"exit 3","description":"f"}} pre_tool_execution
    PostToolUseFailure:
      S hook tool_ended {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"Exit code 3"}],"is_error":true},"is_error":true} post_tool_result
    PostToolBatch:
      S batch tool_started unless known {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","args":{"command":"exit 3","description":"f"}}
      S batch denied unless known {"tool_call_id":"toolu_fake0002_0","tool_name":"Bash","reason":"Exit code 3"}
      S batch turn_started unless known {} pre_tool_selection
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn the_calls_of_codex() {
    let payloads = session("codex-0.166.0", "main-run");
    insta::assert_snapshot!(shown(Host::Codex, &payloads), @r#"
    SessionStart:
      S hook run_started {} pre_render
    UserPromptSubmit:
      S hook message_appended {"message":{"role":"user","content":"do the scripted thing"}} pre_render
    PreToolUse:
      S hook tool_started {"tool_call_id":"call_fake001_1","tool_name":"Bash","args":{"command":"echo hello"}} pre_tool_execution
    PostToolUse:
      S hook tool_ended {"tool_call_id":"call_fake001_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"hello\n"}]},"is_error":false} pre_tool_selection
    PreToolUse:
      S hook tool_started {"tool_call_id":"call_fake002_0","tool_name":"Bash","args":{"command":"echo out; echo err >&2; exit 3"}} pre_tool_execution
    PostToolUse:
      S hook tool_ended {"tool_call_id":"call_fake002_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"out\nerr\n"}]},"is_error":false} pre_tool_selection
    PreToolUse:
      S hook tool_started {"tool_call_id":"call_fake004_0","tool_name":"Bash","args":{"command":"echo a"}} pre_tool_execution
    PreToolUse:
      S hook tool_started {"tool_call_id":"call_fake004_1","tool_name":"Bash","args":{"command":"echo b"}} pre_tool_execution
    PostToolUse:
      S hook tool_ended {"tool_call_id":"call_fake004_0","tool_name":"Bash","result":{"content":[{"type":"text","text":"a\n"}]},"is_error":false} pre_tool_selection
    PostToolUse:
      S hook tool_ended {"tool_call_id":"call_fake004_1","tool_name":"Bash","result":{"content":[{"type":"text","text":"b\n"}]},"is_error":false} pre_tool_selection
    Stop (silent):
      S hook message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"All finished."}],"stop_reason":"end_turn"}}
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn codex_patches_and_is_interrupted() {
    let mut payloads = session("codex-0.166.0", "apply_patch-ok-then-fail");
    payloads.extend_from_slice(&session("codex-0.166.0", "sigint")[3..]);
    insta::assert_snapshot!(shown(Host::Codex, &payloads), @r#"
    PreToolUse:
      S hook tool_started {"tool_call_id":"call_fake001_0","tool_name":"apply_patch","args":{"command":"*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"}} pre_tool_execution
    PostToolUse:
      S hook tool_ended {"tool_call_id":"call_fake001_0","tool_name":"apply_patch","result":{"content":[{"type":"text","text":"Exit code: 0\nWall time: 0 seconds\nOutput:\nSu… pre_tool_selection
    PreToolUse:
      S hook tool_started {"tool_call_id":"call_fake002_0","tool_name":"apply_patch","args":{"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"… pre_tool_execution
    Interrupt (silent):
      S hook message_appended {"message":{"role":"custom","kind":"interrupt","payload":null}}
    SessionEnd (silent):
      S hook run_ended {"outcome":"unknown","new_messages":[]}
    "#);
}

#[test]
fn nothing_that_was_captured_is_unread() {
    for (host, client) in [
        (Host::ClaudeCode, "claude-code-2.1.325"),
        (Host::ClaudeCode, "claude-code-2.1.197"),
        (Host::Codex, "codex-0.166.0"),
    ] {
        for payload in sessions(client).iter().flat_map(|name| session(client, name)) {
            let decoded = host.decode(payload.as_bytes(), at(0));
            assert_eq!(decoded.unread_run(), None, "{payload}");
        }
    }
}

/// Guidance and feedback as the shipped engine gives them.
fn deliveries(host: Host) -> Vec<Delivery> {
    let template = host.speaking().template(Budget::default());
    let mut engine = Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped());
    let notation = "deadline 10m\n4x bash make !! error: no rule\n";
    let mut said = Vec::new();
    for record in parse_notation(notation).unwrap() {
        engine.take_in(&record);
        said = engine.feedback(record.at()).said.into_iter().map(Delivery::from).collect();
        let guidance = engine.guidance(DecisionPoint::PreToolSelection, record.at());
        assert!(guidance.said.len() <= 1);
        said.extend(guidance.said.into_iter().map(Delivery::from));
    }
    said
}

#[test]
fn answers_are_the_least_that_a_host_accepts() {
    for (host, client, names) in [
        (
            Host::ClaudeCode,
            "claude-code-2.1.325",
            &["main-run", "permission-denied", "resume-and-compact"][..],
        ),
        (Host::Codex, "codex-0.166.0", &["main-run", "sigint"]),
    ] {
        let said = deliveries(host);
        assert_eq!(said.len(), 2, "{said:?}");
        for payload in names.iter().flat_map(|name| session(client, name)) {
            let decoded = host.decode(payload.as_bytes(), at(0));
            let name = event_of(&payload);
            assert_eq!(host.encode([], decoded.carrier), b"", "{name}: nothing to say");
            let answer = String::from_utf8(host.encode(&said, decoded.carrier)).unwrap();
            let is_silent = matches!(
                name.as_str(),
                "Stop"
                    | "SubagentStop"
                    | "SubagentStart"
                    | "SessionEnd"
                    | "PermissionRequest"
                    | "PreCompact"
                    | "PostCompact"
                    | "MessageDisplay"
                    | "InstructionsLoaded"
                    | "Interrupt"
            );
            if is_silent {
                assert_eq!(answer, "", "{name}");
                // What cannot be carried is not asked for: it would count as said.
                assert!(
                    decoded.facts.iter().all(|event| host
                        .point_of(&event.source, event.run.parent_run_id.is_some(), &event.payload)
                        .is_none()),
                    "{name}"
                );
                continue;
            }
            let text = Delivery::labelled_text(&said).unwrap();
            assert_eq!(
                answer,
                format!(
                    "{{\"hookSpecificOutput\":{{\"hookEventName\":\"{name}\",\
                     \"additionalContext\":{}}}}}",
                    serde_json::to_string(&text).unwrap()
                )
            );
        }
        let text = Delivery::labelled_text(&said).unwrap();
        assert!(text.starts_with(&format!("{LABEL}\n[Feedback - Deadline]\n")), "{text}");
        assert!(text.contains("\n\n[Guidance]\n\nYou made the same tool call"), "{text}");
    }
}

/// The session file of a captured session of Codex as it was at a payload: up to the request of a
/// call, or up to its end.
pub(crate) fn rollout_at(name: &str, payload: &str) -> String {
    let payload: Value = serde_json::from_str(payload).unwrap();
    let event = payload["hook_event_name"].as_str().unwrap();
    let call = payload["tool_use_id"].as_str().unwrap_or_default().to_owned();
    let lines = session("codex-0.166.0", &format!("{name}.rollout"));
    let last = lines.iter().position(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let item = &line["payload"];
        let is_call = !item["name"].is_null() && item["call_id"] == call.as_str();
        let is_answer = item["item"]["type"] == "AgentMessage"
            && item["item"]["content"][0]["text"] == payload["last_assistant_message"];
        match event {
            "PreToolUse" => is_call,
            "PostToolUse" => item["item"]["id"] == call.as_str(),
            "Stop" | "SubagentStop" => is_answer,
            _ => true,
        }
    });
    let end = last.map_or(lines.len(), |last| last + 1);
    lines[..end].iter().map(|line| line.clone() + "\n").collect()
}

#[test]
fn the_session_file_of_codex_knows_exits_and_calls_that_no_hook_tells() {
    let (name, mut shown) = ("calls-without-hooks", String::new());
    for payload in session("codex-0.166.0", name) {
        let decoded = Host::Codex.decode(payload.as_bytes(), at(0));
        // Where something begins, only tokens are looked for.
        let begins = matches!(event_of(&payload).as_str(), "SessionStart" | "UserPromptSubmit");
        if decoded.beside.is_none() || begins {
            continue;
        }
        let decoded = Host::Codex.complete(decoded, rollout_at(name, &payload).as_bytes(), false);
        let _ = writeln!(shown, "{}", event_of(&payload));
        for event in decoded.facts {
            let call = event.payload.call_id().map_or("", |id| id.as_str());
            let rest = match &event.payload {
                TrajectoryPayload::ToolStarted { args, .. } => args.to_string(),
                TrajectoryPayload::ToolEnded { result, is_error, .. } => {
                    format!("{is_error} {:?}", result.comparable_text())
                }
                _ => String::new(),
            };
            let source = event.source.as_str();
            let _ = writeln!(shown, "  {source} {} {call} {rest}", event.payload.kind());
        }
    }
    insta::assert_snapshot!(shown.replace("  \n", "\n"), @r#"
    PreToolUse
      codex/hook tool_started call_fake001_0 {"command":"ls nosuch"}
    PostToolUse
      codex/hook tool_ended call_fake001_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      codex/hook tool_started call_fake002_0 {"command":"ls nosuch"}
    PostToolUse
      codex/hook tool_ended call_fake002_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      codex/hook tool_started call_fake003_0 {"command":"ls nosuch"}
    PostToolUse
      codex/hook tool_ended call_fake003_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      codex/hook tool_started call_fake004_0 {"command":"ls nosuch"}
    PostToolUse
      codex/hook tool_ended call_fake004_0 true "Process exited with code 2\nls: cannot access 'nosuch': No such file or directory\n"
    PreToolUse
      codex/hook tool_started call_fake005_0 {"command":"*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"}
    PostToolUse
      codex/hook tool_ended call_fake005_0 false "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nA new.txt\n"
    PreToolUse
      codex/hook tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
    PreToolUse
      codex/rollout tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      codex/rollout tool_ended call_fake006_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      codex/hook tool_started call_fake007_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
    PreToolUse
      codex/rollout tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      codex/rollout tool_ended call_fake006_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      codex/rollout tool_started call_fake007_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      codex/rollout tool_ended call_fake007_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      codex/hook tool_started call_fake008_0 {"command":"exit 5"}
    PreToolUse
      codex/rollout tool_started call_fake006_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      codex/rollout tool_ended call_fake006_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      codex/rollout tool_started call_fake007_0 {"command":"*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch\n"}
      codex/rollout tool_ended call_fake007_0 true "apply_patch verification failed: Failed to read file to update /home/user/project/nope.txt: No such file or directory (os error 2)"
      codex/hook tool_started call_fake008_1 {"command":"echo b"}
    PostToolUse
      codex/hook tool_ended call_fake008_1 false "b\n"
    PostToolUse
      codex/hook tool_ended call_fake008_0 true "Process exited with code 5\n"
    PreToolUse
      codex/rollout tool_started call_fake009_0 {"plan":[{"step":"x","status":"pending"}]}
      codex/rollout tool_ended call_fake009_0 true "unsupported call: update_plan"
      codex/rollout tool_started call_fake010_0 {"a":1}
      codex/rollout tool_ended call_fake010_0 true "unsupported call: nosuch"
      codex/hook tool_started call_fake011_0 {"command":"sleep 30; echo late"}
    Stop
      codex/rollout tool_started call_fake009_0 {"plan":[{"step":"x","status":"pending"}]}
      codex/rollout tool_ended call_fake009_0 true "unsupported call: update_plan"
      codex/rollout tool_started call_fake010_0 {"a":1}
      codex/rollout tool_ended call_fake010_0 true "unsupported call: nosuch"
      codex/rollout tool_started call_fake011_0 {"command":"sleep 30; echo late"}
      codex/rollout tool_ended call_fake011_0 false "Chunk ID: d97960\nWall time: 0.5013 seconds\nProcess running with session ID 99178\nOriginal token count: 0\nOutput:\n"
      codex/hook message_appended
    Stop
      codex/hook message_appended
    "#);
}
