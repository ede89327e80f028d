//! What the readers of agents' sessions make of a real file of each agent.

use midcourse::{AgentMessage, TrajectoryPayload, UserContent};

use super::{folder, read};

/// The records of a file, one per line: kind, key and the most important fields.
fn shown(file: &str) -> String {
    let (records, _) = read(&folder().join(file));
    let mut lines = Vec::new();
    let mut run = String::new();
    for event in records.iter().flat_map(|record| &record.events) {
        if event.run.run_id.as_str() != run {
            run = event.run.run_id.as_str().to_owned();
            lines.push(format!("run {run}"));
        }
        let key = event.fact.as_ref().map_or("", |key| key.as_str());
        let fields = fields(&event.payload);
        let fields: String = fields.replace('\n', "⏎").chars().take(110).collect();
        lines.push(format!("{} {key} {fields}", event.payload.kind()).trim_end().to_owned());
    }
    lines.join("\n")
}

fn fields(payload: &TrajectoryPayload) -> String {
    match payload {
        TrajectoryPayload::MessageAppended { message } => match message {
            AgentMessage::User { content: UserContent::Text(text), .. } => format!("user: {text}"),
            AgentMessage::Assistant { content, .. } => format!("model: {}", content.plain_text()),
            AgentMessage::Custom { kind, .. } => kind.clone(),
            other => format!("{other:?}"),
        },
        TrajectoryPayload::ToolStarted { tool_name, args, .. } => format!("{tool_name} {args}"),
        TrajectoryPayload::ToolEnded { tool_name, result, is_error, .. } => {
            let end = if *is_error { "failed" } else { "ok" };
            format!("{tool_name} {end}: {}", result.comparable_text())
        }
        TrajectoryPayload::Denied { reason, .. } => reason.clone().unwrap_or_default(),
        TrajectoryPayload::UsageReported { usage } => {
            format!("{} in, {} out", usage.input_tokens, usage.output_tokens)
        }
        _ => String::new(),
    }
}

