//! Exporting, importing and removing runs.
//!
//! An export that is imported into another store loses nothing, and importing the same file again
//! changes nothing. When runs are removed, so are the bodies (long texts that the store keeps
//! apart from the records) that no other run uses.

use midcourse::{Budget, Engine, RunId, RunIdentity, RunOutcome, ToolResult, TrajectoryPayload};
use midcourse::{Event, Label, LabelVerdict, RecordStatus, Source, Store, SyncedEngine};
use std::io::Write as _;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::events::{TempStore, at, findings, hook, root, tool_ended, user_message};

fn synced_engine() -> SyncedEngine {
    SyncedEngine::new(Engine::shipped(Budget::default())).unwrap()
}

/// Runs the command and returns its JSON lines.
fn midcourse(place: &TempStore, args: &[&str], input: &str) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .args(args)
        .env("MIDCOURSE_HOME", place.data_dir().path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Exports the records of all runs.
fn export(place: &TempStore) -> Vec<Value> {
    let runs = midcourse(place, &["list", "--json"], "");
    let mut runs: Vec<&str> = runs.iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    runs.sort_unstable();
    runs.iter().flat_map(|run| midcourse(place, &["export", run], "")).collect()
}

/// Imports records and returns the counts that the command prints.
fn import(place: &TempStore, lines: &[Value]) -> Value {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    midcourse(place, &["import", "-", "--json"], &lines).remove(0)
}

/// Checks the five counts that an import prints, in the order of `names`.
#[track_caller]
fn check_counts(counts: &Value, expected: [u64; 5]) {
    let names = ["new", "duplicate", "merged", "conflict", "renumbered"];
    assert_eq!(names.map(|name| counts[name].as_u64().unwrap()), expected, "{counts}");
}

/// Adds a run and its child run that together have everything a store can contain: long texts, a
/// secret, a call that two sources reported (merged), a call that one source reported twice with
/// different results (a conflict), a message for the agent, a record with schema version 0, and labels.
pub(crate) fn everything(store: &mut Store) {
    let child = RunIdentity::child_of(&root("r"), "r.worker");
    store.append(Event::new(child, hook(), at(1), TrajectoryPayload::TurnStarted)).unwrap();
    store.append(user_message("r", "make it build")).unwrap();
    store.append(tool_ended("r", "long", &"long ".repeat(3_000))).unwrap();
    store.append(tool_ended("r", "too long", &"0123456789".repeat(200_000))).unwrap();
    store.append(tool_ended("r", "secret", &format!("AKIA{}", "ABCDEFGHIJKLMNOP"))).unwrap();
    let mut filled = tool_ended("r", "long", "");
    filled.source = Source::new("test", midcourse::Channel::Proxy);
    filled.payload = TrajectoryPayload::ToolEnded {
        tool_call_id: "long".into(),
        tool_name: "bash".into(),
        result: ToolResult { narration: Some("built".into()), ..ToolResult::text("") },
        is_error: true,
    };
    assert_eq!(store.append(filled).unwrap().status, RecordStatus::Merged);
    assert_eq!(
        store.append(tool_ended("r", "secret", "else")).unwrap().status,
        RecordStatus::Conflict
    );
    let mut old = user_message("r", "an old record");
    old.schema_version = 0;
    store.append(old).unwrap();
    let mut engine = synced_engine();
    for call in 0..4 {
        let mut event = tool_ended("r", &call.to_string(), "error: no rule");
        let TrajectoryPayload::ToolEnded { is_error, .. } = &mut event.payload else {
            unreachable!()
        };
        *is_error = true;
        let event = event.at_decision_point(midcourse::DecisionPoint::PreToolSelection);
        store.step(event, &mut engine).unwrap();
    }
    let end = TrajectoryPayload::RunEnded { outcome: RunOutcome::Failed, new_messages: Vec::new() };
    store.append(Event::new(root("r"), hook(), at(60), end)).unwrap();
    for (seq, verdict) in [(None, LabelVerdict::Bad), (Some(0), LabelVerdict::Good)] {
        let label = Label {
            seq,
            verdict,
            cause: Some("doom_loop".to_owned()),
            call: seq,
            text_hash: seq.map(|_| Label::hash_of("stop")),
            note: Some("of a person".to_owned()),
            labelled_at_unix_ms: at(90),
        };
        store.set_label(&"r".into(), &label).unwrap();
    }
}

#[test]
fn an_export_imports_without_loss_any_number_of_times() {
    let (original, copy) = (TempStore::new(), TempStore::new());
    everything(&mut original.open());
    let lines = export(&original);
    let count = u64::try_from(lines.len()).unwrap();
    check_counts(&import(&copy, &lines), [count, 0, 0, 1, 0]);
    assert!(export(&copy) == lines, "the copy exports the same");
    // Every import counts one conflict: the export contains both reports of the call "secret".
    check_counts(&import(&copy, &lines), [0, count, 0, 1, 0]);
    assert!(export(&copy) == lines, "the copy exports the same");
    check_counts(&import(&original, &lines), [0, count, 0, 1, 0]);
    assert!(export(&original) == lines, "the original is unchanged");
    // The same file can be imported again even after the copied run got a new record.
    copy.open().append(user_message("r", "one more")).unwrap();
    assert_eq!(import(&copy, &lines)["new"], 0);
    for place in [&original, &copy] {
        assert_eq!(place.findings(), [""; 0]);
    }
    let summary = |place: &TempStore| place.open().run("r").unwrap().unwrap();
    assert_eq!(summary(&original).calls, summary(&copy).calls);
}

#[test]
fn records_with_missing_seqs_are_renumbered_and_not_imported_twice() {
    let place = TempStore::new();
    let line = |seq: u64, text: &str| {
        json!({"seq": seq, "run_id": "r", "recorded_at_unix_ms": 5,
               "payload": {"kind": "message_appended", "message": {"role": "user", "content": text}}})
    };
    let lines = [line(0, "a"), line(4, "b"), line(9, "b")];
    check_counts(&import(&place, &lines), [3, 0, 0, 0, 2]);
    let again = import(&place, &lines);
    assert_eq!((again["new"].as_u64(), again["duplicate"].as_u64()), (Some(0), Some(3)));
    assert_eq!(export(&place).len(), 3);
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn old_runs_are_removed_only_with_all_their_child_runs() {
    let place = TempStore::new();
    let mut store = place.open();
    let mut add = |run: RunIdentity, seconds| {
        let text = "shared ".repeat(1_000);
        let payload = tool_ended("", "c", &text).payload;
        store.append(Event::new(run, hook(), at(seconds), payload)).unwrap();
    };
    let child = |parent: &str, name: &str| RunIdentity::child_of(&root(parent), name);
    add(root("old"), 10);
    add(child("old", "old.child"), 20);
    add(root("busy"), 10);
    add(child("busy", "busy.child"), 900);
    add(root("new"), 900);
    let old = store.runs_before(at(100)).unwrap();
    let names: Vec<_> = old.iter().map(|id| id.as_str()).collect();
    assert_eq!(names, ["old.child", "old"]);
    assert_eq!(store.remove_runs(&["new".into()], at(100)).unwrap(), [], "it is not old enough");
    assert_eq!(store.remove_runs(&["busy".into()], at(100)).unwrap(), [], "its child is not");
    assert_eq!(store.remove_runs(&old, at(100)).unwrap(), old);
    assert_eq!(store.run_count().unwrap(), 3);
    assert_eq!(findings(&store), [""; 0], "shared bodies are still there");
    let all = ["busy", "busy.child", "new"].map(RunId::from);
    assert_eq!(store.remove_runs(&all, at(10_000)).unwrap(), all);
    let connection = Connection::open(place.data_dir().store_file()).unwrap();
    let bodies: i64 =
        connection.query_row("SELECT count(*) FROM bodies", [], |row| row.get(0)).unwrap();
    assert_eq!(bodies, 0);
    store.shrink().unwrap();
}
