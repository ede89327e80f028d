//! Files in place of the store that this release cannot read. Every command says in one line what
//! the file is, adds a hint that says what to do, and changes nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rusqlite::Connection;

use crate::events::TempStore;

const COMMANDS: [&[&str]; 12] = [
    &["list"],
    &["show", "latest"],
    &["tail"],
    &["search", "word"],
    &["export", "latest"],
    &["replay", "--run", "latest"],
    &["verify"],
    &["prune", "--older-than", "1d"],
    &["prune", "--older-than", "1d", "--yes"],
    &["backup", "copy.db"],
    &["repair"],
    &["redact", "latest"],
];

fn midcourse(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(arguments).env("MIDCOURSE_HOME", home).current_dir(home).output().unwrap()
}

/// Checks that every command refuses the file with one line and a hint, and leaves it as it is.
fn check(make: impl Fn(&Path), expected: &str, hint: &str) {
    for arguments in COMMANDS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        make(&file);
        let before = fs::read(&file).unwrap();
        let output = midcourse(folder.path(), arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        let lines: Vec<&str> = stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{arguments:?}: {stderr}");
        let (line, second) = (lines[0], lines[1]);
        let expected = match arguments[0] {
            "repair" if expected.contains("is not a database") => "no run can be saved",
            _ => expected,
        };
        assert!(line.contains(expected), "{arguments:?}: {stderr}");
        assert!(
            second.starts_with("hint: ") && (second.contains(hint) || arguments[0] == "repair"),
            "{stderr}"
        );
        assert!(fs::read(&file).unwrap() == before, "{arguments:?} changed the file");
    }
}

#[test]
fn a_store_of_a_newer_release() {
    let make = |file: &Path| {
        let place = TempStore::new();
        drop(place.open());
        let store = Connection::open(place.data_dir().store_file()).unwrap();
        store.execute_batch("PRAGMA user_version=7; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
        drop(store);
        fs::copy(place.data_dir().store_file(), file).unwrap();
    };
    check(make, "the store has schema 7; this release", "install the newer midcourse");
}

#[test]
fn a_database_of_another_program() {
    for version in [0, 1, 77] {
        let make = |file: &Path| {
            let other = Connection::open(file).unwrap();
            let tables = format!("CREATE TABLE bookmarks(x); PRAGMA user_version={version}");
            other.execute_batch(&tables).unwrap();
        };
        check(make, "is an SQLite database of another program", "move the file away");
    }
}

#[test]
fn a_file_that_is_no_database() {
    let make = |file: &Path| fs::write(file, "some text\n".repeat(999)).unwrap();
    check(make, "the store is damaged: file is not a database", "`midcourse repair`");
}

/// A process that dies while it creates the store may leave an empty file.
#[test]
fn an_empty_file_is_a_store_without_runs() {
    for arguments in [&["list"][..], &["verify"], &["tail"], &["repair"]] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("store.db"), "").unwrap();
        let output = midcourse(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("store.db"), "").unwrap();
    let output = midcourse(folder.path(), &["show", "latest"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("no runs recorded yet"), "{stderr}");
}
