//! Session files of agents: `midcourse import` and `midcourse backtest` with a HOME that contains
//! sessions of Claude Code.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A user with a home folder of their own, in which agents keep their sessions.
struct User(TempDir);

impl User {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(arguments).env_clear().env("HOME", self.0.path());
        command.env("MIDCOURSE_HOME", self.data_dir()).stdin(Stdio::null());
        command
    }

    fn data_dir(&self) -> PathBuf {
        self.0.path().join("midcourse")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn output(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn error(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The objects that a command prints with `--json`.
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.output(&[arguments, &["--json"]].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Writes a session of Claude Code into the user's home folder and returns its path.
    fn write_session(&self, session: &str, lines: &str) -> PathBuf {
        let folder = self.0.path().join(".claude/projects/-home-user-project");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{session}.jsonl"));
        std::fs::write(&path, lines).unwrap();
        path
    }

    /// Reports an event as the hook of Claude Code does.
    fn hook(&self, payload: &Value) {
        let mut hook = self.command(&["hook", "claude-code"]);
        let mut child = hook.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        serde_json::to_writer(child.stdin.take().unwrap(), payload).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

fn line(session: &str, n: usize, kind: &str, message: &Value, more: &Value) -> String {
    let mut line = json!({"type": kind, "uuid": format!("line-{n}"), "sessionId": session,
        "cwd": "/home/user/project", "version": "2.1.325", "message": message,
        "timestamp": format!("2026-11-14T07:{:02}:{:02}.000Z", n / 60, n % 60)});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{line}\n")
}

fn call(session: &str, n: usize, command: &str, result: &str, is_error: bool) -> String {
    let id = format!("call-{n}");
    let content =
        json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}]);
    let response = json!({"id": format!("msg-{n}"), "model": "m", "content": content,
                          "usage": {"input_tokens": 1_000, "output_tokens": 50}});
    let content = json!([{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": is_error}]);
    let structured = if is_error { json!(result) } else { json!({"stdout": result, "stderr": ""}) };
    let more = json!({"toolUseResult": structured});
    [
        line(session, n, "assistant", &response, &json!({})),
        line(session, n + 5, "user", &json!({"role": "user", "content": content}), &more),
    ]
    .concat()
}

fn prompt(session: &str, n: usize, text: &str) -> String {
    line(session, n, "user", &json!({"role": "user", "content": text}), &json!({}))
}

/// A session that runs the same failing command eight times.
fn stuck(session: &str) -> String {
    let calls =
        (1..=8).map(|n| call(session, n * 10, "make", "Exit code 2\nno rule to make x", true));
    prompt(session, 0, "make the build pass") + &calls.collect::<String>()
}

/// A session in which every command does something new.
fn fine(session: &str) -> String {
    let calls = (1..=4)
        .map(|n| call(session, n * 10, &format!("cat {n}.rs"), &format!("fn f{n}()"), false));
    prompt(session, 0, "read the files") + &calls.collect::<String>()
}

#[test]
fn a_backtest_without_arguments_finds_the_sessions_of_agents() {
    let user = User::new();
    let path = user.write_session("aaaa-1", &stuck("aaaa-1"));
    user.write_session("bbbb-2", &fine("bbbb-2"));
    let screen = user.output(&["backtest"]);
    for expected in [
        "2 agent sessions: 2 min 10 s of work, 12 calls and 12.6 k tokens",
        "claude-code: 2 sessions, 2 min 10 s of work and 12 calls",
        "no sessions found of codex",
        "at call 3 of 8; after it: 50 s of work, 5 calls",
        &format!("midcourse replay {}", path.display()),
        "a problem in 1 of 2 sessions (50 %), the first at call 3",
        "After it, that session took another 50 s of work, 5 calls",
        "Nothing was stored",
    ] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    assert!(
        screen
            .lines()
            .filter(|line| !line.contains("replay"))
            .all(|line| line.chars().count() <= 100)
    );
    assert!(!user.data_dir().exists(), "a backtest stores nothing");
    let replayed = user.output(&["replay", path.to_str().unwrap()]);
    assert!(replayed.contains("8 calls, 8 failed") && replayed.contains("\"make\""), "{replayed}");
}

#[test]
fn a_message_about_the_deadline_is_not_trouble() {
    let user = User::new();
    let events: Vec<Value> = (0..4)
        .map(|n| {
            json!({"kind": "tool", "tool": "bash", "args": {"command": format!("cat {n}.rs")},
                   "result": format!("fn f{n}()"), "is_error": false, "t": n * 100})
        })
        .collect();
    let run = json!({"run_id": "r", "deadline": 400, "events": events});
    let file = user.0.path().join("runs.jsonl");
    std::fs::write(&file, format!("{run}\n")).unwrap();
    let lines = user.json(&["backtest", file.to_str().unwrap()]);
    assert!(lines.iter().any(|line| line["cause"] == "deadline"), "{lines:?}");
    let screen = user.output(&["backtest", file.to_str().unwrap()]);
    assert!(screen.contains("sent no message about a problem in any of them"), "{screen}");
}

#[test]
fn a_machine_without_sessions_says_where_it_looked() {
    let error = User::new().error(&["backtest"]);
    for expected in ["found no sessions", ".claude/projects", ".codex/sessions", "--store"] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn files_and_stored_runs_give_the_same_messages() {
    let user = User::new();
    let path = user.write_session("aaaa-1", &stuck("aaaa-1"));
    let path = path.to_str().unwrap();
    let of_file = user.json(&["backtest", path]);
    user.output(&["import", path]);
    let of_store = user.json(&["backtest", "--store"]);
    let by_name = user.json(&["backtest", "aaaa-1"]);
    let replayed = user.json(&["replay", "--run", "aaaa-1"]);
    let messages = |lines: &[Value]| -> Vec<(Value, Value)> {
        let deliveries = lines.iter().filter(|line| line["type"] == "delivery");
        deliveries.map(|line| (line["call"].clone(), line["text"].clone())).collect()
    };
    assert!(!messages(&of_file).is_empty());
    for lines in [of_store, by_name, replayed] {
        assert_eq!(messages(&lines), messages(&of_file));
    }
    assert!(user.error(&["backtest", "zzzz"]).contains("no file, directory or stored run `zzzz`"));
}

#[test]
fn importing_again_adds_only_what_is_new() {
    let user = User::new();
    let whole = stuck("aaaa-1");
    // Cut in the middle of the last line, as if the agent were writing it.
    let path = user.write_session("aaaa-1", whole.get(..whole.len() - 20).unwrap());
    let path = path.to_str().unwrap();
    let first = user.run(&["import", path, "--json"]);
    let warning = String::from_utf8(first.stderr).unwrap();
    assert!(warning.contains("the last line is cut off"), "{warning}");
    let first: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!((&first["unreadable"], &first["runs"]), (&1.into(), &1.into()));
    user.write_session("aaaa-1", &whole);
    let second = user.json(&["import", path]).remove(0);
    assert_eq!((&second["new"], &second["unreadable"]), (&1.into(), &0.into()), "{second}");
    let third = user.json(&["import", path]).remove(0);
    assert_eq!(third["new"], 0);
    let exported = user.output(&["export", "aaaa-1"]);
    let file = user.0.path().join("exported.jsonl");
    std::fs::write(&file, &exported).unwrap();
    let other = User::new();
    other.output(&["import", file.to_str().unwrap()]);
    assert_eq!(other.output(&["export", "aaaa-1"]), exported);
    assert!(other.output(&["verify"]).contains("no problems"));
}

#[test]
fn a_session_that_hooks_recorded_gets_only_what_they_missed() {
    let user = User::new();
    let session = "aaaa-1";
    let hook = |event: &str, more: Value| {
        let mut payload = json!({"session_id": session, "hook_event_name": event,
                                 "cwd": "/home/user/project"});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        user.hook(&payload);
    };
    hook("SessionStart", json!({"source": "startup"}));
    hook("UserPromptSubmit", json!({"prompt": "read the files"}));
    // The hooks report the first two of four calls.
    for n in [10, 20] {
        let input = json!({"command": format!("cat {}.rs", n / 10)});
        let call =
            json!({"tool_use_id": format!("call-{n}"), "tool_name": "Bash", "tool_input": input});
        hook("PreToolUse", call.clone());
        let mut ended = call;
        ended["tool_response"] = json!({"stdout": format!("fn f{}()", n / 10), "stderr": ""});
        hook("PostToolUse", ended);
    }
    let recorded = user.output(&["export", session]);
    let path = user.write_session(session, &fine(session));
    user.output(&["import", path.to_str().unwrap()]);
    let merged = user.output(&["export", session]);
    assert!(merged.starts_with(&recorded), "what was recorded does not change");
    let added: Vec<Value> = merged
        .strip_prefix(&recorded)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_kind = |kind: &str| added.iter().filter(|line| line["payload"]["kind"] == kind).count();
    assert_eq!((of_kind("tool_started"), of_kind("tool_ended")), (2, 2));
    assert_eq!((of_kind("message_appended"), of_kind("run_started")), (0, 0));
    assert_eq!(of_kind("usage_reported"), 4, "the hooks had no transcript to read them from");
    assert!(added.iter().all(|line| line.get("decision_point").is_none_or(Value::is_null)));
    assert!(user.output(&["verify"]).contains("no problems"));
    let again = user.json(&["import", path.to_str().unwrap()]).remove(0);
    assert_eq!(again["new"], 0);
}

#[test]
fn directories_are_searched_and_unknown_files_are_named() {
    let user = User::new();
    let path = user.write_session("aaaa-1", &fine("aaaa-1"));
    let folder = path.parent().unwrap();
    std::fs::write(folder.join("notes.json"), "{\"hello\": 1}").unwrap();
    std::fs::write(folder.join("empty.jsonl"), "").unwrap();
    let screen = user.output(&["import", folder.to_str().unwrap(), "--kinds"]);
    for expected in [
        "Read 1 file as claude-code.",
        "2 files whose format is not known",
        "assistant tool_use     4",
    ] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    let error = user.error(&["import", folder.join("notes.json").to_str().unwrap()]);
    assert!(error.contains("cannot tell the format") && error.contains("claude-code"), "{error}");
    let error = user.error(&["import", path.to_str().unwrap(), "--format", "events"]);
    assert!(error.contains("could be read as events"), "{error}");
}
