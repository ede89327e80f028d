//! `midcourse hook` as a host (Claude Code or Codex) runs it: one process for each payload, which
//! is the JSON text that the host writes to the process to report an event.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use midcourse::{Store, TrajectoryPayload, TrajectoryRecord};
use serde_json::{Value, json};

use crate::captures::{rollout_at, session};
use crate::events::{TempStore, test_settings};

/// Starts the hook of a host and writes a payload to it.
pub(crate) fn start(command: &mut Command, home: &Path, host: &str, payload: &[u8]) -> Child {
    // The hook may log to the cache folder, which must not be the user's real one.
    if !command.get_envs().any(|(name, _)| name == "XDG_CACHE_HOME") {
        command.env("XDG_CACHE_HOME", home.with_extension("cache"));
    }
    let mut child = command
        .args(["hook", host])
        .env("MIDCOURSE_HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // If the process exits early, writing fails; the check of its reply then shows why.
    let _ = child.stdin.take().unwrap().write_all(payload);
    child
}

/// The `midcourse` command with a hook timeout that is long enough on a busy machine.
pub(crate) fn patient() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.env("MIDCOURSE_HOOK_TIMEOUT_MS", "60000");
    command
}

/// The hook's reply, after a check that the hook succeeded and wrote nothing to standard error.
pub(crate) fn reply(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn hook(place: &TempStore, host: &str, payload: &str) -> String {
    let child = start(&mut patient(), place.data_dir().path(), host, payload.as_bytes());
    reply(child.wait_with_output().unwrap())
}

fn claude(event: &str, fields: Value) -> String {
    let mut payload = json!({"session_id": "s", "hook_event_name": event, "cwd": "/"});
    payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    payload.to_string()
}

/// The three payloads that Claude Code sends for a tool call: before it, after it, and after all
/// calls of the same response. `Err` is the error text of a failed call.
fn call(id: &str, command: &str, result: Result<&str, &str>) -> [String; 3] {
    let base = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id});
    let with = |name: &str, value: Value| {
        let mut fields = base.clone();
        fields[name] = value;
        fields
    };
    let (end, text) = match result {
        Ok(text) => (
            claude("PostToolUse", with("tool_response", json!({"stdout": text, "stderr": ""}))),
            text,
        ),
        Err(text) => (claude("PostToolUseFailure", with("error", json!(text))), text),
    };
    let calls = json!({"tool_calls": [with("tool_response", json!(text))]});
    [claude("PreToolUse", base.clone()), end, claude("PostToolBatch", calls)]
}

fn records(place: &TempStore, run: &str) -> Vec<TrajectoryRecord> {
    place.open().trajectory(run).unwrap()
}

