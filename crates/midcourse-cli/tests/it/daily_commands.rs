//! `list`, `show` and `search` as people use them: what they print for a terminal of some width and
//! in a pipe, what their filters choose, and that what they print can be given to each other.

use std::process::Stdio;

use midcourse::{Event, RunIdentity, RunOutcome, TrajectoryPayload};
use serde_json::{Value, json};

use crate::archive::everything;
use crate::events::{at, hook, root, tool_ended, tool_started, user_message, without_hashes};
use crate::runs_command::User;

fn with_columns(user: &User, columns: &str, args: &[&str]) -> String {
    let output = user.command(args).env("COLUMNS", columns).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Adds a call that fails: its start, and its end two seconds later.
fn failing_call(user: &User, run: &str, call: &str, error: &str) {
    let mut store = user.place.open();
    store.append(tool_started(run, call)).unwrap();
    let mut end = tool_ended(run, call, error);
    end.at = at(2);
    let TrajectoryPayload::ToolEnded { is_error, .. } = &mut end.payload else { unreachable!() };
    *is_error = true;
    store.append(end).unwrap();
}

fn end_of(run: &str, outcome: RunOutcome, seconds: u64) -> Event {
    let payload = TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() };
    Event::new(root(run), hook(), at(seconds), payload)
}

fn described(run: &str, folder: &str) -> Event {
    let payload = json!({"kind": "run_described", "folder": folder});
    Event::new(root(run), hook(), at(0), serde_json::from_value(payload).unwrap())
}

