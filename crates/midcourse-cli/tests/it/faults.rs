//! Broken disks, locked stores, and stores that another release of midcourse wrote.
//!
//! In each case the command says what is wrong, and keeps every event that it reported as stored
//! (`new`) or as put into the spill folder (`spilled`).

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

use crate::events::{TempStore, empty_memory, findings, test_settings, text_of, user_message};
use simulated_disk::{Disk, Fault, recorded_root};

/// A timeout in milliseconds, so long that no test reaches it.
const LONG_TIMEOUT_MS: &str = "60000";

/// A running `midcourse record`. A test sends it one event and reads the reply before the next.
struct Recording {
    child: Child,
    input: ChildStdin,
    replies: std::io::Lines<BufReader<ChildStdout>>,
}

impl Recording {
    fn start(command: &mut Command, data_dir: &DataDir, busy_timeout: &str) -> Self {
        let mut child = command
            .args(["record", "--run", "r", "--busy-timeout", busy_timeout])
            .env("MIDCOURSE_HOME", data_dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, replies }
    }

    fn event(&mut self, call: &str) -> Value {
        let payload = json!({"kind": "tool_ended", "tool_call_id": call, "tool_name": "bash",
                             "result": {"content": [{"type": "text", "text": call}]},
                             "is_error": false});
        writeln!(self.input, "{}", json!({"payload": payload})).unwrap();
        serde_json::from_str(&self.replies.next().unwrap().unwrap()).unwrap()
    }

    /// Closes the input. Returns whether the process succeeded, and its error output.
    fn end(self) -> (bool, String) {
        drop(self.input);
        drop(self.replies);
        let output = self.child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_midcourse"))
}

fn field<'a>(reply: &'a Value, name: &str) -> &'a str {
    reply.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn stored(data_dir: &DataDir) -> Vec<String> {
    let store = Store::open(data_dir, test_settings()).unwrap();
    assert_eq!(findings(&store), [""; 0]);
    store.trajectory("r").unwrap().iter().map(text_of).collect()
}

/// Checks that events are spilled while the store cannot be written but the spill folder can.
fn check_events_are_spilled(faults: &[Fault], why: &str) {
    let disk = Disk::new();
    let data_dir = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &data_dir, LONG_TIMEOUT_MS);
    assert_eq!(field(&recording.event("one"), "status"), "new");
    disk.inject(faults);
    for call in ["two", "three"] {
        let reply = recording.event(call);
        assert_eq!(field(&reply, "status"), "spilled", "{reply}");
        assert!(field(&reply, "reason").contains(why), "{reply}");
    }
    disk.heal();
    assert_eq!(field(&recording.event("four"), "status"), "new");
    assert_eq!(recording.end(), (true, String::new()));
    assert_eq!(
        stored(&data_dir),
        ["one", "two", "three", "four"],
        "spilled events are stored in order"
    );
}

#[test]
fn events_are_spilled_while_the_disk_of_the_store_is_full() {
    check_events_are_spilled(&[Fault::no_space().on("*store.db-wal")], "the disk is full");
}

#[test]
fn a_disk_too_full_for_shared_memory_is_reported_as_full() {
    let disk = Disk::new();
    let data_dir = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &data_dir, LONG_TIMEOUT_MS);
    assert_eq!(field(&recording.event("one"), "status"), "new");
    // SQLite's first operation on its shared-memory file makes the file shorter, which works on a
    // full disk too. So the fault begins with the second operation.
    disk.inject(&[Fault::no_space().on("*-shm").from(2)]);
    assert_eq!(field(&recording.event("two"), "reason"), "the disk is full");
    disk.heal();
    assert_eq!(field(&recording.event("three"), "status"), "new");
    assert!(recording.end().0);
    assert_eq!(stored(&data_dir), ["one", "two", "three"]);
}

#[test]
fn events_are_spilled_while_syncs_fail() {
    check_events_are_spilled(&[Fault::sync_error().on("*store.db-wal")], "the store failed");
}

/// Checks that events are kept in memory and reported as such while neither store nor spill folder
/// can be written. `restarts` says whether the machine is restarted before the disk works again.
fn check_events_are_in_memory(faults: &[Fault], why: &str, restarts: bool, expected: &[&str]) {
    let disk = Disk::new();
    let data_dir = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &data_dir, LONG_TIMEOUT_MS);
    assert_eq!(field(&recording.event("one"), "status"), "new");
    disk.inject(faults);
    for call in ["two", "three"] {
        let reply = recording.event(call);
        assert_eq!(field(&reply, "status"), "in_memory", "{reply}");
        assert!(field(&reply, "error").contains(why), "{reply}");
        assert!(!field(&reply, "hint").is_empty());
    }
    if restarts {
        empty_memory(&data_dir);
    }
    disk.heal();
    assert_eq!(field(&recording.event("four"), "status"), "new");
    let (is_success, stderr) = recording.end();
    assert!(!is_success && stderr.contains("2 events could not be recorded"), "{stderr}");
    let store = Store::open(&data_dir, test_settings()).unwrap();
    assert_eq!(findings(&store), [""; 0]);
    let summary = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::Gap { lost, .. } => format!("gap of {lost}"),
        _ => text_of(record),
    };
    assert_eq!(store.trajectory("r").unwrap().iter().map(summary).collect::<Vec<_>>(), expected);
}

