//! `midcourse hook` on failing and slow disks: the hook still succeeds with an empty reply. What the
//! disk cannot take is kept in memory and stored later; after a restart of the machine, a gap marker
//! (a record with the number of lost events) replaces it.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use midcourse::{DataDir, Store, TrajectoryPayload, is_kept_in_memory};
use serde_json::json;

use crate::events::{empty_memory, findings, test_settings};
use crate::hook::{patient, reply, start};
use simulated_disk::{Disk, Fault};

fn started(call: &str) -> Vec<u8> {
    json!({"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash",
           "tool_input": {"command": call}, "tool_use_id": call})
    .to_string()
    .into_bytes()
}

fn hook(disk: &Disk, command: &mut Command, home: &DataDir, call: &str) {
    let child = start(disk.record(command), home.path(), "claude-code", &started(call));
    assert_eq!(reply(child.wait_with_output().unwrap()), "");
}

/// The `midcourse` command with a timeout that a slow disk exceeds.
fn hurried() -> Command {
    let mut command = patient();
    command.env("MIDCOURSE_HOOK_TIMEOUT_MS", "300");
    command
}

/// A short text for each stored record: the id of a call that started, the number of lost events in
/// a gap marker, or the kind of any other record.
fn stored(home: &DataDir) -> Vec<String> {
    let store = Store::open(home, test_settings()).unwrap();
    assert_eq!(findings(&store), [""; 0]);
    let shown = |payload: &TrajectoryPayload| match payload {
        TrajectoryPayload::ToolStarted { tool_call_id, .. } => tool_call_id.to_string(),
        TrajectoryPayload::Gap { lost, .. } => format!("{lost} lost"),
        other => other.kind().to_owned(),
    };
    store.trajectory("s").unwrap().iter().map(|record| shown(&record.payload)).collect()
}

fn log(home: &DataDir) -> String {
    std::fs::read_to_string(home.log_file()).unwrap_or_default()
}

#[test]
fn events_are_spilled_while_the_store_cannot_grow() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    hook(&disk, &mut patient(), &home, "one");
    disk.inject(&[Fault::no_space().on("*store.db-wal")]);
    hook(&disk, &mut patient(), &home, "two");
    hook(&disk, &mut patient(), &home, "three");
    disk.heal();
    hook(&disk, &mut patient(), &home, "four");
    assert_eq!(stored(&home), ["one", "two", "three", "four"]);
    let log = log(&home);
    assert_eq!(
        log.matches("is in the spill folder and stored later: the disk is full").count(),
        2,
        "{log}"
    );
}

#[test]
fn a_full_disk_leaves_a_gap_marker() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    hook(&disk, &mut patient(), &home, "one");
    disk.inject(&[
        Fault::no_space().on("*store.db*"),
        Fault::no_space().on("*spill*"),
        Fault::no_space().on("*hook.log"),
    ]);
    hook(&disk, &mut patient(), &home, "two");
    empty_memory(&home);
    disk.heal();
    hook(&disk, &mut patient(), &home, "three");
    assert_eq!(stored(&home), ["one", "1 lost", "three"]);
}

#[test]
fn an_event_that_a_full_disk_cannot_take_is_kept_in_memory() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    hook(&disk, &mut patient(), &home, "one");
    disk.inject(&[Fault::no_space()]);
    hook(&disk, &mut patient(), &home, "two");
    hook(&disk, &mut patient(), &home, "three");
    assert!(is_kept_in_memory(&home));
    disk.heal();
    hook(&disk, &mut patient(), &home, "four");
    assert_eq!(stored(&home), ["one", "two", "three", "four"]);
    assert!(!is_kept_in_memory(&home));
}

#[test]
fn an_event_is_not_lost_if_the_disk_is_slower_than_the_hook_may_be() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    hook(&disk, &mut patient(), &home, "one");
    // Another process has the store open, as `midcourse run` and the proxy do.
    let reader = Store::open(&home, test_settings()).unwrap();
    disk.inject(&[Fault::slow_sync()]);
    for call in ["two", "three", "four"] {
        hook(&disk, &mut hurried(), &home, call);
    }
    disk.heal();
    hook(&disk, &mut patient(), &home, "five");
    drop(reader);
    assert_eq!(stored(&home), ["one", "two", "three", "four", "five"]);
}

/// What a process leaves behind that has to end while its disk does not respond.
#[test]
fn a_spill_file_that_was_not_finished_is_taken_in() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    hook(&disk, &mut patient(), &home, "one");
    disk.inject(&[Fault::no_space().on("*store.db-wal")]);
    hook(&disk, &mut patient(), &home, "two");
    disk.heal();
    let spilled = std::fs::read_dir(home.spill_folder()).unwrap().next().unwrap().unwrap().path();
    let unfinished = spilled.with_extension("tmp");
    std::fs::rename(spilled, &unfinished).unwrap();
    hook(&disk, &mut patient(), &home, "three");
    assert_eq!(stored(&home), ["one", "three"], "its process may still write it");
    let file = std::fs::File::options().write(true).open(&unfinished).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(120)).unwrap();
    let torn = unfinished.with_file_name("000000000000001-torn.tmp");
    std::fs::write(&torn, "{\"version\": 1, \"ev").unwrap();
    let file = std::fs::File::options().write(true).open(&torn).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(120)).unwrap();
    hook(&disk, &mut patient(), &home, "four");
    let store = Store::open(&home, test_settings()).unwrap();
    let findings = findings(&store);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("torn.unread"), "{findings:?}");
    std::fs::remove_file(torn.with_extension("unread")).unwrap();
    assert_eq!(stored(&home), ["one", "three", "two", "four"]);
}

#[test]
fn a_payload_on_a_pipe_that_stays_open_is_stored() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    let (read, write) = std::io::pipe().unwrap();
    let mut command = patient();
    command.args(["hook", "claude-code"]).env("MIDCOURSE_HOME", home.path()).stdin(read);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (&write).write_all(&started("one")).unwrap();
    assert_eq!(reply(child.wait_with_output().unwrap()), "");
    drop(write);
    assert_eq!(stored(&home), ["one"]);
}

#[test]
fn a_hook_survives_a_read_only_disk() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    disk.inject(&[Fault::read_only()]);
    hook(&disk, &mut patient(), &home, "one");
    assert!(!home.path().exists());
    disk.heal();
    hook(&disk, &mut patient(), &home, "two");
    assert_eq!(stored(&home), ["one", "two"]);
}