/// The ids of the runs that `list` chooses.
fn listed(user: &User, args: &[&str]) -> Vec<String> {
    let lines = user.lines(&[&["list", "--json"], args].concat());
    lines.iter().map(|line| line["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn list_fits_the_terminal() {
    let user = User::new();
    assert_eq!(user.output(&["list"]), "No runs recorded yet.\n");
    assert_eq!(user.output(&["list", "--json"]), "");
    everything(&mut user.place.open());
    user.place.open().append(described("r", "/home/somebody/projects/parser")).unwrap();
    insta::assert_snapshot!(user.output(&["list"]), @r"
    RUN         HOST  STARTED            DURATION  OUTCOME  CALLS  FAILED  MESSAGES  FOLDER                          TASK
    r           test  2026-09-21 14:13  1 min 0 s  failed       7       4         1  /home/somebody/projects/parser  make it build
      r.worker  test  2026-09-21 14:13       0 ms  no end       0       0         0
    ");
    insta::assert_snapshot!(with_columns(&user, "60", &["list"]), @r"
    RUN         STARTED      OUTCOME  CALLS  MSGS  TASK
    r           09-21 14:13  failed       7     1  make it build
      r.worker  09-21 14:13  no end       0     0
    ");
    insta::assert_snapshot!(with_columns(&user, "80", &["list"]), @r"
    RUN         STARTED           OUTCOME  CALLS  FAILED  MSGS  TASK
    r           2026-09-21 14:13  failed       7       4     1  make it build
      r.worker  2026-09-21 14:13  no end       0       0     0
    ");
    insta::assert_snapshot!(with_columns(&user, "200", &["list"]), @r"
    RUN         HOST  STARTED            DURATION  OUTCOME  CALLS  FAILED  MESSAGES  FOLDER                          TASK
    r           test  2026-09-21 14:13  1 min 0 s  failed       7       4         1  /home/somebody/projects/parser  make it build
      r.worker  test  2026-09-21 14:13       0 ms  no end       0       0         0
    ");
    let long = "a task of many words, 漢字 among them, ".repeat(20);
    user.place.open().append(user_message("01a1e5f7-a28c-7040-9317-c0b24bfb0e7c", &long)).unwrap();
    for columns in 60..220 {
        for line in with_columns(&user, &columns.to_string(), &["list"]).lines() {
            let wide = line.chars().filter(|c| ('一'..='鿿').contains(c)).count();
            assert!(line.chars().count() + wide <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn list_filters_runs() {
    let user = User::new();
    let mut store = user.place.open();
    for (run, folder) in
        [("a", "/projects/one"), ("b", "/projects/one/sub"), ("c", "/projects/one-more")]
    {
        store.append(user_message(run, "task")).unwrap();
        store.append(described(run, folder)).unwrap();
    }
    store.append(end_of("a", RunOutcome::Failed, 5)).unwrap();
    store.append(end_of("b", RunOutcome::Completed, 100_000)).unwrap();
    let mut other = user_message("d", "task");
    other.source = midcourse::Source::new("codex", midcourse::Channel::Hook);
    store.append(other).unwrap();
    everything(&mut store);
    drop(store);
    assert_eq!(listed(&user, &["--failed"]), ["r", "a"]);
    assert_eq!(listed(&user, &["--said"]), ["r"]);
    assert_eq!(listed(&user, &["--host", "codex"]), ["d"]);
    assert_eq!(listed(&user, &["--project", "/projects/one"]), ["b", "a"]);
    assert_eq!(listed(&user, &["--project", "/projects/one/"]), ["b", "a"]);
    assert_eq!(listed(&user, &["--since", "2026-09-22"]), ["b"]);
    assert_eq!(listed(&user, &["--since", "1h"]), [""; 0]);
    assert_eq!(user.output(&["list", "--since", "1h"]), "No run matches.\n");
    assert_eq!(listed(&user, &["-n", "2"]).len(), 3, "two runs and a subagent");
    assert!(user.output(&["list", "-n", "2"]).ends_with("2 of 5 runs; use `--all` to show all.\n"));
}

#[test]
fn subagents_are_listed_under_their_parents_and_are_never_the_latest_run() {
    let user = User::new();
    let mut store = user.place.open();
    store.append(user_message("parent", "x")).unwrap();
    let child = RunIdentity::child_of(&root("parent"), "parent.child");
    let grandchild = RunIdentity::child_of(&child, "parent.child.child");
    for (run, seconds) in [(child, 50), (grandchild, 60)] {
        let event = Event::new(run, hook(), at(seconds), TrajectoryPayload::TurnStarted);
        store.append(event).unwrap();
    }
    let mut other = user_message("other", "x");
    other.at = at(20);
    store.append(other).unwrap();
    drop(store);
    assert_eq!(listed(&user, &[]), ["other", "parent", "parent.child", "parent.child.child"]);
    let shown = user.output(&["list"]);
    let starts: Vec<&str> =
        shown.lines().skip(1).map(|line| line.split("  test").next().unwrap().trim_end()).collect();
    assert_eq!(starts, ["other", "parent", "  parent.child", "    parent.child.child"]);
    assert_eq!(user.lines(&["show", "latest", "--json"])[0]["run_id"], "other");
    assert_eq!(user.lines(&["show", "par", "--json"])[0]["run_id"], "parent");
    assert_eq!(user.lines(&["show", "other", "--json"])[0]["run_id"], "other");
    assert_eq!(user.lines(&["show", "t.child.child", "--json"])[0]["run_id"], "parent.child.child");
    assert!(user.error(&["show", "ther"]).contains("no run `ther`"));
}

#[test]
fn show_prints_a_run_entry_by_entry() {
    let user = User::new();
    everything(&mut user.place.open());
    insta::assert_snapshot!(without_hashes(&with_columns(&user, "140", &["show", "r"])), @r#"
    run        r
    subagent   r.worker (0 calls)
    task       make it build
    agent      test
    time       2026-09-21 14:13:20, 1 min 0 s
    outcome    failed
    calls      7, 4 failed or refused
    messages   1

      0  14:13:21  started
      1  14:13:20  user       make it build
      2  14:13:20  result     bash: long long long long long long long long long long long long long long long long long long long long long lo…
      3  14:13:20  result     bash: 01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456…
      4  14:13:20  result     bash: [redacted:aws_access_key] [1 redacted] [conflicting reports: 1]
      5  14:13:20  user       an old record
      6  14:13:20  failed     bash: error: no rule
      7  14:13:20  failed     bash: error: no rule
      8  14:13:20  failed     bash: error: no rule
      9  14:13:20  message    (the same error again and again, see 6, 7, 8) You called "bash" 3 times and it failed the same way each time, with
                              nothing in between. Read the whole error. If it names nothing to change, begin with the smallest call that works,
                              and add one part at a time.
     10  14:13:20  failed     bash: error: no rule
     11  14:14:20  ended      failed
    "#);
    let lines = user.lines(&["show", "r", "--json"]);
    assert_eq!((&lines[0]["type"], &lines[0]["run_id"]), (&"run".into(), &"r".into()));
    assert_eq!(lines.len(), 13);
    assert_eq!(lines[3]["at"], "2026-09-21T14:13:20.000Z");
}

#[test]
fn a_call_and_its_result_are_one_entry() {
    let user = User::new();
    user.place.open().append(user_message("r", "build it")).unwrap();
    failing_call(&user, "r", "1", "error: no rule\nsecond line");
    user.place.open().append(tool_started("r", "2")).unwrap();
    user.place.open().append(end_of("r", RunOutcome::Completed, 100_000)).unwrap();
    let entries = |args: &[&str]| {
        let shown = with_columns(&user, "80", &[&["show", "r"], args].concat());
        shown.split_once("\n\n").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(entries(&[]), @r"
      0  14:13:20  user       build it
      1  14:13:20  failed     bash make (2 s)
                              error: no rule second line
      3  14:13:20  no result  bash make
    2026-09-22
      4  18:00:00  ended      completed
    ");
    insta::assert_snapshot!(entries(&["--full", "--errors"]), @r"
    1  14:13:20  failed     bash make (2 s)
       > error: no rule
       > second line
    ");
    assert_eq!(entries(&["--tool", "BASH"]).lines().count(), 3);
    assert_eq!(entries(&["--tool", "read"]), "");
    assert_eq!(entries(&["--said"]), "");
    assert_eq!(entries(&["--grep", "Rule make"]).lines().count(), 2);
    assert_eq!(entries(&["--grep", "rules"]), "");
    assert!(entries(&["--last", "1"]).contains("ended"), "{}", entries(&["--last", "1"]));
    assert!(entries(&["--last", "1", "--grep", "error"]).contains("no rule"));
    assert!(entries(&["--seq", "0..0"]).contains("build it"));
    // The start of the call is not in the range, so its end is an entry of its own.
    assert!(entries(&["--seq", "2..2"]).contains("failed     bash: error: no rule"));
    let kinds = |args: &[&str]| -> Vec<String> {
        let lines = user.lines(&[&["show", "--json"], args].concat());
        lines.iter().filter_map(|line| Some(line["kind"].as_str()?.to_owned())).collect()
    };
    assert_eq!(kinds(&["r", "--errors"]), ["tool_started", "tool_ended"]);
    assert_eq!(kinds(&["r:1"]), ["tool_started", "tool_ended"]);
    assert_eq!(kinds(&["r:2"]), ["tool_started", "tool_ended"]);
    let record = user.output(&["show", "r:2"]);
    assert!(record.contains("error: no rule\nsecond line\n"), "{record}");
    assert!(user.error(&["show", "r:9"]).contains("the run has no record 9; its last is 4"));
}

#[test]
fn filters_read_no_record_that_they_do_not_print() {
    let user = User::new();
    for call in 0..5 {
        failing_call(&user, "r", &call.to_string(), "error: no rule");
    }
    let other = rusqlite::Connection::open(user.data_dir().store_file()).unwrap();
    other.execute("UPDATE records SET payload = '{' WHERE seq = 3", []).unwrap();
    for args in [&["--last", "2"][..], &["--seq", "5.."], &["--seq", "..1"]] {
        user.output(&[&["show", "r"], args].concat());
    }
    for args in [&[][..], &["--errors"], &["--seq", "3..4"]] {
        let error = user.error(&[&["show", "r"], args].concat());
        assert!(error.contains("record 3"), "{args:?}: {error}");
    }
}

#[test]
fn show_says_that_a_run_has_no_end() {
    let user = User::new();
    user.place.open().append(tool_started("cut", "c")).unwrap();
    let shown = user.output(&["show", "latest"]);
    assert!(
        shown.contains("No end recorded: the run is still active, or it was killed after record 0"),
        "{shown}"
    );
    assert!(shown.contains("no result  bash make"), "{shown}");
    assert!(user.output(&["verify"]).contains("Runs without a recorded end: 1."));
}

#[test]
fn search_finds_each_call_once_and_whole_words_only() {
    let user = User::new();
    failing_call(&user, "r", "1", "error: no rule for the makefile");
    let result: Value = json!({"kind": "message_appended", "message": {"role": "tool_result",
        "tool_call_id": "1", "tool_name": "bash", "content": [{"type": "text",
        "text": "error: no rule for the makefile"}]}});
    let payload = serde_json::from_value(result).unwrap();
    user.place.open().append(Event::new(root("r"), hook(), at(3), payload)).unwrap();
    user.place.open().append(user_message("s", "there is a rule: ask first")).unwrap();
    insta::assert_snapshot!(user.output(&["search", "rule"]), @r"
    s:0  2026-09-21 14:13  user  there is a rule: ask first
    r:0  2026-09-21 14:13  failed  error: no rule for the makefile
    ");
    let seqs = |args: &[&str]| -> Vec<String> {
        let output = user.run(&[&["search", "--json"], args].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|hit| format!("{}:{}", hit["run_id"].as_str().unwrap(), hit["seq"])).collect()
    };
    // A word of the call and one of its result.
    assert_eq!(seqs(&["make", "error"]), ["r:0"]);
    assert_eq!(seqs(&["rule", "--errors"]), ["r:0"]);
    assert_eq!(seqs(&["rule", "--run", "s"]), ["s:0"]);
    assert_eq!(seqs(&["rule", "--tool", "bash"]), ["r:0"]);
    assert_eq!(seqs(&["rule", "--since", "1h"]), [""; 0]);
    assert_eq!(seqs(&["rules"]), [""; 0]);
    assert_eq!(user.run(&["search", "rules"]).status.code(), Some(1));
    for hit in seqs(&["rule"]) {
        assert!(user.output(&["show", &hit]).contains("rule"));
    }
}

#[test]
fn colours_follow_the_option_and_a_pipe_has_none() {
    let user = User::new();
    failing_call(&user, "r", "1", "error: no rule");
    for args in [&["list"][..], &["show", "r"], &["search", "rule"], &["tail"]] {
        assert!(!user.output(args).contains('\x1b'), "{args:?}");
        let always = user.output(&[args, &["--color", "always"]].concat());
        assert!(always.contains('\x1b'), "{args:?}");
        let mut command = user.command(&[args, &["--color", "never"]].concat());
        let never = command.env("CLICOLOR_FORCE", "1").output().unwrap().stdout;
        assert!(!never.contains(&0x1b), "{args:?}");
    }
    let found = user.output(&["search", "rule", "--color", "always"]);
    assert!(found.contains("rule\x1b[0m"), "{found:?}");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let user = User::new();
    for call in 0..300 {
        user.place
            .open()
            .append(user_message("r", &format!("{call} {}", "x".repeat(900))))
            .unwrap();
    }
    let mut child = user.command(&["show", "r", "--full"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