/// midcourse counts lost events in a small file that already has its full size. Overwriting that
/// file works on a full disk, so a record with the count (a gap) is stored later.
#[test]
fn events_that_a_full_disk_cannot_take_are_kept_in_memory_and_counted() {
    let faults = [Fault::no_space().on("*store.db*"), Fault::no_space().on("*spill*")];
    let why = "the disk is full";
    check_events_are_in_memory(&faults, why, false, &["one", "two", "three", "four"]);
    check_events_are_in_memory(&faults, why, true, &["one", "gap of 2", "four"]);
}

/// Nothing can be written, not even the number of lost events. So after a restart the store gets no
/// record of the gap, and only the replies report the loss.
#[test]
fn events_on_a_read_only_disk_are_kept_in_memory() {
    let (faults, why) = ([Fault::read_only()], "cannot be written");
    check_events_are_in_memory(&faults, why, false, &["one", "two", "three", "four"]);
    check_events_are_in_memory(&faults, why, true, &["one", "four"]);
}

#[test]
fn a_data_folder_that_cannot_be_created_is_reported_with_a_hint() {
    let disk = Disk::new();
    disk.inject(&[Fault::read_only()]);
    let data_dir = DataDir::at(disk.root().join("home"));
    let mut recording = Recording::start(disk.record(&mut command()), &data_dir, LONG_TIMEOUT_MS);
    let reply = recording.event("one");
    assert_eq!(field(&reply, "status"), "in_memory");
    assert!(field(&reply, "hint").contains("MIDCOURSE_HOME"), "{reply}");
    assert!(!recording.end().0);
}

#[test]
fn events_are_spilled_while_another_process_locks_the_store() {
    let place = TempStore::new();
    let data_dir = place.data_dir();
    drop(place.open());
    let locker = Connection::open(data_dir.store_file()).unwrap();
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut recording = Recording::start(&mut command(), &data_dir, "20");
    for call in ["one", "two", "three"] {
        let reply = recording.event(call);
        assert_eq!(field(&reply, "status"), "spilled", "{reply}");
        assert_eq!(field(&reply, "reason"), "the store is locked by another process");
    }
    let listed = command().arg("list").env("MIDCOURSE_HOME", data_dir.path()).output().unwrap();
    let stderr = String::from_utf8(listed.stderr).unwrap();
    assert!(
        listed.status.success()
            && stderr.contains("cannot import spilled events, so they are not shown"),
        "{stderr}"
    );
    locker.execute_batch("COMMIT").unwrap();
    assert!(recording.end().0);
    let mut recording = Recording::start(&mut command(), &data_dir, LONG_TIMEOUT_MS);
    assert_eq!(field(&recording.event("four"), "status"), "new");
    assert!(recording.end().0);
    assert_eq!(stored(&data_dir), ["one", "two", "three", "four"]);
    assert_eq!(std::fs::read_dir(data_dir.spill_folder()).unwrap().count(), 0);
}

#[test]
fn events_are_spilled_while_the_store_has_a_newer_schema() {
    let place = TempStore::new();
    let data_dir = place.data_dir();
    drop(place.open());
    let set_schema = |version: u32| {
        let other = Connection::open(data_dir.store_file()).unwrap();
        other.pragma_update(None, "user_version", version).unwrap();
    };
    set_schema(99);
    let mut recording = Recording::start(&mut command(), &data_dir, LONG_TIMEOUT_MS);
    let reply = recording.event("one");
    assert_eq!(field(&reply, "status"), "spilled");
    assert!(field(&reply, "reason").contains("schema 99"), "{reply}");
    let output = command().arg("list").env("MIDCOURSE_HOME", data_dir.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("hint: install the newer midcourse"), "{stderr}");
    set_schema(3);
    assert_eq!(field(&recording.event("two"), "status"), "new");
    assert!(recording.end().0);
    assert_eq!(stored(&data_dir), ["one", "two"]);
}

#[test]
fn an_open_store_that_is_migrated_by_a_newer_release_refuses_to_append() {
    let place = TempStore::new();
    let mut old = place.open();
    old.append(crate::events::user_message("r", "before")).unwrap();
    let other = Connection::open(place.data_dir().store_file()).unwrap();
    other
        .execute_batch("ALTER TABLE records ADD COLUMN mood TEXT; PRAGMA user_version=4;")
        .unwrap();
    let error = old.append(crate::events::user_message("r", "after")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store has schema 4; this release of midcourse reads schemas up to 3"
    );
    other.execute_batch("PRAGMA user_version=3;").unwrap();
    assert_eq!(old.trajectory("r").unwrap().len(), 1);
}

