//! Bad disks and bad neighbours: each a clear answer, and nothing that was acknowledged is lost.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use midcourse::{
    DataDir, Durability, RunIdentity, Source, Store, StoreSettings, StoreWriter, TrajectoryPayload,
    TrajectoryRecord, TrajectoryRecorder, TrajectorySink,
};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::disk::{Disk, Fault, recorded_root};
use crate::events::{Place, findings, quick, text_of};

/// Milliseconds that are enough on any machine: nothing here waits for a lock.
const PATIENT: &str = "60000";

/// The real command, fed one event at a time.
struct Recording {
    child: Child,
    input: ChildStdin,
    answers: std::io::Lines<BufReader<ChildStdout>>,
}

impl Recording {
    fn start(command: &mut Command, home: &DataDir, busy_timeout: &str) -> Self {
        let mut child = command
            .args(["record", "--run", "r", "--patience", busy_timeout])
            .env("MIDCOURSE_HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, answers }
    }

    fn event(&mut self, call: &str) -> Value {
        let payload = json!({"kind": "tool_ended", "tool_call_id": call, "tool_name": "bash",
                             "result": {"content": [{"type": "text", "text": call}]},
                             "is_error": false});
        writeln!(self.input, "{}", json!({"payload": payload})).unwrap();
        serde_json::from_str(&self.answers.next().unwrap().unwrap()).unwrap()
    }

    /// Closes it, and returns what it said at the end and whether it was content.
    fn end(self) -> (bool, String) {
        drop(self.input);
        drop(self.answers);
        let output = self.child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_midcourse"))
}

fn word<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn stored(home: &DataDir) -> Vec<String> {
    let store = Store::open(home, quick()).unwrap();
    assert_eq!(findings(&store), [""; 0]);
    store.trajectory("r").unwrap().iter().map(text_of).collect()
}

/// The store cannot be written for a while; the spill folder can.
fn a_store_that_fails(faults: &[Fault], why: &str) {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &home, PATIENT);
    assert_eq!(word(&recording.event("one"), "standing"), "new");
    disk.inject(faults);
    for call in ["two", "three"] {
        let answer = recording.event(call);
        assert_eq!(word(&answer, "standing"), "spilled", "{answer}");
        assert!(word(&answer, "why").contains(why), "{answer}");
    }
    disk.heal();
    assert_eq!(word(&recording.event("four"), "standing"), "new");
    assert_eq!(recording.end(), (true, String::new()));
    assert_eq!(stored(&home), ["one", "two", "three", "four"], "spilled events come in in order");
}

#[test]
fn a_full_disk_under_the_store() {
    a_store_that_fails(&[Fault::no_space().on("*store.db-wal")], "the disk is full");
}

#[test]
fn a_disk_too_full_for_the_processes_to_share_memory() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &home, PATIENT);
    assert_eq!(word(&recording.event("one"), "standing"), "new");
    // The file is first made shorter, which a full disk lets one do.
    disk.inject(&[Fault::no_space().on("*-shm").from(2)]);
    assert_eq!(word(&recording.event("two"), "why"), "the disk is full");
    disk.heal();
    assert_eq!(word(&recording.event("three"), "standing"), "new");
    assert!(recording.end().0);
    assert_eq!(stored(&home), ["one", "two", "three"]);
}

#[test]
fn a_disk_that_fails_to_sync() {
    a_store_that_fails(&[Fault::sync_error().on("*store.db-wal")], "the store failed");
}

