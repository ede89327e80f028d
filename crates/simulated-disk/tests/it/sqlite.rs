//! SQLite on the simulated disk: with syncs SQLite keeps every commit, without them it loses some.
//!
//! These tests check the disk, not SQLite, which is known to be correct. If SQLite lost a commit
//! with its syncs, the simulated power cut would lose too much; if SQLite lost none without them,
//! the simulated disk could not reveal a missing sync.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use simulated_disk::{CrashState, Disk, Fault, Sample, ack, recorded_root};

fn text(id: i64) -> String {
    format!("{id:05} ").repeat(if id % 7 == 0 { 2000 } else { 60 })
}

#[test]
#[ignore = "runs as a recorded process"]
fn insert_rows() {
    let Some(root) = recorded_root() else { return };
    for ids in [0..20, 20..40, 40..60] {
        let connection = Connection::open(root.join("rows.db")).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 PRAGMA wal_autocheckpoint = 20;
                 CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, text TEXT);
                 CREATE INDEX IF NOT EXISTS by_text ON rows (text);",
            )
            .unwrap();
        // This build of SQLite does not sync the folder of a new database, so the test has to.
        File::open(&root).unwrap().sync_all().unwrap();
        let insert = |id: i64| {
            connection.execute("INSERT OR REPLACE INTO rows VALUES (?1, ?2)", (id, text(id)))
        };
        for id in ids {
            let tries = (0..10).position(|_| insert(id).is_ok()).unwrap();
            (0..tries).for_each(|_| ack("failed"));
            ack(&id.to_string());
        }
        connection.close().map_err(|(_, error)| error).unwrap();
    }
}

#[test]
#[ignore = "runs as a recorded process"]
fn recover_rows() {
    let Some(root) = recorded_root() else { return };
    ids(&root, "FULL").unwrap();
}

/// The ids of all rows, or an error if the database is damaged. No ids if there is no database yet.
fn ids(folder: &Path, synchronous: &str) -> Result<BTreeSet<i64>, Box<dyn Error>> {
    let connection = Connection::open(folder.join("rows.db"))?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    let found: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(found.into());
    }
    if !connection.table_exists(None, "rows")? {
        return Ok(BTreeSet::new());
    }
    let mut rows = connection.prepare("SELECT id, text FROM rows")?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: Vec<(i64, String)> = rows.collect::<Result<_, _>>()?;
    match rows.iter().find(|(id, found)| *found != text(*id)) {
        Some((id, _)) => Err(format!("row {id} has a wrong text").into()),
        None => Ok(rows.into_iter().map(|(id, _)| id).collect()),
    }
}

fn acked(state: &CrashState) -> BTreeSet<i64> {
    state.acked().iter().filter_map(|id| id.parse().ok()).collect()
}

fn assert_has_rows(state: &CrashState, acked: &BTreeSet<i64>) {
    let found = ids(state.materialise().path(), "OFF");
    assert!(found.as_ref().is_ok_and(|found| found.is_superset(acked)), "{found:?}: {state}");
}

#[test]
fn every_commit_survives_every_power_cut() {
    let disk = Disk::new();
    disk.run_child("sqlite::insert_rows");
    let mut states = 0;
    for state in disk.crash_states(Sample::at_most(300).random_states(2), 7) {
        assert_has_rows(&state, &acked(&state));
        states += 1;
    }
    assert!(states > 300, "{states} states");
}

#[test]
fn every_commit_survives_a_power_cut_during_recovery() {
    let disk = Disk::new();
    disk.run_child("sqlite::insert_rows");
    let states = disk.crash_states(Sample::at_most(0).random_states(1), 7);
    for state in states.filter(|state| state.acked().len() > 5).step_by(101) {
        let again = Disk::after(&state);
        again.run_child("sqlite::recover_rows");
        for later in again.crash_states(Sample::at_most(20), 7) {
            assert_has_rows(&later, &acked(&state));
        }
    }
}

#[test]
fn without_syncs_a_commit_is_lost() {
    for glob in ["*", "*-wal", "*/"] {
        let disk = Disk::new();
        disk.inject(&[Fault::dropped_sync().on(glob)]);
        disk.run_child("sqlite::insert_rows");
        let mut states = disk.crash_states(Sample::at_most(0).random_states(1), 7);
        let loses_rows = |state: CrashState| {
            let found = ids(state.materialise().path(), "OFF");
            !found.is_ok_and(|found| found.is_superset(&acked(&state)))
        };
        assert!(states.any(loses_rows), "dropped syncs of {glob}");
    }
}

#[test]
fn a_commit_that_is_retried_after_a_failure_survives() {
    for (fault, must_fail) in [
        (Fault::sync_error().on("*-wal").from(9).times(3), true),
        (Fault::no_space().on("*-wal").from(100).times(3), true),
        (Fault::short_write().on("*-wal").from(100).times(40), false),
        (Fault::sync_error().on("rows.db").from(3).times(2), false),
        (Fault::no_space().on("rows.db").from(30).times(3), false),
    ] {
        let disk = Disk::new();
        disk.inject(std::slice::from_ref(&fault));
        disk.run_child("sqlite::insert_rows");
        let states = disk.crash_states(Sample::at_most(0).random_states(1), 7);
        let mut failures = 0;
        for state in states.step_by(6) {
            assert_has_rows(&state, &acked(&state));
            failures = state.acked().iter().filter(|line| *line == "failed").count();
        }
        assert_eq!(failures > 0, must_fail, "{fault:?}");
    }
}
