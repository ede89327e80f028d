//! Damaged stores: `verify` finds every damage that loses or changes a record, and `export` does not
//! hand out a damaged run as if it were whole.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use midcourse::{DataDir, Durability, Store, StoreSettings};
use proptest::prelude::*;

use crate::events::{findings, text_of, user_message};

const EVENTS: usize = 10;

/// A store with `EVENTS` records, each with a commit of its own, all in the write-ahead log.
fn store_in(folder: &Path) -> DataDir {
    let data_dir = DataDir::at(folder);
    let settings = StoreSettings { durability: Durability::Full, ..StoreSettings::default() };
    let mut store = Store::open(&data_dir, settings).unwrap();
    for number in 0..EVENTS {
        store.append(user_message("r", &format!("event {number}"))).unwrap();
    }
    data_dir
}

fn midcourse(data_dir: &DataDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(arguments).env("MIDCOURSE_HOME", data_dir.path()).output().unwrap()
}

/// All texts of the store that can be read.
fn texts(data_dir: &DataDir) -> Vec<String> {
    let Ok(Some(store)) = Store::open_read_only(data_dir) else { return Vec::new() };
    let records = store.trajectory("r").unwrap_or_default();
    records.iter().map(text_of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// One flipped bit in the write-ahead log either changes nothing that is read, or is found.
    #[test]
    fn a_flipped_bit_in_the_log_is_found(place in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = store_in(folder.path());
        let before = texts(&data_dir);
        prop_assert_eq!(before.len(), EVENTS);
        let log = folder.path().join("store.db-wal");
        let mut bytes = fs::read(&log).unwrap();
        let at = place.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(&log, bytes).unwrap();
        let found = match Store::open_read_only(&data_dir) {
            Ok(Some(store)) => findings(&store),
            Ok(None) => vec!["there is no store".to_owned()],
            Err(error) => vec![error.to_string()],
        };
        prop_assert!(texts(&data_dir) == before || !found.is_empty());
    }
}

#[test]
fn lost_records_stay_known_after_new_ones_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = store_in(folder.path());
    // Damage in the first frame: SQLite takes the whole log for empty.
    let log = folder.path().join("store.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes[100] ^= 1;
    fs::write(&log, bytes).unwrap();
    // The tables were in the log too, so this creates the store anew.
    let settings = StoreSettings { durability: Durability::Full, ..StoreSettings::default() };
    let mut store = Store::open(&data_dir, settings).unwrap();
    store.append(user_message("r", "a new event")).unwrap();
    let found = findings(&store);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("the last 10 records of the store are missing"), "{found:?}");
    drop(store);
    fs::remove_file(folder.path().join("record-count.missing")).unwrap();
    assert!(midcourse(&data_dir, &["verify"]).status.success());
}

#[test]
fn a_changed_record_is_not_exported_as_if_it_were_whole() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = store_in(folder.path());
    let connection = rusqlite::Connection::open(data_dir.store_file()).unwrap();
    let change = "UPDATE records SET payload = replace(payload, 'event 3', 'event X')";
    assert!(connection.execute(change, []).unwrap() > 0);
    drop(connection);
    let refused = midcourse(&data_dir, &["export", "r"]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{stderr}");
    assert!(stderr.contains("record 3 was changed") && stderr.contains("--damaged"), "{stderr}");
    let marked = midcourse(&data_dir, &["export", "r", "--damaged"]);
    let stdout = String::from_utf8(marked.stdout).unwrap();
    assert_eq!(stdout.lines().count(), EVENTS);
    assert!(stdout.lines().all(|line| line.contains("\"damaged\":true")), "{stdout}");
}

/// Every command that shows a changed record reports it, with the same message and exit code.
#[test]
fn a_changed_record_is_noticed_by_every_command_that_shows_it() {
    let commands: [&[&str]; 6] = [
        &["show", "r"],
        &["tail", "-n", "12"],
        &["tail", "r", "--json"],
        &["search", "event"],
        &["search", "event", "--json"],
        &["replay", "--run", "r"],
    ];
    let change =
        "UPDATE records SET payload = replace(payload, 'event 3', 'event X') WHERE seq = 3";
    for arguments in commands {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = store_in(folder.path());
        let intact = midcourse(&data_dir, arguments);
        assert!(intact.status.success() && intact.stderr.is_empty(), "{intact:?}");
        let connection = rusqlite::Connection::open(data_dir.store_file()).unwrap();
        assert_eq!(connection.execute(change, []).unwrap(), 1);
        drop(connection);
        let shown = midcourse(&data_dir, arguments);
        let stderr = String::from_utf8(shown.stderr).unwrap();
        assert_eq!(shown.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(!shown.stdout.is_empty(), "{arguments:?}: {stderr}");
        assert_eq!(
            stderr.matches("r: record 3 was changed after it was stored").count(),
            1,
            "{stderr}"
        );
        assert!(
            stderr.ends_with("the run is damaged; run `midcourse verify` for details\n"),
            "{stderr}"
        );
    }
}

/// A record that cannot be read is left out, and the records around it are shown.
#[test]
fn an_unreadable_record_does_not_hide_the_others() {
    for arguments in
        [&["show", "r"][..], &["tail"], &["search", "event"], &["replay", "--run", "r"]]
    {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = store_in(folder.path());
        assert!(midcourse(&data_dir, &["search", "event"]).status.success());
        let connection = rusqlite::Connection::open(data_dir.store_file()).unwrap();
        connection.execute("UPDATE records SET payload = '{' WHERE seq = 3", []).unwrap();
        drop(connection);
        let shown = midcourse(&data_dir, arguments);
        let stderr = String::from_utf8(shown.stderr).unwrap();
        assert_eq!(shown.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("record 3"), "{arguments:?}: {stderr}");
        let stdout = String::from_utf8(shown.stdout).unwrap();
        assert!(arguments[0] == "replay" || stdout.contains("event 4"), "{arguments:?}: {stdout}");
    }
}