/// Nothing at all can be written for a while.
fn a_disk_that_fails(faults: &[Fault], why: &str, expected: &[&str]) {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &home, PATIENT);
    assert_eq!(word(&recording.event("one"), "standing"), "new");
    disk.inject(faults);
    for call in ["two", "three"] {
        let answer = recording.event(call);
        assert_eq!(word(&answer, "standing"), "lost", "{answer}");
        assert!(word(&answer, "error").contains(why), "{answer}");
        assert!(!word(&answer, "hint").is_empty());
    }
    disk.heal();
    assert_eq!(word(&recording.event("four"), "standing"), "new");
    let (content, said) = recording.end();
    assert!(!content && said.contains("2 events could not be recorded"), "{said}");
    let store = Store::open(&home, quick()).unwrap();
    assert_eq!(findings(&store), [""; 0]);
    let told = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::Gap { lost, .. } => format!("gap of {lost}"),
        _ => text_of(record),
    };
    assert_eq!(store.trajectory("r").unwrap().iter().map(told).collect::<Vec<_>>(), expected);
}

/// A full disk still lets old blocks be written over; so the loss is on record afterwards.
#[test]
fn a_full_disk() {
    let faults = [Fault::no_space().on("*store.db*"), Fault::no_space().on("*spill*")];
    a_disk_that_fails(&faults, "the disk is full", &["one", "gap of 2", "four"]);
}

/// Here nothing can be written anywhere, and only the answers say what was lost.
#[test]
fn a_read_only_disk() {
    a_disk_that_fails(&[Fault::read_only()], "cannot be written", &["one", "four"]);
}

#[test]
fn a_folder_that_cannot_be_made() {
    let disk = Disk::new();
    disk.inject(&[Fault::read_only()]);
    let home = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &home, PATIENT);
    let answer = recording.event("one");
    assert_eq!(word(&answer, "standing"), "lost");
    assert!(word(&answer, "hint").contains("MIDCOURSE_HOME"), "{answer}");
    assert!(!recording.end().0);
}