#[test]
fn codex() {
    insta::assert_snapshot!(shown("codex/rollout-2026-11-17T04-21-39-01a1e7bd-34b5-75d3-8e72-a0062cd66213.jsonl"), @r##"
    run 01a1e7bd-34b5-75d3-8e72-a0062cd66213
    run_started run
    run_described about:/home/user/project:0.166.0
    run_described about:gpt-fake
    message_appended message:8 user: Do the work.
    message_appended message:11 model: I look around.
    usage_reported usage:resp_fake1 500 in, 20 out
    tool_started call_fake001_1 Bash {"command":"echo hello"}
    tool_ended call_fake001_1 Bash ok: hello⏎
    turn_started after:call_fake001_1
    usage_reported usage:resp_fake2 500 in, 20 out
    tool_started call_fake002_0 Bash {"command":"echo out; echo err >&2; exit 3"}
    tool_ended call_fake002_0 Bash failed: Process exited with code 3⏎err⏎out⏎
    turn_started after:call_fake002_0
    usage_reported usage:resp_fake3 500 in, 20 out
    tool_started call_fake003_0 Bash {"command":"echo a"}
    tool_started call_fake003_1 Bash {"command":"echo b"}
    tool_ended call_fake003_0 Bash ok: a⏎
    tool_ended call_fake003_1 Bash ok: b⏎
    turn_started after:call_fake003_0
    usage_reported usage:resp_fake4 500 in, 20 out
    tool_started call_fake004_0 apply_patch {"command":"*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"}
    tool_ended call_fake004_0 apply_patch failed: unsupported custom tool call: apply_patch
    turn_started after:call_fake004_0
    usage_reported usage:resp_fake5 500 in, 20 out
    tool_started call_fake005_0 no_such_tool {"a":1}
    tool_ended call_fake005_0 no_such_tool failed: unsupported call: no_such_tool
    turn_started after:call_fake005_0
    usage_reported usage:resp_fake6 500 in, 20 out
    tool_started call_fake006_0 Bash {"command":"rm -rf /nothing"}
    denied call_fake006_0 exec_command failed: CreateProcess { message: "Rejected(\"`/bin/bash -lc 'rm -rf /nothing'` rejected: rm -f st
    turn_started after:call_fake006_0
    usage_reported usage:resp_fake7 500 in, 20 out
    tool_started call_fake007_0 Bash {"command":"sleep 1.2; echo late"}
    tool_ended call_fake007_0 Bash ok: Chunk ID: b8d0b1⏎Wall time: 0.2508 seconds⏎Process running with session ID 61751⏎Original token count
    turn_started after:call_fake007_0
    message_appended message:47 model: All done.
    usage_reported usage:resp_fake8 500 in, 20 out
    "##);
}

#[test]
fn codex_before_session_meta() {
    insta::assert_snapshot!(shown("codex/rollout-2026-11-17T04-46-59-c72de389-3271-4733-9272-55258a1039ac.jsonl"), @r##"
    run c72de389-3271-4733-9272-55258a1039ac
    run_started run
    message_appended message:3 user: Do the work.
    message_appended message:6 model: I look around.
    tool_started call_fake001_1 Bash {"command":"echo hello"}
    tool_ended call_fake001_1 Bash ok: hello⏎
    turn_started after:call_fake001_1
    tool_started call_fake002_0 Bash {"command":"echo out; echo err >&2; exit 3"}
    tool_ended call_fake002_0 Bash failed: Process exited with code 3⏎err⏎
    turn_started after:call_fake002_0
    tool_started call_fake003_0 Bash {"command":"echo a"}
    tool_ended call_fake003_0 Bash ok: a⏎
    tool_started call_fake003_1 Bash {"command":"echo b"}
    tool_ended call_fake003_1 Bash ok: b⏎
    turn_started after:call_fake003_0
    tool_started call_fake004_0 no_such_tool {"a":1}
    tool_ended call_fake004_0 no_such_tool failed: unsupported call: no_such_tool
    turn_started after:call_fake004_0
    tool_started call_fake005_0 update_plan {"plan":[{"step":"x","status":"pending"}]}
    tool_ended call_fake005_0 update_plan ok: Plan updated
    turn_started after:call_fake005_0
    message_appended message:29 model: All done.
    "##);
}

#[test]
fn gemini() {
    insta::assert_snapshot!(shown("gemini/session-2026-11-17T04-21-7f19ac5e.jsonl"), @r##"
    run 7f19ac5e-cec2-4de1-bce8-85c52821f8db
    run_started run
    message_appended message:14ab77cc-e1b2-4a62-98d7-354b53d5d23e user: Do the work.
    run_described about:gemini-2.5-pro
    message_appended message:552dacce-f1a4-452b-8716-464a557e4499 model: I look around.
    usage_reported usage:552dacce-f1a4-452b-8716-464a557e4499 10 in, 5 out
    tool_started run_shell_command__run_shell_command_1794889318519_0 run_shell_command {"command":"echo hello","description":"Runs a command"}
    tool_ended run_shell_command__run_shell_command_1794889318519_0 run_shell_command ok: <untrusted_context>⏎Output: hello⏎Process Group PGID: 955⏎</untrusted_context>
    usage_reported usage:6e4c6f27-6f4b-4b85-8d78-d58dbd0d67b0 10 in, 5 out
    turn_started after:run_shell_command__run_shell_command_1794889318519_0
    tool_started run_shell_command__run_shell_command_1794889319916_0 run_shell_command {"command":"echo out; echo err >&2; exit 3","description":"Runs a command"}
    tool_ended run_shell_command__run_shell_command_1794889319916_0 run_shell_command ok: <untrusted_context>⏎Output: out⏎err⏎Exit Code: 3⏎Process Group PGID: 959⏎</untrusted_con
    usage_reported usage:2053f086-02af-49d1-8caa-18f9380ed8ab 10 in, 5 out
    turn_started after:run_shell_command__run_shell_command_1794889319916_0
    tool_started read_file__read_file_1794889320246_0 read_file {"file_path":"a.txt"}
    tool_started read_file__read_file_1794889320287_1 read_file {"file_path":"missing.txt"}
    tool_ended read_file__read_file_1794889320246_0 read_file ok: one⏎two⏎
    tool_ended read_file__read_file_1794889320287_1 read_file failed: File not found: /home/user/project/missing.txt
    usage_reported usage:625739e8-ba7e-40d0-a8da-57d2c0e5ac17 10 in, 5 out
    turn_started after:read_file__read_file_1794889320246_0
    tool_started no_such_tool__no_such_tool_1794889320642_0 no_such_tool {"a":1}
    tool_ended no_such_tool__no_such_tool_1794889320642_0 no_such_tool failed: Tool "no_such_tool" not found. Did you mean one of: "write_todos", "update_topic", "list_
    usage_reported usage:40b95f8a-0997-418f-ace9-2c9e26e400a2 10 in, 5 out
    turn_started after:no_such_tool__no_such_tool_1794889320642_0
    tool_started write_file__write_file_1794889320880_0 write_file {"file_path":"b.txt","content":"hi\n"}
    tool_ended write_file__write_file_1794889320880_0 write_file ok: Successfully created and wrote to new file: /home/user/project/b.txt. Here is the updated code:
    turn_started after:write_file__write_file_1794889320880_0
    message_appended message:f1075b92-a8cc-4d4b-bf70-f3af41545187 model: All done.
    usage_reported usage:f1075b92-a8cc-4d4b-bf70-f3af41545187 10 in, 5 out
    "##);
}

#[test]
fn gemini_document() {
    insta::assert_snapshot!(shown("gemini/session-2026-11-17T04-46-2682cc9c.json"), @r##"
    run 2682cc9c-e7a5-42c9-ad28-a7861886ad8d
    run_started run
    message_appended message:ed9d9de6-9ce8-41ea-b351-3b4edad4e810 user: Do the work.
    run_described about:gemini-2.5-pro
    message_appended message:0671bf87-9a41-4bd4-96c9-ec99f56a7b9d model: I look around.
    usage_reported usage:0671bf87-9a41-4bd4-96c9-ec99f56a7b9d 10 in, 5 out
    tool_started run_shell_command-1794890794887-3f79ba5219705 run_shell_command {"command":"echo hello","description":"Runs a command"}
    tool_started run_shell_command-1794890795059-a0029bd321349 run_shell_command {"command":"echo out; echo err >&2; exit 3","description":"Runs a command"}
    tool_started read_file-1794890795084-89215a2cb4687 read_file {"absolute_path":"/home/user/project/a.txt","file_path":"/home/user/project/a.txt"}
    tool_started read_file-1794890795084-939bc375702c7 read_file {"file_path":"/home/user/project/missing.txt","absolute_path":"/home/user/project/missing.txt"}
    tool_ended run_shell_command-1794890794887-3f79ba5219705 run_shell_command failed: Command rejected because it could not be parsed safely
    tool_ended run_shell_command-1794890795059-a0029bd321349 run_shell_command failed: Command rejected because it could not be parsed safely
    tool_ended read_file-1794890795084-89215a2cb4687 read_file ok: one⏎two⏎
    tool_ended read_file-1794890795084-939bc375702c7 read_file failed: File not found: /home/user/project/missing.txt
    turn_started after:run_shell_command-1794890794887-3f79ba5219705
    message_appended message:91237563-8464-4036-b9b2-1302e880a144 model: All done.
    usage_reported usage:91237563-8464-4036-b9b2-1302e880a144 10 in, 5 out
    "##);
}

#[test]
fn qwen() {
    insta::assert_snapshot!(shown("qwen/ce55d93d-915c-492d-927f-87ee1026133f.jsonl"), @r##"
    run ce55d93d-915c-492d-927f-87ee1026133f
    run_started run
    run_described about:/home/user/project:0.24.4
    message_appended message:40f45b7f-b56e-4fc6-9146-c52ad8ccace6 user: Do the work.
    run_described about:gpt-4.1
    message_appended message:e49aeb39-3e7d-49a5-b85b-e6fcd9ab4ef0 model: I look around.
    usage_reported usage:e49aeb39-3e7d-49a5-b85b-e6fcd9ab4ef0 500 in, 20 out
    tool_started call_fake001_0 run_shell_command {"command":"echo hello; read -t 0.3 <> <(:); true","is_background":false}
    tool_ended call_fake001_0 run_shell_command ok: Command: echo hello; read -t 0.3 <> <(:); true⏎Directory: (root)⏎Output: hello⏎Error: (n
    turn_started after:call_fake001_0
    usage_reported usage:c90f9b59-59a2-46bd-ae6a-9aed16d0af3c 500 in, 20 out
    tool_started call_fake002_0 run_shell_command {"command":"echo out; echo err >&2; read -t 0.3 <> <(:); exit 3","is_background":false}
    tool_ended call_fake002_0 run_shell_command failed: Command: echo out; echo err >&2; read -t 0.3 <> <(:); exit 3⏎Directory: (root)⏎Outpu
    turn_started after:call_fake002_0
    usage_reported usage:aeab2a6d-61db-4ee6-998e-84ff98b2bb79 500 in, 20 out
    tool_started call_fake003_0 read_file {"file_path":"/home/user/project/a.txt"}
    tool_started call_fake003_1 read_file {"file_path":"/home/user/project/missing.txt"}
    tool_ended call_fake003_0 read_file ok: one⏎two⏎
    tool_ended call_fake003_1 read_file failed: File not found: /home/user/project/missing.txt
    turn_started after:call_fake003_0
    usage_reported usage:8b29ebd3-dc70-462d-b405-3720a0a38b7f 500 in, 20 out
    tool_started call_fake004_0 no_such_tool {"a":1}
    tool_ended call_fake004_0 no_such_tool failed: Tool "no_such_tool" not found in registry. Tools must use the exact names that are regist
    turn_started after:call_fake004_0
    usage_reported usage:9615c740-e024-4263-ab02-7a11be18744f 500 in, 20 out
    tool_started call_fake005_0 agent {"description":"Look","prompt":"Look into the corner.","subagent_type":"general-purpose"}
    tool_ended call_fake005_0 agent ok: Background agent launched successfully.⏎task_id: general-purpose-call_fake005_0 (internal ID — do no
    turn_started after:call_fake005_0
    usage_reported usage:34edfa72-cc5b-42ff-b24b-3c3f0fbf8417 500 in, 20 out
    tool_started call_fake006_0 run_shell_command {"command":"echo in the corner; read -t 0.3 <> <(:); true","is_background":false}
    tool_ended call_fake006_0 run_shell_command ok: Command: echo in the corner; read -t 0.3 <> <(:); true⏎Directory: (root)⏎Output: in the
    turn_started after:call_fake006_0
    message_appended message:272f8eaa-ebb8-4b2b-a802-ae647e9fffa3 model: All done.
    usage_reported usage:272f8eaa-ebb8-4b2b-a802-ae647e9fffa3 500 in, 20 out
    message_appended message:ac65b21a-7363-46eb-9928-28b19338a433 task_notification
    message_appended message:eddec6c3-26ae-433a-9dd4-badc23a2e362 model: All done.
    usage_reported usage:eddec6c3-26ae-433a-9dd4-badc23a2e362 500 in, 20 out
    "##);
}

#[test]
fn copilot() {
    insta::assert_snapshot!(shown("copilot/f7e9c5cb-8cc7-47c6-9b73-0b04e9145bc5/events.jsonl"), @r##"
    run f7e9c5cb-8cc7-47c6-9b73-0b04e9145bc5
    run_started run
    run_described about:/home/user/project:1.0.102:gpt-4.1
    message_appended message:09851fa9-938e-41cf-b6ab-7fbf205d8d54 user: Do the work.
    usage_reported usage:chatcmpl-1 500 in, 20 out
    message_appended message:6c2a8e78-af95-4488-8be9-c166204ccdbd model: I look around.
    tool_started call_fake001_0 bash {"command":"echo hello","description":"Runs a command","mode":"sync"}
    tool_ended call_fake001_0 bash ok: hello⏎<shellId: _ completed with exit code 0>
    usage_reported usage:chatcmpl-2 500 in, 20 out
    turn_started after:call_fake001_0
    tool_started call_fake002_0 bash {"command":"echo out; echo err >&2; exit 3","description":"Runs a command","mode":"sync"}
    tool_ended call_fake002_0 bash ok: err⏎out⏎<shellId: _ completed with exit code 3>
    usage_reported usage:chatcmpl-3 500 in, 20 out
    turn_started after:call_fake002_0
    tool_started call_fake003_0 view {"path":"/home/user/project/a.txt"}
    tool_started call_fake003_1 view {"path":"/home/user/project/missing.txt"}
    tool_ended call_fake003_0 view ok: one⏎two⏎
    tool_ended call_fake003_1 view failed: Path does not exist
    usage_reported usage:chatcmpl-4 500 in, 20 out
    turn_started after:call_fake003_0
    tool_started call_fake004_0 no_such_tool {"a":1}
    tool_ended call_fake004_0 no_such_tool failed: Tool 'no_such_tool' does not exist.
    usage_reported usage:chatcmpl-5 500 in, 20 out
    turn_started after:call_fake004_0
    tool_started call_fake005_0 task {"description":"Look","prompt":"Look into the corner.","agent_type":"general-purpose","name":"corner","mo
    run f7e9c5cb-8cc7-47c6-9b73-0b04e9145bc5.42b943bf-40d8-4a2e-aa00-051bddb6f03d
    run_started run
    run_described about:gpt-4.1
    message_appended message:1fc9bd67-d3d3-48d1-a7a2-c48183031dbb user: Look into the corner.
    usage_reported usage:chatcmpl-6 500 in, 20 out
    tool_started call_fake006_0 bash {"command":"echo in the corner","description":"Runs a command","mode":"sync"}
    tool_ended call_fake006_0 bash ok: in the corner⏎<shellId: _ completed with exit code 0>
    usage_reported usage:chatcmpl-7 500 in, 20 out
    turn_started after:call_fake006_0
    message_appended message:31ba3229-9cab-4597-9d54-f49cd4735981 model: The corner is empty.
    run f7e9c5cb-8cc7-47c6-9b73-0b04e9145bc5
    tool_ended call_fake005_0 task ok: The corner is empty.
    usage_reported usage:chatcmpl-8 500 in, 20 out
    turn_started after:call_fake005_0
    tool_started call_fake008_0 bash {"command":"curl localhost","description":"Runs a command","mode":"sync"}
    denied call_fake008_0 Permission to run this tool was denied due to the following rules: `shell(curl)`
    usage_reported usage:chatcmpl-9 500 in, 20 out
    turn_started after:call_fake008_0
    message_appended message:ae8e5007-cb4d-44c4-8738-7157e5205b27 model: All done.
    "##);
}

#[test]
fn opencode() {
    insta::assert_snapshot!(shown("opencode/opencode.db"), @r##"
    run ses_e18427d18ffeUDir7GEYmPD2E4
    run_started run
    run_described about:/home/user/project:1.18.33
    message_appended message:msg_1e7bd8bb20017qFAB1kYWcnJ8s user: "Do the work."
    turn_started after:msg_1e7bd8bb20017qFAB1kYWcnJ8s
    run_described about:small
    usage_reported usage:msg_1e7bdb15f001SjJ8uV1tQey6A4 500 in, 20 out
    message_appended message:msg_1e7bdb15f001SjJ8uV1tQey6A4 model: I look around.
    tool_started call_fake001_0 bash {"command":"echo hello","description":"Runs a command"}
    tool_ended call_fake001_0 bash ok: hello⏎
    turn_started after:msg_1e7bdb15f001SjJ8uV1tQey6A4
    usage_reported usage:msg_1e7bdd99f001n4lqaL7iW3FSVH 500 in, 20 out
    tool_started call_fake002_0 bash {"command":"echo out; echo err >&2; exit 3","description":"Runs a command"}
    tool_ended call_fake002_0 bash failed: out⏎err⏎
    turn_started after:msg_1e7bdd99f001n4lqaL7iW3FSVH
    usage_reported usage:msg_1e7bddff80011CV2boZWB0K9Zq 500 in, 20 out
    tool_started call_fake003_0 read {"filePath":"/home/user/project/a.txt"}
    tool_started call_fake003_1 read {"filePath":"/home/user/project/missing.txt"}
    tool_ended call_fake003_0 read ok: <path>/home/user/project/a.txt</path>⏎<type>file</type>⏎<content>⏎1: one⏎2: two⏎⏎(End of file - total
    tool_ended call_fake003_1 read failed: File not found: /home/user/project/missing.txt
    turn_started after:msg_1e7bddff80011CV2boZWB0K9Zq
    usage_reported usage:msg_1e7bde8cd001jclgfKqCo8CZ1n 500 in, 20 out
    tool_started call_fake004_0 no_such_tool {"tool":"no_such_tool","error":"Model tried to call unavailable tool 'no_such_tool'. Available to
    tool_ended call_fake004_0 no_such_tool failed: The arguments provided to the tool are invalid: Model tried to call unavailable tool 'no_
    turn_started after:msg_1e7bde8cd001jclgfKqCo8CZ1n
    usage_reported usage:msg_1e7bdec390013keT6b5yiz22y8 500 in, 20 out
    tool_started call_fake005_0 task {"description":"Look","prompt":"Look into the corner.","subagent_type":"general"}
    tool_ended call_fake005_0 task ok: <task id="ses_e18421235ffekP9mR3IF9bG2xI" state="completed">⏎<task_result>⏎The corner is empty.⏎</tas
    turn_started after:msg_1e7bdec390013keT6b5yiz22y8
    usage_reported usage:msg_1e7bdfc11001XTxHE3QxrxAl0A 500 in, 20 out
    tool_started call_fake008_0 bash {"command":"rm -rf x","description":"Runs a command"}
    tool_ended call_fake008_0 bash ok: (no output)
    turn_started after:msg_1e7bdfc11001XTxHE3QxrxAl0A
    usage_reported usage:msg_1e7be0209001TtSTbvk02n45M1 500 in, 20 out
    message_appended message:msg_1e7be0209001TtSTbvk02n45M1 model: All done.
    run ses_e18427d18ffeUDir7GEYmPD2E4.ses_e18421235ffekP9mR3IF9bG2xI
    run_started run
    run_described about:/home/user/project:1.18.33
    message_appended message:msg_1e7bdee53001zSr7rq5kD8NmI0 user: Look into the corner.
    turn_started after:msg_1e7bdee53001zSr7rq5kD8NmI0
    run_described about:small
    usage_reported usage:msg_1e7bdeef3001V4lHuIKPRcSTE8 500 in, 20 out
    tool_started call_fake006_0 bash {"command":"echo in the corner","description":"Runs a command"}
    tool_ended call_fake006_0 bash ok: in the corner⏎
    turn_started after:msg_1e7bdeef3001V4lHuIKPRcSTE8
    usage_reported usage:msg_1e7bdf54e001f2A3XR7Qj0Ladr 500 in, 20 out
    message_appended message:msg_1e7bdf54e001f2A3XR7Qj0Ladr model: The corner is empty.
    "##);
}

#[test]
fn opencode_exports_and_stores_the_same() {
    let database = shown("opencode/opencode.db");
    let (main, _) = database.split_once("\nrun ").unwrap();
    assert_eq!(shown("opencode/export.json"), main);
    let stored = shown("opencode/storage/session/global/ses_e182c3127ffen1gvCzSu1UDL8s.json");
    let is_known =
        |line: &str| main.contains(line) || ["after:", "about:"].iter().any(|it| line.contains(it));
    assert!(stored.lines().skip(1).all(is_known), "{stored}");
}
