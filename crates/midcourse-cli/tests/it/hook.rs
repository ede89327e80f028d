//! `midcourse hook` as a host runs it: one process a payload.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use midcourse::{Store, TrajectoryPayload, TrajectoryRecord};
use serde_json::{Value, json};

use crate::events::{Place, quick};
use crate::hosts::{rollout_at, session};

/// Starts the hook of a host on a payload.
pub(crate) fn start(command: &mut Command, home: &Path, host: &str, payload: &[u8]) -> Child {
    // No test writes to the folders of whoever runs it.
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
    // A process that does not read to the end is found out by its answer.
    let _ = child.stdin.take().unwrap().write_all(payload);
    child
}

/// The real command, with time enough on a busy machine.
pub(crate) fn patient() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.env("MIDCOURSE_HOOK_TIMEOUT_MS", "60000");
    command
}

/// What the host gets: never a failure, never a word on standard error.
pub(crate) fn answer(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn hook(place: &Place, host: &str, payload: &str) -> String {
    let child = start(&mut patient(), place.home().path(), host, payload.as_bytes());
    answer(child.wait_with_output().unwrap())
}

fn claude(event: &str, fields: Value) -> String {
    let mut payload = json!({"session_id": "s", "hook_event_name": event, "cwd": "/"});
    payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    payload.to_string()
}

/// The payloads of a call, with what it answered.
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

fn records(place: &Place, run: &str) -> Vec<TrajectoryRecord> {
    place.open().trajectory(run).unwrap()
}

/// Every call that ended: its id, how, and the beginning of its text.
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

/// Feeds a session; each payload to so many hooks at once.
fn feed(place: &Place, host: &str, payloads: &[String], hooks: usize) -> Vec<String> {
    let mut answers = Vec::new();
    for payload in payloads {
        let home = place.home();
        let started: Vec<Child> = (0..hooks)
            .map(|_| start(&mut patient(), home.path(), host, payload.as_bytes()))
            .collect();
        answers.extend(started.into_iter().map(|child| answer(child.wait_with_output().unwrap())));
    }
    answers
}

#[test]
fn a_whole_session_of_claude_code_has_every_call_once() {
    // Installed twice, the hooks say everything twice.
    for hooks in [1, 2] {
        let place = Place::new();
        let payloads = session("claude-code-2.1.325", "main-run");
        let answers = feed(&place, "claude-code", &payloads, hooks);
        assert!(answers.iter().all(String::is_empty), "a clean run is told nothing: {answers:?}");
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
        assert!(!place.home().log_file().exists(), "nothing went wrong");
    }
}

#[test]
fn a_refused_call_is_on_record_as_refused() {
    let place = Place::new();
    feed(&place, "claude-code", &session("claude-code-2.1.325", "permission-denied"), 1);
    let session = records(&place, "286ea521-a682-4bb1-84cc-816ffbdfe962");
    assert_eq!(ends(&session), ["toolu_fake0001_0 denied \"This Bash command contai\""]);
}

#[test]
fn a_session_is_resumed_twice_although_nothing_tells_the_payloads_apart() {
    for hooks in [1, 2] {
        let place = Place::new();
        let payloads = session("claude-code-2.1.325", "resume-and-compact");
        feed(&place, "claude-code", &payloads, hooks);
        let session = records(&place, "47d39550-f06f-4eb2-bd7e-d819af7377fe");
        let kinds: Vec<_> = session.iter().map(|record| record.payload.kind()).collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(kinds.join(" "), @r#"run_started run_ended config_applied deadline_set resumed run_ended resumed context_compacted run_ended resumed run_ended"#);
        }
    }
}

/// Feeds a captured session of Codex, with the session's file as it was; returns the answers.
fn feed_codex(place: &Place, name: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rollout.jsonl");
    let mut answers = Vec::new();
    for payload in session("codex-0.166.0", name) {
        std::fs::write(&file, rollout_at(name, &payload)).unwrap();
        let mut moved: Value = serde_json::from_str(&payload).unwrap();
        moved["transcript_path"] = json!(file);
        answers.push(hook(place, "codex", &moved.to_string()));
    }
    answers.retain(|answer| !answer.is_empty());
    answers
}

#[test]
fn a_whole_session_of_codex_has_every_call_once() {
    let place = Place::new();
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
fn calls_of_codex_that_no_hook_tells_the_end_of_are_there_once() {
    let place = Place::new();
    assert_eq!(feed_codex(&place, "calls-without-hooks").len(), 1, "a loop is told once");
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
fn calls_of_claude_code_that_were_never_made_are_there_once() {
    let place = Place::new();
    let payloads = session("claude-code-2.1.325", "calls-not-made");
    let mut answers = feed(&place, "claude-code", &payloads, 2);
    answers.retain(|answer| !answer.is_empty());
    assert_eq!(answers.len(), 1, "a loop is told once, by one of two hooks: {answers:?}");
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
fn a_loop_is_told_once_and_in_the_words_of_the_host() {
    let place = Place::new();
    let mut heard = Vec::new();
    for n in 0..5 {
        let id = format!("toolu_{n}");
        for payload in call(&id, "make", Err("Exit code 2\nmake: *** no rule to make target")) {
            let answer = hook(&place, "claude-code", &payload);
            if !answer.is_empty() {
                heard.push(format!("call {n}: {answer}"));
            }
        }
    }
    insta::assert_snapshot!(heard.join("\n"), @r#"call 2: {"hookSpecificOutput":{"hookEventName":"PostToolUseFailure","additionalContext":"[midcourse run monitor]\n[Guidance]\n\nYou made the same tool call 3 times and got the same result, with no change in between. Repeating it will not help: try a different source or a smaller step."}}"#);
    assert_eq!(count(&records(&place, "s"), "guidance_delivered"), 1);
}

#[test]
fn a_loop_in_codex_is_told_once() {
    let place = Place::new();
    let payload = |event: &str, n: usize| {
        json!({"session_id": "s", "hook_event_name": event, "tool_name": "Bash",
               "tool_use_id": format!("call_{n}"), "tool_input": {"command": "make"},
               "tool_response": "make: *** [all] Error 2\n"})
        .to_string()
    };
    let mut heard = Vec::new();
    for n in 0..5 {
        for event in ["PreToolUse", "PostToolUse"] {
            heard.push(hook(&place, "codex", &payload(event, n)));
        }
    }
    heard.retain(|answer| !answer.is_empty());
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with(
        "{\"hookSpecificOutput\":{\"hookEventName\":\"PostToolUse\",\"additionalContext\":\
         \"[midcourse run monitor]\\n[Guidance]\\n\\n"
    ));
}

/// A thousand events of one session by eight at once, each sent to so many hooks at once.
fn crowd(hooks: usize) {
    const LANES: usize = 8;
    const CALLS: usize = 62;
    let place = Place::new();
    let begin = [
        claude("SessionStart", json!({"source": "startup"})),
        claude("UserPromptSubmit", json!({"prompt": "make it pass", "prompt_id": "p"})),
    ];
    feed(&place, "claude-code", &begin, hooks);
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let place = &place;
            scope.spawn(move || {
                for n in 0..CALLS {
                    let id = format!("toolu_{lane}_{n}");
                    let [pre, post, _] = call(&id, &format!("step {lane} {n}"), Ok(&id));
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
    let mut store = Store::open(&place.home(), quick()).unwrap();
    while store.ingest_spilled().unwrap() > 0 {}
    drop(store);
    let session = records(&place, "s");
    let mut ends = ends(&session);
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), LANES * CALLS, "nothing is lost");
    for (kind, expected) in [
        ("run_started", 1),
        ("message_appended", 2),
        ("tool_started", LANES * CALLS),
        ("tool_ended", LANES * CALLS),
        ("run_ended", 1),
    ] {
        assert_eq!(count(&session, kind), expected, "{kind}");
    }
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn eight_at_once_lose_nothing() {
    crowd(1);
}

#[test]
fn eight_at_once_with_every_hook_installed_twice_double_nothing() {
    crowd(2);
}

/// Payloads that are none: the answer is empty, what came is kept, and the log says so.
#[test]
fn what_cannot_be_read_is_kept_and_logged() {
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
        let place = Place::new();
        let home = place.home();
        let child = start(&mut patient(), home.path(), "claude-code", &payload);
        assert_eq!(answer(child.wait_with_output().unwrap()), "");
        let records = records(&place, run);
        let TrajectoryPayload::Unread { host, raw: kept } = &records[0].payload else {
            panic!("{:?}", records[0]);
        };
        assert_eq!((host.as_str(), records.len()), ("claude-code", 1));
        assert!(kept.starts_with(raw), "{kept:.80}");
        let log = std::fs::read_to_string(home.log_file()).unwrap();
        assert!(log.contains("claude-code: a payload of"), "{log}");
        assert!(log.lines().all(|line| line.len() < 600), "{log}");
    }
}

#[test]
fn a_host_that_is_not_known_is_no_reason_to_block_the_agent() {
    let place = Place::new();
    for arguments in [&["hook", "emacs"][..], &["hook"], &["hook", "--bogus", "x"]] {
        let output = patient()
            .args(arguments)
            .env("MIDCOURSE_HOME", place.home().path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(answer(output), "", "{arguments:?}");
    }
    let log = std::fs::read_to_string(place.home().log_file()).unwrap();
    assert_eq!(log.matches("those known are claude-code, codex").count(), 3, "{log}");
}

#[test]
fn a_home_that_cannot_be_made_is_told_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let cache = folder.path().join("cache");
    let mut command = patient();
    command.env("XDG_CACHE_HOME", &cache).env("HOME", folder.path());
    let payload = &call("toolu_1", "ls", Ok("out"))[0];
    let child = start(&mut command, &file.join("home"), "claude-code", payload.as_bytes());
    assert_eq!(answer(child.wait_with_output().unwrap()), "");
    if cfg!(target_os = "linux") {
        let log = std::fs::read_to_string(cache.join("midcourse/hook.log")).unwrap();
        assert!(log.contains("claude-code: an event is lost"), "{log}");
    }
}

#[test]
fn a_store_that_somebody_holds_makes_the_event_wait_aside() {
    let place = Place::new();
    let [pre, post, _] = call("toolu_1", "ls", Ok("out"));
    assert_eq!(hook(&place, "claude-code", &pre), "");
    let other = rusqlite::Connection::open(place.home().store_file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.env("MIDCOURSE_HOOK_TIMEOUT_MS", "4000");
    let child = start(&mut command, place.home().path(), "claude-code", post.as_bytes());
    assert_eq!(answer(child.wait_with_output().unwrap()), "");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(midcourse::has_spilled(&place.home()));
    let log = std::fs::read_to_string(place.home().log_file()).unwrap();
    assert!(log.contains("waits in the spill folder"), "{log}");
    assert_eq!(hook(&place, "claude-code", &claude("Stop", json!({}))), "");
    let kinds: Vec<_> = records(&place, "s").iter().map(|record| record.payload.kind()).collect();
    assert_eq!(kinds, ["tool_started", "tool_ended", "message_appended"]);
}

#[test]
fn a_payload_that_does_not_end_is_not_waited_for() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    let mut child = command
        .args(["hook", "claude-code"])
        .env("MIDCOURSE_HOME", place.home().path())
        .env("MIDCOURSE_HOOK_TIMEOUT_MS", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"session_id\":").unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(answer(child.wait_with_output().unwrap()), "");
    assert!(begun.elapsed() < Duration::from_secs(30), "the host was held up");
    drop(input);
    let log = std::fs::read_to_string(place.home().log_file()).unwrap();
    assert!(log.contains("the time was over before there was an event"), "{log}");
}