#[test]
fn a_store_that_another_process_holds() {
    let place = Place::new();
    let home = place.home();
    drop(place.open());
    let other = Connection::open(home.store_file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut recording = Recording::start(&mut command(), &home, "20");
    for call in ["one", "two", "three"] {
        let answer = recording.event(call);
        assert_eq!(word(&answer, "standing"), "spilled", "{answer}");
        assert_eq!(word(&answer, "why"), "the store is locked by another process");
    }
    let listed = command().arg("list").env("MIDCOURSE_HOME", home.path()).output().unwrap();
    let told = String::from_utf8(listed.stderr).unwrap();
    assert!(listed.status.success() && told.contains("spilled events are not shown yet"), "{told}");
    other.execute_batch("COMMIT").unwrap();
    assert!(recording.end().0);
    let mut recording = Recording::start(&mut command(), &home, PATIENT);
    assert_eq!(word(&recording.event("four"), "standing"), "new");
    assert!(recording.end().0);
    assert_eq!(stored(&home), ["one", "two", "three", "four"]);
    assert_eq!(std::fs::read_dir(home.spill_folder()).unwrap().count(), 0);
}

#[test]
fn a_store_of_a_newer_release() {
    let place = Place::new();
    let home = place.home();
    drop(place.open());
    let set = |version: u32| {
        let other = Connection::open(home.store_file()).unwrap();
        other.pragma_update(None, "user_version", version).unwrap();
    };
    set(99);
    let mut recording = Recording::start(&mut command(), &home, PATIENT);
    let answer = recording.event("one");
    assert_eq!(word(&answer, "standing"), "spilled");
    assert!(word(&answer, "why").contains("schema 99"), "{answer}");
    let output = command().arg("list").env("MIDCOURSE_HOME", home.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("hint: install the newer midcourse"), "{said}");
    set(1);
    assert_eq!(word(&recording.event("two"), "standing"), "new");
    assert!(recording.end().0);
    assert_eq!(stored(&home), ["one", "two"]);
}

#[test]
fn a_newer_release_comes_while_an_older_one_has_the_store_open() {
    let place = Place::new();
    let mut old = place.open();
    old.append(crate::events::said("r", "before")).unwrap();
    let other = Connection::open(place.home().store_file()).unwrap();
    other
        .execute_batch("ALTER TABLE records ADD COLUMN mood TEXT; PRAGMA user_version=2;")
        .unwrap();
    let error = old.append(crate::events::said("r", "after")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store has schema 2, this release of midcourse knows schemas up to 1"
    );
    other.execute_batch("PRAGMA user_version=1;").unwrap();
    assert_eq!(old.trajectory("r").unwrap().len(), 1);
}

#[test]
fn a_damaged_page_is_told_and_the_rest_still_reads() {
    let place = Place::new();
    let home = place.home();
    let mut store = place.open();
    for n in 0..400 {
        let text = format!("{n} ").repeat(300);
        store.append(crate::events::ended("r", &n.to_string(), &text)).unwrap();
    }
    store.shrink().unwrap();
    drop(store);
    let mut bytes = std::fs::read(home.store_file()).unwrap();
    let page = bytes.len() / 4096 / 2 * 4096;
    bytes[page..page + 4096].fill(0x5a);
    std::fs::write(home.store_file(), bytes).unwrap();
    let run =
        |args: &[&str]| command().args(args).env("MIDCOURSE_HOME", home.path()).output().unwrap();
    let verified = run(&["verify"]);
    let told = String::from_utf8(verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(1), "{told}");
    assert!(told.contains("damaged") || told.contains("missing"), "{told}");
    assert_eq!(run(&["list"]).status.code(), Some(0));
    // A file that is no database at all.
    std::fs::write(home.store_file(), "not a database, and long enough to be looked at".repeat(99))
        .unwrap();
    let mut recording = Recording::start(&mut command(), &home, PATIENT);
    let answer = recording.event("one");
    assert_eq!(word(&answer, "standing"), "spilled", "{answer}");
    assert!(word(&answer, "why").contains("damaged"), "{answer}");
    recording.end();
    let listed = run(&["list"]);
    assert_eq!(listed.status.code(), Some(1));
    assert!(String::from_utf8(listed.stderr).unwrap().contains("hint: `midcourse verify`"));
}

/// An agent's loop in one process: records an event for each line it is told.
#[test]
#[ignore = "runs as a recorded process"]
fn a_loop_that_records() {
    let Some(root) = recorded_root() else { return };
    let settings =
        StoreSettings { busy_timeout: Duration::from_millis(50), ..StoreSettings::default() };
    assert_eq!(settings.durability, Durability::Full);
    let sink = Arc::new(StoreWriter::open(&DataDir::at(root.join("home")), settings).unwrap());
    let recorder =
        TrajectoryRecorder::new(sink as Arc<dyn TrajectorySink>, Source::new("test", "loop"));
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    for _ in std::io::stdin().lines() {
        let recorded = recorder.record_blocking(TrajectoryPayload::TurnStarted).unwrap();
        crate::disk::ack(if recorded.recorded().is_some() { "recorded" } else { "dropped" });
        std::io::stderr().write_all(b"done\n").unwrap();
    }
}

#[test]
fn a_loop_goes_on_over_a_full_disk_and_marks_the_gap() {
    for fault in [Fault::no_space(), Fault::sync_error().on("*-wal")] {
        let disk = Disk::new();
        let mut child = disk
            .child("faults::a_loop_that_records")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut done = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut turn = || {
            writeln!(input).unwrap();
            assert_eq!(done.next().unwrap().unwrap(), "done");
        };
        turn();
        disk.inject(&[fault]);
        (0..3).for_each(|_| turn());
        disk.heal();
        (0..2).for_each(|_| turn());
        drop(input);
        assert!(child.wait().unwrap().success());
        let store = Store::open(&DataDir::at(disk.root().join("home")), quick()).unwrap();
        assert_eq!(findings(&store), [""; 0]);
        let told = |record: &TrajectoryRecord| match &record.payload {
            TrajectoryPayload::Gap { lost, .. } => format!("gap of {lost}"),
            other => other.kind().to_owned(),
        };
        assert_eq!(
            store.trajectory("r").unwrap().iter().map(told).collect::<Vec<_>>(),
            ["run_started", "turn_started", "gap of 3", "turn_started", "turn_started"]
        );
    }
}
