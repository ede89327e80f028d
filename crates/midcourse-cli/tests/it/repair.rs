//! `midcourse repair`, as a user runs it. The library's unit tests cover damage in every place.

use std::fs;
use std::path::Path;

use midcourse::{DataDir, Durability, Store, StoreSettings};

use crate::backup::{check, midcourse};
use crate::events::{findings, tool_ended, user_message};

/// A store whose first records are in the database and whose last 20 are in the write-ahead log.
fn store_in(folder: &Path) -> DataDir {
    let data_dir = DataDir::at(folder);
    let settings = StoreSettings { durability: Durability::Full, ..StoreSettings::default() };
    let mut store = Store::open(&data_dir, settings).unwrap();
    for number in 0..30 {
        let text = format!("{number} ").repeat(300);
        store.append(tool_ended("r", &number.to_string(), &text)).unwrap();
    }
    store.shrink().unwrap();
    for number in 0..20 {
        store.append(user_message("r", &format!("message {number}"))).unwrap();
    }
    data_dir
}

#[test]
fn a_damaged_page_costs_its_own_records_and_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = store_in(folder.path());
    check(&midcourse(folder.path(), &["repair"]), 0, "not damaged. Nothing was changed");
    let file = data_dir.store_file();
    let mut bytes = fs::read(&file).unwrap();
    // Overwrite the first page that contains text of record 10.
    let text = "10 ".repeat(30);
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    let page = at / 4096 * 4096;
    bytes[page..page + 4096].fill(0x5a);
    fs::write(&file, &bytes).unwrap();
    assert_eq!(midcourse(folder.path(), &["verify"]).status.code(), Some(1));
    let repaired = midcourse(folder.path(), &["repair"]);
    check(&repaired, 1, "r: lost records ");
    check(&repaired, 1, "The damaged store is in ");
    check(&midcourse(folder.path(), &["verify"]), 0, "1 run, 50 records: no problems");
    check(
        &midcourse(folder.path(), &["show", "r"]),
        0,
        "1 records were lost here: the store was damaged",
    );
    check(&midcourse(folder.path(), &["show", "r"]), 0, "message 19");
    let mut store = Store::open(&data_dir, StoreSettings::default()).unwrap();
    assert_eq!(store.append(user_message("r", "goes on")).unwrap().record.seq, 50);
    assert_eq!(findings(&store), [""; 0]);
    let kept = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.into_iter().find(|path| path.to_str().unwrap().contains("before-repair-"));
    assert_eq!(fs::read(kept.unwrap().join("store.db")).unwrap(), bytes);
}

#[test]
fn commits_behind_a_damaged_frame_are_counted_by_verify_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = store_in(folder.path());
    let log = folder.path().join("store.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let length = bytes.len();
    bytes[length / 2..length / 2 + 200].fill(0x5a);
    fs::write(&log, bytes).unwrap();
    let verified = midcourse(folder.path(), &["verify"]);
    check(&verified, 1, "behind the damage are ignored; `midcourse repair` can read them");
    let repaired = midcourse(folder.path(), &["repair", "--json"]);
    let stdout = String::from_utf8(repaired.stdout).unwrap();
    let summary: serde_json::Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert!(summary["commits_behind_damage"].as_u64().unwrap() > 0, "{stdout}");
    assert!(summary["records"].as_u64().unwrap() >= 48, "{stdout}");
    check(&midcourse(folder.path(), &["show", "r"]), 0, "message 19");
    let store = Store::open_read_only(&data_dir).unwrap().unwrap();
    assert_eq!(findings(&store), [""; 0]);
}

#[test]
fn a_file_without_any_run_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = "not a database, and long enough to be looked at".repeat(99);
    fs::write(folder.path().join("store.db"), &text).unwrap();
    check(&midcourse(folder.path(), &["repair"]), 1, "no run can be saved");
    assert_eq!(fs::read_to_string(folder.path().join("store.db")).unwrap(), text);
    assert!(
        fs::read_dir(folder.path())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_str().unwrap().contains("before-") })
    );
    let empty = tempfile::tempdir().unwrap();
    check(&midcourse(empty.path(), &["repair"]), 0, "Nothing was changed");
}