#[test]
fn a_damaged_page_is_reported_and_the_rest_can_be_read() {
    let place = TempStore::new();
    let data_dir = place.data_dir();
    let mut store = place.open();
    for n in 0..400 {
        let text = format!("{n} ").repeat(300);
        store.append(crate::events::tool_ended("r", &n.to_string(), &text)).unwrap();
    }
    store.shrink().unwrap();
    drop(store);
    let mut bytes = std::fs::read(data_dir.store_file()).unwrap();
    let page = bytes.len() / 4096 / 2 * 4096;
    bytes[page..page + 4096].fill(0x5a);
    std::fs::write(data_dir.store_file(), bytes).unwrap();
    let run = |args: &[&str]| {
        command().args(args).env("MIDCOURSE_HOME", data_dir.path()).output().unwrap()
    };
    let verified = run(&["verify"]);
    let stdout = String::from_utf8(verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("damaged") || stdout.contains("missing"), "{stdout}");
    assert_eq!(run(&["list"]).status.code(), Some(0));
    // The store file is not a database.
    std::fs::write(
        data_dir.store_file(),
        "not a database, and long enough to be looked at".repeat(99),
    )
    .unwrap();
    let mut recording = Recording::start(&mut command(), &data_dir, LONG_TIMEOUT_MS);
    let reply = recording.event("one");
    assert_eq!(field(&reply, "status"), "spilled", "{reply}");
    assert!(field(&reply, "reason").contains("damaged"), "{reply}");
    recording.end();
    let listed = run(&["list"]);
    assert_eq!(listed.status.code(), Some(1));
    assert!(String::from_utf8(listed.stderr).unwrap().contains("hint: `midcourse verify`"));
}

/// Not a test of its own: the next test starts it as a child process. It acts as an agent that
/// records one event for each line of its input.
#[test]
#[ignore = "runs as a recorded process"]
fn recorder_loop() {
    let Some(root) = recorded_root() else { return };
    let settings =
        StoreSettings { busy_timeout: Duration::from_millis(50), ..StoreSettings::default() };
    assert_eq!(settings.durability, Durability::Full);
    let sink = Arc::new(StoreWriter::open(&DataDir::at(root.join("home")), settings).unwrap());
    let recorder = TrajectoryRecorder::new(
        sink as Arc<dyn TrajectorySink>,
        Source::new("test", midcourse::Channel::Library),
    );
    recorder.begin_blocking(RunIdentity::root("r")).unwrap();
    for _ in std::io::stdin().lines() {
        let recorded = recorder.record_blocking(TrajectoryPayload::TurnStarted).unwrap();
        simulated_disk::ack(if recorded.recorded().is_some() { "recorded" } else { "dropped" });
        std::io::stderr().write_all(b"done\n").unwrap();
    }
}

#[test]
fn a_loop_continues_on_a_full_disk_and_records_a_gap() {
    for fault in [Fault::no_space(), Fault::sync_error().on("*-wal")] {
        let disk = Disk::new();
        let mut child = disk
            .child("faults::recorder_loop")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut done = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut record_turn = || {
            writeln!(input).unwrap();
            assert_eq!(done.next().unwrap().unwrap(), "done");
        };
        record_turn();
        disk.inject(&[fault]);
        (0..3).for_each(|_| record_turn());
        disk.heal();
        (0..2).for_each(|_| record_turn());
        drop(input);
        assert!(child.wait().unwrap().success());
        let store = Store::open(&DataDir::at(disk.root().join("home")), test_settings()).unwrap();
        assert_eq!(findings(&store), [""; 0]);
        let summary = |record: &TrajectoryRecord| match &record.payload {
            TrajectoryPayload::Gap { lost, .. } => format!("gap of {lost}"),
            other => other.kind().to_owned(),
        };
        assert_eq!(
            store.trajectory("r").unwrap().iter().map(summary).collect::<Vec<_>>(),
            ["run_started", "turn_started", "gap of 3", "turn_started", "turn_started"]
        );
    }
}

/// A pipe instead of a file could block whoever opens or reads it. `timeout` exits with 124 then.
#[test]
fn a_pipe_in_the_data_directory_hangs_no_command() {
    let commands = [&["list"][..], &["verify"], &["show", "latest"], &["search", "x"]];
    for name in ["store.db", "losses", "record-count", "search.db", "spill/1-x.json"] {
        for arguments in commands {
            let place = TempStore::new();
            place.open().append(user_message("r", "x")).unwrap();
            let path = place.data_dir().path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = std::fs::remove_file(&path);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let mut command = Command::new("timeout");
            command.arg("60").arg(env!("CARGO_BIN_EXE_midcourse")).args(arguments);
            let output = command.env("MIDCOURSE_HOME", place.data_dir().path()).output().unwrap();
            assert_ne!(output.status.code(), Some(124), "{name}, {arguments:?}");
        }
    }
}

/// The limit of file sizes is zero, so every write fails, and by default its signal kills a process.
#[test]
fn a_hook_survives_a_limit_of_file_sizes() {
    let place = TempStore::new();
    let script = format!("ulimit -f 0; exec {} hook claude-code", env!("CARGO_BIN_EXE_midcourse"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("MIDCOURSE_HOME", place.data_dir().path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let payload = json!({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "x"});
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
}
