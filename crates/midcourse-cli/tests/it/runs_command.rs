//! The commands that store runs or read stored ones (`record`, `list`, `show`, `export`, `import`,
//! `verify`, …): what they print as text for people and as JSON for programs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use midcourse::DataDir;
use serde_json::Value;

use crate::archive::everything;
use crate::events::{TempStore, tool_ended, user_message};

/// A user with a data directory of their own.
pub(crate) struct User {
    pub(crate) place: TempStore,
}

impl User {
    pub(crate) fn new() -> Self {
        Self { place: TempStore::new() }
    }

    pub(crate) fn data_dir(&self) -> DataDir {
        self.place.data_dir()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(args).env("MIDCOURSE_HOME", self.data_dir().path()).env("TZ", "UTC");
        command.env_remove("COLUMNS").env_remove("CLICOLOR_FORCE");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command, which must succeed, and returns its standard output.
    pub(crate) fn output(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn lines(&self, args: &[&str]) -> Vec<Value> {
        self.output(args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs a command, which must fail, and returns its standard error.
    pub(crate) fn error(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn prune_removes_the_oldest_runs_until_the_others_fit() {
    let user = User::new();
    let mut store = user.place.open();
    for n in 0..240_u64 {
        let text: String =
            (0..3000).map(|at| format!("{:x} ", (n * 7919 + at) * 104_729)).collect();
        let mut event = user_message(&format!("run-{n}"), &text);
        event.at = midcourse::Timestamp::from_unix_ms(1_000_000 * (n + 1));
        store.append(event).unwrap();
    }
    store.append(user_message("new", "x")).unwrap();
    drop(store);
    let before = user.place.open().used_bytes().unwrap();
    assert!(before > 1_000_000, "{before}");
    let shown = user.output(&["prune", "--max-size", "1MB"]);
    assert!(shown.contains("of at most 1 MB; add `--yes`"), "{shown}");
    user.output(&["prune", "--max-size", "1MB", "--yes"]);
    let store = user.place.open();
    assert!(store.used_bytes().unwrap() <= 1_000_000);
    let left: Vec<String> =
        store.runs(999).unwrap().iter().map(|run| run.run_id.as_str().to_owned()).collect();
    assert!(left.len() > 3 && left.contains(&"run-239".to_owned()), "{left:?}");
    assert!(!left.contains(&"run-0".to_owned()) && left.contains(&"new".to_owned()), "{left:?}");
    assert!(user.output(&["verify"]).contains("no problems"));
}

#[test]
fn the_end_of_a_session_removes_old_runs_if_the_users_file_says_so() {
    let user = User::new();
    let mut old = user_message("old", "x");
    old.at = midcourse::Timestamp::from_unix_ms(1_000_000);
    user.place.open().append(old).unwrap();
    let file = user.data_dir().config_file();
    std::fs::write(&file, "[retention]\nmax_age = \"30d\"\n").unwrap();
    let payload = r#"{"session_id":"s","cwd":"/","hook_event_name":"SessionEnd","reason":"other"}"#;
    let mut hook = user.command(&["hook", "claude-code"]).stdin(Stdio::piped()).spawn().unwrap();
    hook.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
    assert!(hook.wait().unwrap().success());
    let is_gone = || !user.output(&["list", "--all"]).contains("old ");
    assert!((0..2000).any(|_| is_gone()), "the old run was not removed");
    assert!(user.output(&["list", "--all"]).contains("s "));
}

#[test]
fn recorded_text_cannot_control_the_terminal() {
    let user = User::new();
    let evil = "\x1b]0;owned\x07\u{202e}txt";
    user.place.open().append(tool_ended(evil, evil, evil)).unwrap();
    user.place.open().append(user_message(evil, evil)).unwrap();
    for args in [
        vec!["list"],
        vec!["show", "latest"],
        vec!["show", "latest", "--full"],
        vec!["tail"],
        vec!["search", "owned"],
        vec!["verify"],
        vec!["prune", "--older-than", "0s"],
    ] {
        let shown = user.output(&args);
        assert!(!shown.contains(['\x1b', '\x07', '\u{202e}']), "{args:?}: {shown:?}");
    }
}

#[test]
fn an_export_imports_into_another_store_unchanged() {
    let (user, other) = (User::new(), User::new());
    everything(&mut user.place.open());
    let exported = user.output(&["export", "r", "--tree"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &exported).unwrap();
    let path = file.path().to_str().unwrap();
    let counts = other.output(&["import", path]);
    assert!(
        counts.contains("\nImported 13 records of 2 runs; 0 were already stored.\n"),
        "{counts}"
    );
    assert!(other.output(&["export", "r", "--tree"]) == exported, "the export is the same");
    let counts = other.output(&["import", path]);
    assert!(counts.contains("Imported 0 records of 2 runs; 13 were already stored.\n"), "{counts}");
    assert!(other.output(&["verify"]).contains("no problems"));
    // Invalid lines are skipped and counted; the rest is imported.
    std::fs::write(
        file.path(),
        format!("what?\n\n{}\n{{\"seq\":", exported.lines().next().unwrap()),
    )
    .unwrap();
    let output = User::new().run(&["import", path, "--json"]);
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&counts["new"], &counts["unreadable"]), (&1.into(), &2.into()), "{counts}");
    assert!(
        String::from_utf8(output.stderr).unwrap().contains(":1: skipped: not a trajectory record")
    );
}

#[test]
fn verify_fails_on_a_changed_record() {
    let user = User::new();
    everything(&mut user.place.open());
    assert!(user.output(&["verify"]).ends_with("no problems. Runs without a recorded end: 1.\n"));
    let other = rusqlite::Connection::open(user.data_dir().store_file()).unwrap();
    other.execute("UPDATE records SET at = at + 1 WHERE seq = 3", []).unwrap();
    let output = user.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("r: record 3 was changed after it was stored"), "{shown}");
    assert_eq!(user.run(&["verify", "r.worker"]).status.code(), Some(0));
    let output = user.run(&["verify", "--json"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["problems"]), (&"summary".into(), &1.into()));
}

#[test]
fn prune_removes_runs_only_with_yes() {
    let user = User::new();
    everything(&mut user.place.open());
    let shown = user.output(&["prune", "--older-than", "1d"]);
    assert!(shown.ends_with("2 runs would be removed; add `--yes` to remove them.\n"), "{shown}");
    assert_eq!(user.lines(&["list", "--json"]).len(), 2);
    assert_eq!(
        user.output(&["prune", "--older-than", "10000d", "--yes"]),
        "No runs are that old.\n"
    );
    assert_eq!(
        user.output(&["prune", "--older-than", "1d", "--yes", "--shrink"]),
        "Removed 2 runs.\n"
    );
    assert_eq!(user.output(&["list"]), "No runs recorded yet.\n");
    let output = user.run(&["prune", "--older-than", "soon"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("invalid duration `soon`; try `30d` or `12h`"), "{error}");
}

#[test]
fn tail_follows_new_records() {
    let user = User::new();
    user.place.open().append(user_message("r", "before")).unwrap();
    let mut child = user.command(&["tail", "-f", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["payload"]["message"]["content"], "before");
    user.place.open().append(user_message("s", "after")).unwrap();
    assert_eq!(next()["payload"]["message"]["content"], "after");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn spilled_events_are_imported_before_they_are_shown() {
    let user = User::new();
    user.place.open().append(user_message("r", "first")).unwrap();
    midcourse::spill_event(
        &user.data_dir(),
        user_message("r", "spilled"),
        &crate::events::test_settings(),
    )
    .unwrap();
    assert!(user.output(&["show", "r"]).contains("spilled"));
    // `verify` reports a file in the spill folder that is not a valid event, and renames the file
    // instead of deleting it.
    std::fs::write(user.data_dir().spill_folder().join("x.json"), "{").unwrap();
    assert_eq!(user.run(&["verify"]).status.code(), Some(1));
    assert!(user.data_dir().spill_folder().join("x.unread").exists());
}

#[test]
fn record_works_without_a_reader_of_its_replies() {
    let user = User::new();
    let mut child = user
        .command(&["record", "--run", "r"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    for _ in 0..20 {
        input.write_all(b"{\"payload\":{\"kind\":\"turn_started\"}}\n").unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(user.lines(&["export", "r"]).len(), 20);
}

#[test]
fn records_after_a_damaged_one_are_shown() {
    let user = User::new();
    everything(&mut user.place.open());
    let other = rusqlite::Connection::open(user.data_dir().store_file()).unwrap();
    other
        .execute("UPDATE records SET payload = '{' WHERE seq = 1 AND kind != 'run_started'", [])
        .unwrap();
    for args in [&["show", "r"][..], &["export", "r", "--damaged"]] {
        let output = user.run(args);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stdout).unwrap().lines().count() > 10);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("skipped record 1") && errors.contains("damaged"), "{errors}");
    }
}

#[test]
fn importing_records_without_seqs_twice_stores_them_once() {
    let user = User::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "{\"run_id\":\"r\",\"payload\":{\"kind\":\"turn_started\"}}\n".repeat(3),
    )
    .unwrap();
    let path = file.path().to_str().unwrap();
    let imported = |new: u32, duplicates: u32| {
        format!(
            "Read 1 file as records.\nImported {new} records of 1 run; {duplicates} were already \
             stored.\n     1 runs without a tool call\n"
        )
    };
    assert_eq!(user.output(&["import", path]), imported(3, 0));
    assert_eq!(user.output(&["import", path]), imported(0, 3));
    std::fs::write(file.path(), "nothing of ours\n").unwrap();
    let error = user.error(&["import", path]);
    assert!(error.contains("cannot tell the format") && error.contains("--format"), "{error}");
    let error = user.error(&["import", path, "--format", "records"]);
    assert!(error.contains("none of the 1 lines could be read as records"), "{error}");
}

#[test]
fn errors_say_what_to_do_next() {
    let user = User::new();
    let error = user.error(&["show", "r"]);
    assert!(error.contains("no runs recorded in") && error.contains("MIDCOURSE_HOME"), "{error}");
    everything(&mut user.place.open());
    assert_eq!(
        user.error(&["show", "nothing"]),
        "midcourse: no run `nothing`; `midcourse list --all` shows all runs\n"
    );
    user.place.open().append(crate::events::user_message("r.other", "x")).unwrap();
    let error = user.error(&["show", "r."]);
    assert!(error.contains("several runs start or end with `r.`: "), "{error}");
    assert!(error.contains("r.other") && error.contains("r.worker"), "{error}");
}

#[test]
fn record_keeps_lines_that_it_cannot_read_and_says_what_is_wrong() {
    let user = User::new();
    let mut child = user
        .command(&["record", "--run", "mine", "--host", "shell"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"payload\":{\"kind\":\"turn_started\"}}\n\xff\xfe no json\n").unwrap();
    input.write_all(b"{\"payload\":{\"kind\":\"of a later release\"}}\n").unwrap();
    input.write_all(b"{\"payload\":{\"kind\":\"tool_started\",\"args\":{}}}\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let replies = String::from_utf8(output.stdout).unwrap();
    let replies: Vec<Value> =
        replies.lines().map(|reply| serde_json::from_str(reply).unwrap()).collect();
    let status = |reply: &Value| reply["status"].as_str().unwrap().to_owned();
    let statuses: Vec<String> = replies.iter().map(status).collect();
    assert_eq!(statuses, ["new", "unreadable", "unreadable", "unreadable"]);
    for (reply, error) in replies[1..].iter().zip(["utf-8", "of a later release", "tool_call_id"]) {
        assert!(reply["error"].as_str().unwrap().contains(error), "{reply}");
        assert_eq!(reply["kept"], true);
    }
    let lines = user.lines(&["export", "mine"]);
    let kinds: Vec<_> =
        lines.iter().map(|line| line["payload"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["turn_started", "unread", "unread", "unread"]);
    assert_eq!(lines[1]["payload"]["raw"], "\\xff\\xfe no json");
    assert_eq!(user.lines(&["list", "--json"])[0]["host"], "shell");
}

/// Pipes lines into `midcourse record` and returns the replies.
fn record(user: &User, lines: &str) -> Vec<Value> {
    let mut child = user
        .command(&["record", "--run", "r"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let replies = String::from_utf8(output.stdout).unwrap();
    replies.lines().map(|reply| serde_json::from_str(reply).unwrap()).collect()
}

/// An input line that reports the end of a failed call. `fields` is JSON text that is inserted
/// before the payload; it is empty or ends with a comma.
fn failed_call(call: usize, fields: &str) -> String {
    format!(
        "{{{fields}\"payload\":{{\"kind\":\"tool_ended\",\"tool_call_id\":\"{call}\",\
         \"tool_name\":\"bash\",\"result\":{{\"content\":[{{\"type\":\"text\",\
         \"text\":\"error: no rule\"}}]}},\"is_error\":true}}}}\n"
    )
}

/// How many messages for the agent the replies contain.
fn deliveries(replies: &[Value]) -> usize {
    replies.iter().map(|reply| reply["deliveries"].as_array().unwrap().len()).sum()
}

#[test]
fn record_stamps_the_current_schema_version_unless_the_line_has_one() {
    let user = User::new();
    let lines = [failed_call(0, ""), failed_call(1, "\"schema_version\":0,")].concat();
    let replies = record(&user, &lines);
    assert_eq!(replies[0]["status"], "new");
    let versions: Vec<_> =
        user.lines(&["export", "r"]).iter().map(|line| line["schema_version"].clone()).collect();
    assert_eq!(versions, [Value::from(midcourse::TRAJECTORY_SCHEMA_VERSION), 0.into()]);
}

#[test]
fn record_delivers_at_the_decision_point_of_the_line() {
    let calls = |fields: &str| (0..4).map(|call| failed_call(call, fields)).collect::<String>();
    let replies = record(&User::new(), &calls(""));
    assert_eq!(deliveries(&replies), 1);
    assert_eq!(replies[2]["deliveries"][0]["decision_point"], "pre_tool_selection");
    let replies = record(&User::new(), &calls("\"decision_point\":\"post_tool_result\","));
    assert_eq!(replies[2]["deliveries"][0]["decision_point"], "post_tool_result");
    assert_eq!(deliveries(&record(&User::new(), &calls("\"decision_point\":null,"))), 0);
}

#[test]
fn record_applies_the_configuration_of_the_user() {
    let calls: String = (0..4).map(|call| failed_call(call, "")).collect();
    for (config, recorded) in
        [("mode = \"shadow\"\n", 1), ("[providers.course_correction]\nenabled = false\n", 0)]
    {
        let user = User::new();
        std::fs::create_dir_all(user.data_dir().path()).unwrap();
        std::fs::write(user.data_dir().config_file(), config).unwrap();
        let replies = record(&user, &calls);
        assert_eq!((replies.len(), deliveries(&replies)), (4, 0), "{config}");
        let kinds: Vec<_> =
            user.lines(&["export", "r"]).iter().map(|line| line["payload"].clone()).collect();
        assert_eq!(kinds[0]["kind"], "config_applied");
        let guidance = kinds.iter().filter(|payload| payload["kind"] == "guidance_delivered");
        assert_eq!(guidance.filter(|payload| payload["shadow"] == true).count(), recorded);
        let replayed = user.lines(&["replay", "--run", "r", "--json"]);
        assert_eq!(replayed.last().unwrap()["matches_recorded"], true, "{config}");
    }
}

#[test]
fn record_applies_a_budget_of_the_user_to_every_run_of_the_process() {
    let user = User::new();
    std::fs::create_dir_all(user.data_dir().path()).unwrap();
    std::fs::write(user.data_dir().config_file(), "[budget]\ncalls = 4\n").unwrap();
    let calls = |run: &str| {
        let field = format!("\"run_id\":\"{run}\",");
        (0..4).map(move |call| failed_call(call, &field)).collect::<String>()
    };
    let replies = record(&user, &(calls("a") + &calls("b")));
    for run in ["a", "b"] {
        let of_run = replies.iter().filter(|reply| reply["run_id"] == run);
        let providers: Vec<_> = of_run
            .flat_map(|reply| reply["deliveries"].as_array().unwrap())
            .map(|delivery| delivery["provider"].as_str().unwrap())
            .collect();
        assert!(providers.contains(&"Budget"), "{run}: {providers:?}");
    }
}
