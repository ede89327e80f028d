//! `midcourse hook` on failing disks: the hook still succeeds with an empty reply, and a gap marker
//! (a record with the number of lost events) replaces what could not be stored.

use std::process::Command;

use midcourse::{DataDir, Store, TrajectoryPayload};
use serde_json::json;

use crate::disk::{Disk, Fault};
use crate::events::{findings, test_settings};
use crate::hook::{patient, reply, start};

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
    disk.heal();
    hook(&disk, &mut patient(), &home, "three");
    assert_eq!(stored(&home), ["one", "1 lost", "three"]);
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
    assert_eq!(stored(&home), ["two"]);
}