/// Every call that ended: its id, how it ended, and the beginning of its text.
fn ends(records: &[TrajectoryRecord]) -> Vec<String> {
    let short = |text: &str| text.chars().take(24).collect::<String>();
    let end = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::ToolEnded { tool_call_id, is_error, result, .. } => {
            let how = if *is_error { "failed" } else { "ok" };
            Some(format!("{tool_call_id} {how} {:?}", short(&result.comparable_text())))
        }
        TrajectoryPayload::Denied { tool_call_id, reason, .. } => {
            Some(format!("{tool_call_id} denied {:?}", short(reason.as_deref().unwrap())))
        }
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

fn count(records: &[TrajectoryRecord], kind: &str) -> usize {
    records.iter().filter(|record| record.payload.kind() == kind).count()
}

/// Sends the payloads one after the other, each to `hooks` hook processes at the same time. Returns
/// the replies of all processes.
fn feed(place: &TempStore, host: &str, payloads: &[String], hooks: usize) -> Vec<String> {
    let mut replies = Vec::new();
    for payload in payloads {
        let home = place.data_dir();
        let started: Vec<Child> = (0..hooks)
            .map(|_| start(&mut patient(), home.path(), host, payload.as_bytes()))
            .collect();
        replies.extend(started.into_iter().map(|child| reply(child.wait_with_output().unwrap())));
    }
    replies
}

#[test]
fn every_call_of_a_claude_code_session_is_recorded_once() {
    // With 2, every event is reported twice, as if the user had installed the hooks twice.
    for hooks in [1, 2] {
        let place = TempStore::new();
        let payloads = session("claude-code-2.1.325", "main-run");
        let replies = feed(&place, "claude-code", &payloads, hooks);
        assert!(replies.iter().all(String::is_empty), "a clean run gets no message: {replies:?}");
        let run = "444d2df8-d614-4b9d-a2cb-91102a0181a7";
        let session = records(&place, run);
        insta::allow_duplicates! {
            insta::assert_snapshot!(ends(&session).join("\n"), @r#"
            toolu_fake0001_1 ok "hello"
            toolu_fake0002_0 ok "File created successfull"
            toolu_fake0003_0 ok "hi\n"
            toolu_fake0004_0 failed "Exit code 3\nout\nerr"
            toolu_fake0005_0 failed "File does not exist. Not"
            toolu_fake0006_0 ok "a"
            toolu_fake0006_1 ok "b"
            toolu_fake0007_0 ok "{\"isAsync\":true,\"status\""
            "#);
        }
        assert_eq!(count(&session, "tool_started"), 8);
        assert_eq!(count(&session, "run_started"), 1);
        assert_eq!(count(&session, "run_ended"), 1);
        assert_eq!(count(&session, "turn_started"), 7);
        let child = records(&place, &format!("{run}.a60b8f77967243656"));
        assert_eq!(ends(&child), ["toolu_fake0008_0 ok \"in-subagent\""]);
        assert_eq!(child[0].parent_run_id.as_ref().unwrap().as_str(), run);
        assert_eq!(place.findings(), [""; 0]);
        assert!(!place.data_dir().log_file().exists(), "there were no problems");
    }
}

#[test]
fn a_refused_call_is_recorded_as_refused() {
    let place = TempStore::new();
    feed(&place, "claude-code", &session("claude-code-2.1.325", "permission-denied"), 1);
    let session = records(&place, "286ea521-a682-4bb1-84cc-816ffbdfe962");
    assert_eq!(ends(&session), ["toolu_fake0001_0 denied \"This Bash command contai\""]);
}

#[test]
fn two_resumptions_with_equal_payloads_are_both_recorded() {
    for hooks in [1, 2] {
        let place = TempStore::new();
        let payloads = session("claude-code-2.1.325", "resume-and-compact");
        feed(&place, "claude-code", &payloads, hooks);
        let session = records(&place, "47d39550-f06f-4eb2-bd7e-d819af7377fe");
        let kinds: Vec<_> = session.iter().map(|record| record.payload.kind()).collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(kinds.join(" "), @r#"run_started run_described run_ended config_applied deadline_set resumed run_ended resumed context_compacted run_ended resumed run_ended"#);
        }
    }
}

/// Sends the payloads of a captured Codex session to the hook. Before each payload, writes Codex's
/// session file as it was when Codex sent that payload. Returns the replies that are not empty.
fn feed_codex(place: &TempStore, name: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rollout.jsonl");
    let mut replies = Vec::new();
    for payload in session("codex-0.166.0", name) {
        std::fs::write(&file, rollout_at(name, &payload)).unwrap();
        let mut moved: Value = serde_json::from_str(&payload).unwrap();
        moved["transcript_path"] = json!(file);
        replies.push(hook(place, "codex", &moved.to_string()));
    }
    replies.retain(|reply| !reply.is_empty());
    replies
}

#[test]
fn every_call_of_a_codex_session_is_recorded_once() {
    let place = TempStore::new();
    assert_eq!(feed_codex(&place, "main-run"), [""; 0]);
    let session = records(&place, "01a1de06-e1a4-7691-9f94-18644a020dda");
    insta::assert_snapshot!(ends(&session).join("\n"), @r#"
    call_fake001_1 ok "hello\n"
    call_fake002_0 failed "Process exited with code"
    call_fake003_0 failed "unsupported custom tool "
    call_fake004_0 ok "a\n"
    call_fake004_1 ok "b\n"
    call_fake005_0 failed "unsupported call: update"
    "#);
    assert_eq!(count(&session, "tool_started"), 6);
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn codex_calls_whose_end_no_hook_reports_are_recorded_once() {
    let place = TempStore::new();
    assert_eq!(feed_codex(&place, "calls-without-hooks").len(), 1, "a loop gets one message");
    let session = records(&place, "01a1dfe3-7712-7232-9628-e96aa4c1db17");
    insta::assert_snapshot!(ends(&session).join("\n"), @r#"
    call_fake001_0 failed "Process exited with code"
    call_fake002_0 failed "Process exited with code"
    call_fake003_0 failed "Process exited with code"
    call_fake004_0 failed "Process exited with code"
    call_fake005_0 ok "Exit code: 0\nWall time: "
    call_fake006_0 failed "apply_patch verification"
    call_fake007_0 failed "apply_patch verification"
    call_fake008_1 ok "b\n"
    call_fake008_0 failed "Process exited with code"
    call_fake009_0 failed "unsupported call: update"
    call_fake010_0 failed "unsupported call: nosuch"
    call_fake011_0 ok "Chunk ID: d97960\nWall ti"
    "#);
    assert_eq!(count(&session, "tool_started"), 12);
    assert_eq!(count(&session, "resumed"), 1);
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn claude_code_calls_that_were_never_made_are_recorded_once() {
    let place = TempStore::new();
    let payloads = session("claude-code-2.1.325", "calls-not-made");
    let mut replies = feed(&place, "claude-code", &payloads, 2);
    replies.retain(|reply| !reply.is_empty());
    assert_eq!(replies.len(), 1, "one of two hooks delivers one message: {replies:?}");
    let session = records(&place, "0d992700-520a-49c9-aad0-fa7453271dda");
    insta::assert_snapshot!(ends(&session).join("\n"), @r#"
    toolu_fake0001_0 failed "Exit code 2\nls: cannot a"
    toolu_fake0002_0 failed "Exit code 2\nls: cannot a"
    toolu_fake0003_0 failed "Exit code 2\nls: cannot a"
    toolu_fake0004_0 failed "Exit code 2\nls: cannot a"
    toolu_fake0005_0 denied "Claude requested permiss"
    toolu_fake0006_0 failed "<tool_use_error>InputVal"
    toolu_fake0007_0 failed "<tool_use_error>Error: N"
    toolu_fake0008_0 ok "1"
    toolu_fake0008_1 ok "File created successfull"
    toolu_fake0008_2 failed "Exit code 4"
    toolu_fake0008_3 ok "3"
    toolu_fake0009_0 ok "{\"isAsync\":true,\"status\""
    "#);
    assert_eq!(count(&session, "tool_started"), 12);
}

#[test]
fn a_loop_gets_one_message_in_the_format_of_the_host() {
    let place = TempStore::new();
    let mut replies = Vec::new();
    for n in 0..5 {
        let id = format!("toolu_{n}");
        for payload in call(&id, "make", Err("Exit code 2\nmake: *** no rule to make target")) {
            let reply = hook(&place, "claude-code", &payload);
            if !reply.is_empty() {
                replies.push(format!("call {n}: {reply}"));
            }
        }
    }
    insta::assert_snapshot!(replies.join("\n"), @r#"call 2: {"hookSpecificOutput":{"hookEventName":"PostToolUseFailure","additionalContext":"[midcourse run monitor]\n[Guidance]\n\nYou ran \"make\" 3 times and it failed the same way each time, with nothing in between. Check that the name in the error is one that you meant, and list the place where it should be."}}"#);
    assert_eq!(count(&records(&place, "s"), "guidance_delivered"), 1);
}

#[test]
fn a_loop_in_codex_gets_one_message() {
    let place = TempStore::new();
    let payload = |event: &str, n: usize| {
        json!({"session_id": "s", "hook_event_name": event, "tool_name": "Bash",
               "tool_use_id": format!("call_{n}"), "tool_input": {"command": "make"},
               "tool_response": "make: *** [all] Error 2\n"})
        .to_string()
    };
    let mut replies = Vec::new();
    for n in 0..5 {
        for event in ["PreToolUse", "PostToolUse"] {
            replies.push(hook(&place, "codex", &payload(event, n)));
        }
    }
    replies.retain(|reply| !reply.is_empty());
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert!(replies[0].starts_with(
        "{\"hookSpecificOutput\":{\"hookEventName\":\"PostToolUse\",\"additionalContext\":\
         \"[midcourse run monitor]\\n[Guidance]\\n\\n"
    ));
}

/// Sends about a thousand payloads of one session from eight threads, each payload to `hooks` hook
/// processes at the same time. Checks that every event is recorded exactly once.
fn run_concurrently(hooks: usize) {
    const THREADS: usize = 8;
    const CALLS: usize = 62;
    let place = TempStore::new();
    let begin = [
        claude("SessionStart", json!({"source": "startup"})),
        claude("UserPromptSubmit", json!({"prompt": "make it pass", "prompt_id": "p"})),
    ];
    feed(&place, "claude-code", &begin, hooks);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let place = &place;
            scope.spawn(move || {
                for n in 0..CALLS {
                    let id = format!("toolu_{thread}_{n}");
                    let [pre, post, _] = call(&id, &format!("step {thread} {n}"), Ok(&id));
                    feed(place, "claude-code", &[pre, post], hooks);
                }
            });
        }
    });
    let end = [
        claude("Stop", json!({"last_assistant_message": "done"})),
        claude("SessionEnd", json!({"reason": "other"})),
    ];
    feed(&place, "claude-code", &end, hooks);
    let mut store = Store::open(&place.data_dir(), test_settings()).unwrap();
    while store.ingest_spilled().unwrap() > 0 {}
    drop(store);
    let session = records(&place, "s");
    let mut ends = ends(&session);
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), THREADS * CALLS, "no call is lost");
    for (kind, expected) in [
        ("run_started", 1),
        ("message_appended", 2),
        ("tool_started", THREADS * CALLS),
        ("tool_ended", THREADS * CALLS),
        ("run_ended", 1),
    ] {
        assert_eq!(count(&session, kind), expected, "{kind}");
    }
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn concurrent_hooks_lose_nothing() {
    run_concurrently(1);
}

#[test]
fn concurrent_hooks_that_are_installed_twice_record_everything_once() {
    run_concurrently(2);
}

#[test]
fn a_payload_that_cannot_be_read_is_kept_and_logged() {
    let huge = || {
        let text = "x".repeat(50 * 1024 * 1024);
        call("toolu_1", "cat", Ok(&text))[1].clone().into_bytes()
    };
    for (payload, run, raw) in [
        (Vec::new(), "claude-code.unread", ""),
        (b"not JSON at all".to_vec(), "claude-code.unread", "not JSON"),
        (vec![0, 159, 146, 150, 255], "claude-code.unread", "\0\\x9f\\x92\\x96\\xff"),
        (
            call("toolu_1", "ls", Ok("out"))[1].as_bytes()[..80].to_vec(),
            "s",
            "{\"session_id\":\"s\"",
        ),
        (huge(), "s", "{\"session_id\":\"s\""),
    ] {
        let place = TempStore::new();
        let home = place.data_dir();
        let child = start(&mut patient(), home.path(), "claude-code", &payload);
        assert_eq!(reply(child.wait_with_output().unwrap()), "");
        let records = records(&place, run);
        let TrajectoryPayload::Unread { host, raw: kept } = &records[0].payload else {
            panic!("{:?}", records[0]);
        };
        assert_eq!((host.as_str(), records.len()), ("claude-code", 1));
        assert!(kept.starts_with(raw), "{kept:.80}");
        let log = std::fs::read_to_string(home.log_file()).unwrap();
        assert!(log.contains("claude-code: cannot read a payload of"), "{log}");
        assert!(log.lines().all(|line| line.len() < 600), "{log}");
    }
}

#[test]
fn a_wrong_command_line_succeeds_with_an_empty_reply_and_a_line_in_the_log() {
    use std::ffi::OsStr;
    let place = TempStore::new();
    let run = |arguments: &[&OsStr]| {
        let output = patient()
            .arg("hook")
            .args(arguments)
            .env("MIDCOURSE_HOME", place.data_dir().path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(reply(output), "", "{arguments:?}");
        let log = std::fs::read_to_string(place.data_dir().log_file()).unwrap();
        log.lines().last().unwrap().to_owned()
    };
    for (arguments, problem) in [
        (&["emacs"][..], "emacs: unknown host; known hosts are claude-code, codex"),
        (&[], "wrong command line: the following required arguments were not provided"),
        (&["--bogus", "x"], "wrong command line: unexpected argument '--bogus' found"),
        (&["--bogus", "--help"], "wrong command line: unexpected argument '--bogus' found"),
        (&["claude-code", "--timeout-ms", "soon"], "wrong command line: invalid value 'soon'"),
    ] {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let line = run(&arguments);
        assert!(line.contains(problem), "{line}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let line = run(&[OsStr::from_bytes(b"codex\xff")]);
        assert!(line.contains("wrong command line: invalid UTF-8"), "{line}");
    }
}

#[test]
fn without_a_data_directory_the_log_is_in_the_cache_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let cache = folder.path().join("cache");
    let mut command = patient();
    command.env("XDG_CACHE_HOME", &cache).env("HOME", folder.path());
    let payload = &call("toolu_1", "ls", Ok("out"))[0];
    let child = start(&mut command, &file.join("home"), "claude-code", payload.as_bytes());
    assert_eq!(reply(child.wait_with_output().unwrap()), "");
    if cfg!(target_os = "linux") {
        let log = std::fs::read_to_string(cache.join("midcourse/hook.log")).unwrap();
        assert!(log.contains("claude-code: an event is kept in memory"), "{log}");
    }
}

#[test]
fn an_event_is_spilled_while_the_store_is_locked() {
    let place = TempStore::new();
    let [pre, post, _] = call("toolu_1", "ls", Ok("out"));
    assert_eq!(hook(&place, "claude-code", &pre), "");
    let other = rusqlite::Connection::open(place.data_dir().store_file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.env("MIDCOURSE_HOOK_TIMEOUT_MS", "4000");
    let child = start(&mut command, place.data_dir().path(), "claude-code", post.as_bytes());
    assert_eq!(reply(child.wait_with_output().unwrap()), "");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(midcourse::has_spilled(&place.data_dir()));
    let log = std::fs::read_to_string(place.data_dir().log_file()).unwrap();
    assert!(log.contains("an event is in the spill folder and stored later"), "{log}");
    assert_eq!(hook(&place, "claude-code", &claude("Stop", json!({}))), "");
    let kinds: Vec<_> = records(&place, "s").iter().map(|record| record.payload.kind()).collect();
    assert_eq!(kinds, ["tool_started", "tool_ended", "message_appended"]);
}

#[test]
fn a_payload_that_does_not_end_times_out() {
    let place = TempStore::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    let mut child = command
        .args(["hook", "claude-code"])
        .env("MIDCOURSE_HOME", place.data_dir().path())
        .env("MIDCOURSE_HOOK_TIMEOUT_MS", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"session_id\":").unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(reply(child.wait_with_output().unwrap()), "");
    assert!(begun.elapsed() < Duration::from_secs(30), "the host had to wait");
    drop(input);
    let log = std::fs::read_to_string(place.data_dir().log_file()).unwrap();
    assert!(log.contains("timed out before the payload was read"), "{log}");
}
