//! The commands over stored runs, as a person and as a program meets them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use midcourse::DataDir;
use serde_json::Value;

use crate::archive::everything;
use crate::events::{Place, ended, said};

struct User {
    place: Place,
}

impl User {
    fn new() -> Self {
        Self { place: Place::new() }
    }

    fn home(&self) -> DataDir {
        self.place.home()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(args).env("MIDCOURSE_HOME", self.home().path()).env("TZ", "UTC");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// What it prints, when all is well.
    fn tell(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn lines(&self, args: &[&str]) -> Vec<Value> {
        self.tell(args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What it says when it fails.
    fn complain(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_list_for_people_and_for_programs() {
    let user = User::new();
    assert_eq!(user.tell(&["list"]), "No runs yet.\n");
    assert_eq!(user.tell(&["list", "--json"]), "");
    everything(&mut user.place.open());
    insta::assert_snapshot!(user.tell(&["list"]), @r"
    RUN       HOST  STARTED                 LASTED  ENDED          CALLS  ERRORS  SAID
    r.worker  test  2026-09-21 14:13:21       0 ms  not on record      0       0     0
    r         test  2026-09-21 14:13:20  1 min 0 s  failed             7       4     1
    ");
    insta::assert_snapshot!(user.tell(&["list", "--json"]), @r#"
    {"run_id":"r.worker","parent_run_id":"r","host":"test","started":"2026-09-21T14:13:21.000Z","ended":null,"outcome":null,"calls":0,"errors":0,"deliveries":0}
    {"run_id":"r","parent_run_id":null,"host":"test","started":"2026-09-21T14:13:20.000Z","ended":"2026-09-21T14:14:20.000Z","outcome":"failed","calls":7,"errors":4,"deliveries":1}
    "#);
}

#[test]
fn a_run_record_by_record() {
    let user = User::new();
    everything(&mut user.place.open());
    insta::assert_snapshot!(user.tell(&["show", "r"]), @r"
    run      r
    child    r.worker (0 calls)
    host     test
    time     2026-09-21 14:13:20, 1 min 0 s, ended: failed
    counts   records 12, calls 7, errors 4, said 1

         0           1 s  started
         1          0 ms  user       make it build
         2          0 ms  result     bash: long long long long long long long long long long long long long long long long long long lon…
         3          0 ms  result     bash: 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012…
         4          0 ms  result     bash: [redacted:aws_access_key] [1 redacted] [conflicting reports: 1]
         5          0 ms  user       an old record
         6          0 ms  failed     bash: error: no rule
         7          0 ms  failed     bash: error: no rule
         8          0 ms  failed     bash: error: no rule
         9          0 ms  DELIVERED  (course_correction, see 6, 7, 8) You made the same tool call 3 times and got the same result, with …
        10          0 ms  failed     bash: error: no rule
        11     1 min 0 s  ended      failed
    ");
    let lines = user.lines(&["show", "r", "--json"]);
    assert_eq!(lines[0]["run_id"], "r");
    assert_eq!(lines.len(), 13);
}

#[test]
fn a_run_that_was_cut_off_opens_and_says_so() {
    let user = User::new();
    user.place.open().append(crate::events::started("cut", "c")).unwrap();
    let shown = user.tell(&["show", "latest"]);
    assert!(
        shown.contains(
            "No end is on record: the run is still going, or it was cut off after record 0"
        )
    );
    assert!(shown.contains("This call has no end: bash (c)"), "{shown}");
    assert!(user.tell(&["verify"]).contains("1 without an end on record"));
}

#[test]
fn what_agents_wrote_cannot_play_with_the_terminal() {
    let user = User::new();
    let evil = "\x1b]0;owned\x07\u{202e}txt";
    user.place.open().append(ended(evil, evil, evil)).unwrap();
    user.place.open().append(said(evil, evil)).unwrap();
    for args in [
        vec!["list"],
        vec!["show", "latest"],
        vec!["show", "latest", "--full"],
        vec!["tail"],
        vec!["search", "owned"],
        vec!["verify"],
        vec!["prune", "--older-than", "0s"],
    ] {
        let shown = user.tell(&args);
        assert!(!shown.contains(['\x1b', '\x07', '\u{202e}']), "{args:?}: {shown:?}");
    }
}

#[test]
fn an_export_is_imported_elsewhere_as_it_was() {
    let (user, other) = (User::new(), User::new());
    everything(&mut user.place.open());
    let exported = user.tell(&["export", "r", "--tree", "--to", "jsonl"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &exported).unwrap();
    let path = file.path().to_str().unwrap();
    let told = other.tell(&["import", path]);
    assert!(told.starts_with("13 records imported, 0 were known.\n"), "{told}");
    assert_eq!(other.tell(&["export", "r", "--tree"]), exported);
    assert!(other.tell(&["import", path]).starts_with("0 records imported, 13 were known.\n"));
    assert!(other.tell(&["verify"]).contains("all whole"));
    // A torn or foreign line is left out and said; the rest comes in.
    std::fs::write(
        file.path(),
        format!("what?\n\n{}\n{{\"seq\":", exported.lines().next().unwrap()),
    )
    .unwrap();
    let output = User::new().run(&["import", path, "--json"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "{\"new\":1,\"known\":0,\"filled\":0,\"diverged\":0,\"renumbered\":0,\"unread\":2}\n"
    );
    assert!(String::from_utf8(output.stderr).unwrap().contains("line 1 is left out"));
}

#[test]
fn verify_exits_with_one_on_a_finding() {
    let user = User::new();
    everything(&mut user.place.open());
    assert!(user.tell(&["verify"]).ends_with("all whole. 1 without an end on record.\n"));
    let other = rusqlite::Connection::open(user.home().store_file()).unwrap();
    other.execute("UPDATE records SET at = at + 1 WHERE seq = 3", []).unwrap();
    let output = user.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("r: record 3 was changed after it was stored"), "{told}");
    assert_eq!(user.run(&["verify", "r.worker"]).status.code(), Some(0));
    let output = user.run(&["verify", "--json"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["findings"]), (&"summary".into(), &1.into()));
}

#[test]
fn prune_says_what_it_would_do_and_does_it_only_when_told() {
    let user = User::new();
    everything(&mut user.place.open());
    let told = user.tell(&["prune", "--older-than", "1d"]);
    assert!(told.ends_with("2 runs would be removed; `--yes` removes them.\n"), "{told}");
    assert_eq!(user.lines(&["list", "--json"]).len(), 2);
    assert_eq!(user.tell(&["prune", "--older-than", "10000d", "--yes"]), "No run is that old.\n");
    assert_eq!(
        user.tell(&["prune", "--older-than", "1d", "--yes", "--shrink"]),
        "2 runs removed.\n"
    );
    assert_eq!(user.tell(&["list"]), "No runs yet.\n");
    let output = user.run(&["prune", "--older-than", "soon"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn tail_follows_what_is_recorded() {
    let user = User::new();
    user.place.open().append(said("r", "before")).unwrap();
    let mut child = user.command(&["tail", "-f", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["payload"]["message"]["content"], "before");
    user.place.open().append(said("s", "after")).unwrap();
    assert_eq!(next()["payload"]["message"]["content"], "after");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn spilled_events_are_shown_and_kept() {
    let user = User::new();
    user.place.open().append(said("r", "first")).unwrap();
    midcourse::spill_event(&user.home(), said("r", "spilled"), &crate::events::quick()).unwrap();
    assert!(user.tell(&["show", "r"]).contains("spilled"));
    // One that cannot be read is a finding, and stays.
    std::fs::write(user.home().spill_folder().join("x.json"), "{").unwrap();
    assert_eq!(user.run(&["verify"]).status.code(), Some(1));
    assert!(user.home().spill_folder().join("x.unread").exists());
}

#[test]
fn nobody_has_to_listen_to_be_recorded() {
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
fn a_damaged_record_does_not_hide_the_others() {
    let user = User::new();
    everything(&mut user.place.open());
    let other = rusqlite::Connection::open(user.home().store_file()).unwrap();
    other
        .execute("UPDATE records SET payload = '{' WHERE seq = 1 AND kind != 'run_started'", [])
        .unwrap();
    for args in [["show", "r"], ["export", "r"]] {
        let output = user.run(&args);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stdout).unwrap().lines().count() > 10);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("1 records are damaged"), "{told}");
    }
}

#[test]
fn lines_without_numbers_are_known_the_next_time() {
    let user = User::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "{\"run_id\":\"r\",\"payload\":{\"kind\":\"turn_started\"}}\n".repeat(3),
    )
    .unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(user.tell(&["import", path]), "3 records imported, 0 were known.\n");
    assert_eq!(user.tell(&["import", path]), "0 records imported, 3 were known.\n");
    std::fs::write(file.path(), "nothing of ours\n").unwrap();
    assert!(user.complain(&["import", path]).contains("none of the 1 lines could be read"));
}

#[test]
fn errors_say_what_to_do() {
    let user = User::new();
    let said = user.complain(&["show", "r"]);
    assert!(said.contains("there are no records in") && said.contains("MIDCOURSE_HOME"), "{said}");
    everything(&mut user.place.open());
    assert_eq!(
        user.complain(&["show", "nothing"]),
        "midcourse: there is no run nothing; `midcourse list` shows those there are\n"
    );
    user.place.open().append(crate::events::said("r.other", "x")).unwrap();
    let said = user.complain(&["show", "r."]);
    assert!(said.contains("r. could be any of") && said.contains("r.worker"), "{said}");
}

#[test]
fn a_program_records_any_line_it_is_given() {
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
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
    let lines = user.lines(&["export", "mine"]);
    let kinds: Vec<_> =
        lines.iter().map(|line| line["payload"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["turn_started", "unread", "unread"]);
    assert_eq!(lines[1]["payload"]["raw"], "\\xff\\xfe no json");
    assert_eq!(user.lines(&["list", "--json"])[0]["host"], "shell");
}
