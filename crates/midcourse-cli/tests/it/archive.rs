//! Exporting, importing and removing runs.
//!
//! An export imports without loss, importing it again changes nothing, and removing runs leaves no
//! unused bodies.

use midcourse::{Budget, Engine, RunIdentity, RunOutcome, ToolResult, TrajectoryPayload};
use midcourse::{Event, RecordStatus, Source, Store, SyncedEngine, now};
use midcourse_cli::formats::records::{LineDefaults, read_line};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::events::{Place, at, ended, findings, hook, root, said};

fn synced_engine() -> SyncedEngine {
    SyncedEngine::new(Engine::shipped(Budget::default())).unwrap()
}

fn export(store: &Store) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut runs = store.runs(usize::MAX).unwrap();
    runs.sort_by(|a, b| a.run_id.cmp(&b.run_id));
    for run in runs {
        let records = store.records(run.run_id.as_str(), 0, usize::MAX).unwrap();
        lines.extend(records.iter().map(|record| record.to_json()));
    }
    lines
}

fn import(store: &mut Store, lines: &[Value]) -> midcourse::Imported {
    let defaults = LineDefaults { run_id: None, source: "import/records".into(), at: now() };
    let lines = lines.iter().map(|line| read_line(&line.to_string(), &defaults).unwrap());
    store.import(lines.collect()).unwrap()
}

/// A run with a bit of everything: a child run, bodies, secrets, merged and conflicting reports,
/// deliveries, and a record of an old schema.
pub(crate) fn everything(store: &mut Store) {
    let child = RunIdentity::child_of(&root("r"), "r.worker");
    store.append(Event::new(child, hook(), at(1), TrajectoryPayload::TurnStarted)).unwrap();
    store.append(said("r", "make it build")).unwrap();
    store.append(ended("r", "long", &"long ".repeat(3_000))).unwrap();
    store.append(ended("r", "too long", &"0123456789".repeat(200_000))).unwrap();
    store.append(ended("r", "secret", &format!("AKIA{}", "ABCDEFGHIJKLMNOP"))).unwrap();
    let mut filled = ended("r", "long", "");
    filled.source = Source::new("test", "proxy");
    filled.payload = TrajectoryPayload::ToolEnded {
        tool_call_id: "long".into(),
        tool_name: "bash".into(),
        result: ToolResult { narration: Some("built".into()), ..ToolResult::text("") },
        is_error: true,
    };
    assert_eq!(store.append(filled).unwrap().status, RecordStatus::Merged);
    assert_eq!(store.append(ended("r", "secret", "else")).unwrap().status, RecordStatus::Conflict);
    let mut old = said("r", "an old record");
    old.schema_version = 0;
    store.append(old).unwrap();
    let mut engine = synced_engine();
    for call in 0..4 {
        let mut event = ended("r", &call.to_string(), "error: no rule");
        let TrajectoryPayload::ToolEnded { is_error, .. } = &mut event.payload else {
            unreachable!()
        };
        *is_error = true;
        let event = event.at_decision_point(midcourse::DecisionPoint::PreToolSelection);
        store.step(event, &mut engine).unwrap();
    }
    let end = TrajectoryPayload::RunEnded { outcome: RunOutcome::Failed, new_messages: Vec::new() };
    store.append(Event::new(root("r"), hook(), at(60), end)).unwrap();
}

#[test]
fn an_export_imports_without_loss_any_number_of_times() {
    let (from, to) = (Place::new(), Place::new());
    let mut store = from.open();
    everything(&mut store);
    let lines = export(&store);
    let mut copy = to.open();
    assert_eq!(import(&mut copy, &lines).duplicates, 0);
    assert_eq!(export(&copy), lines);
    let again = import(&mut copy, &lines);
    assert_eq!((again.new, again.merged, again.renumbered), (0, 0, 0));
    assert_eq!(again.conflicts, 1, "the conflict in the exported records");
    assert_eq!(export(&copy), lines);
    // Importing into the store that it came from changes nothing either.
    let original = import(&mut store, &lines);
    assert_eq!((original.new, original.conflicts), (0, 1));
    assert_eq!(export(&store), lines);
    // A live run can continue an imported one, and the file can be imported again.
    copy.append(said("r", "continue")).unwrap();
    assert_eq!(import(&mut copy, &lines).new, 0);
    for store in [&store, &copy] {
        assert_eq!(findings(store), [""; 0]);
    }
    let summary = |store: &Store| store.run("r").unwrap().unwrap();
    assert_eq!(summary(&store).calls, summary(&copy).calls);
}

#[test]
fn records_with_missing_seqs_are_renumbered_and_not_imported_twice() {
    let place = Place::new();
    let mut store = place.open();
    let line = |seq: u64, text: &str| {
        json!({"seq": seq, "run_id": "r", "recorded_at_unix_ms": 5,
               "payload": {"kind": "message_appended", "message": {"role": "user", "content": text}}})
    };
    let lines = [line(0, "a"), line(4, "b"), line(9, "b")];
    let first = import(&mut store, &lines);
    assert_eq!((first.new, first.renumbered), (3, 2));
    let again = import(&mut store, &lines);
    assert_eq!((again.new, again.duplicates), (0, 3));
    assert_eq!(store.trajectory("r").unwrap().len(), 3);
    assert_eq!(findings(&store), [""; 0]);
}

#[test]
fn old_runs_are_removed_only_with_all_their_child_runs() {
    let place = Place::new();
    let mut store = place.open();
    let mut add = |run: RunIdentity, seconds| {
        let text = "shared ".repeat(1_000);
        let payload = ended("", "c", &text).payload;
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
    assert!(!store.remove_run(&"new".into(), at(100)).unwrap(), "the run is not old enough");
    for run in &old {
        assert!(store.remove_run(run, at(100)).unwrap());
    }
    assert_eq!(store.run_count().unwrap(), 3);
    assert_eq!(findings(&store), [""; 0], "shared bodies are still there");
    for run in ["busy", "busy.child", "new"] {
        store.remove_run(&run.into(), at(10_000)).unwrap();
    }
    let connection = Connection::open(place.home().store_file()).unwrap();
    let bodies: i64 =
        connection.query_row("SELECT count(*) FROM bodies", [], |row| row.get(0)).unwrap();
    assert_eq!(bodies, 0);
    store.shrink().unwrap();
}
