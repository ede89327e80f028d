//! `midcourse hook` on bad disks: the agent notices nothing, and what was lost is on record.

use std::process::Command;

use midcourse::{DataDir, Store, TrajectoryPayload};
use serde_json::json;

use crate::disk::{Disk, Fault};
use crate::events::{findings, quick};
use crate::hook::{answer, patient, start};

fn started(call: &str) -> Vec<u8> {
    json!({"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash",
           "tool_input": {"command": call}, "tool_use_id": call})
    .to_string()
    .into_bytes()
}

fn hook(disk: &Disk, command: &mut Command, home: &DataDir, call: &str) {
    let child = start(disk.record(command), home.path(), "claude-code", &started(call));
    assert_eq!(answer(child.wait_with_output().unwrap()), "");
}

/// The calls that are on record, and the gaps.
fn stored(home: &DataDir) -> Vec<String> {
    let store = Store::open(home, quick()).unwrap();
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
fn a_full_disk_under_the_store_makes_events_wait() {
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
    assert_eq!(log.matches("waits in the spill folder: the disk is full").count(), 2, "{log}");
}

#[test]
fn a_full_disk_leaves_a_gap_that_is_told() {
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
fn a_disk_that_may_not_be_written_is_survived() {
    let disk = Disk::new();
    let home = DataDir::at(disk.root().join("home"));
    disk.inject(&[Fault::read_only()]);
    hook(&disk, &mut patient(), &home, "one");
    assert!(!home.path().exists());
    disk.heal();
    hook(&disk, &mut patient(), &home, "two");
    assert_eq!(stored(&home), ["two"]);
}
