//! `midcourse backup` and `midcourse restore`, with real stores, writers and damage.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::events::{TempStore, findings, test_settings, text_of, tool_ended, user_message};

pub(crate) fn midcourse(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(arguments).env("MIDCOURSE_HOME", home).output().unwrap()
}

pub(crate) fn check(output: &Output, code: i32, expected: &str) {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(expected), "{expected}: {text}");
}

/// The texts of run `r`.
fn texts(place: &TempStore) -> Vec<String> {
    place.open().trajectory("r").unwrap().iter().map(text_of).collect()
}

#[test]
fn a_backup_is_one_private_file_without_the_key_and_can_be_restored() {
    let (place, other) = (TempStore::new(), TempStore::new());
    let secret = format!("token ghp_{} end", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    place.open().append(tool_ended("r", "a", &secret)).unwrap();
    place.open().append(tool_ended("r", "b", &"long ".repeat(2_000))).unwrap();
    midcourse::spill_event(&place.data_dir(), user_message("r", "spilled"), &test_settings())
        .unwrap();
    let key = fs::read(place.data_dir().redaction_key_file()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy.db");
    let name = file.to_str().unwrap();
    let home = place.data_dir().path().to_owned();
    check(&midcourse(&home, &["backup", name]), 0, "1 runs, 3 records");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the copy");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(&file).unwrap();
    assert!(!bytes.windows(key.len()).any(|window| window == key));
    check(&midcourse(&home, &["backup", name]), 1, "exists; pass --force");
    let missing = folder.path().join("missing/copy.db");
    check(&midcourse(&home, &["backup", missing.to_str().unwrap()]), 1, "does not exist");
    // `backup` never replaces a pipe or a device, not even with `--force`.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = midcourse(&home, &["backup", pipe.to_str().unwrap(), "--force"]);
    check(&refused, 1, "is a device or a pipe");
    assert!(!pipe.metadata().unwrap().is_file());
    assert!(place.open().back_up(&pipe, true).is_err());
    check(&midcourse(&home, &["restore", pipe.to_str().unwrap()]), 1, "is not a file");
    check(&midcourse(&home, &["backup", name, "--force"]), 0, "1 runs, 3 records");
    check(&midcourse(other.data_dir().path(), &["restore", name]), 0, "Restored 1 runs, 3 records");
    assert_eq!(texts(&other), texts(&place));
    assert_eq!(other.findings(), [""; 0]);
}

#[test]
fn a_backup_is_consistent_while_others_write() {
    let place = TempStore::new();
    place.open().append(user_message("r", "first")).unwrap();
    let done = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::SeqCst) {
                number += 1;
                let event = tool_ended("r", &number.to_string(), &"text ".repeat(number % 2_000));
                place.open().append(event).unwrap();
            }
        });
        for copy in 0..5 {
            let file = folder.path().join(copy.to_string());
            let backup = place.open().back_up(&file, false).unwrap();
            assert_eq!((backup.runs, backup.findings.as_slice()), (1, &[][..]));
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(place.findings(), [""; 0]);
}

#[test]
fn a_restore_keeps_what_was_there_and_hooks_go_on() {
    let place = TempStore::new();
    place.open().append(user_message("r", "one")).unwrap();
    let home = place.data_dir().path().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy.db");
    let name = file.to_str().unwrap();
    check(&midcourse(&home, &["backup", name]), 0, "1 runs, 1 records");
    place.open().append(user_message("r", "two")).unwrap();
    for damage in ["changed", "not a database", "missing"] {
        match damage {
            "not a database" => fs::write(home.join("store.db"), "x".repeat(9_999)).unwrap(),
            "missing" => fs::remove_file(home.join("store.db")).unwrap(),
            _ => {}
        }
        let restored = midcourse(&home, &["restore", name]);
        check(&restored, 0, "Restored 1 runs, 1 records");
        assert_eq!(texts(&place), ["one"]);
        place.open().append(user_message("r", "three")).unwrap();
        assert_eq!(place.findings(), [""; 0], "{damage}");
        assert!(midcourse(&home, &["verify"]).status.success());
    }
    let is_kept =
        |entry: &fs::DirEntry| entry.file_name().to_str().unwrap().starts_with("before-restore-");
    let entries = || fs::read_dir(&home).unwrap().map(Result::unwrap);
    let mut kept: Vec<_> = entries().filter(is_kept).map(|entry| entry.path()).collect();
    kept.sort();
    assert_eq!(kept.len(), 3, "also what was there without a database: its write-ahead log");
    // Each folder of kept files works as a data directory.
    let first = kept.iter().map(|kept| midcourse(kept, &["export", "r"]));
    let exported: Vec<String> =
        first.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).collect();
    assert!(exported.iter().any(|lines| lines.contains("\"two\"")), "{exported:?}");
}

#[test]
fn a_damaged_backup_is_refused_and_changes_nothing() {
    let place = TempStore::new();
    for number in 0..50 {
        place.open().append(user_message("r", &format!("event {number}"))).unwrap();
    }
    let home = place.data_dir().path().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy.db");
    let name = file.to_str().unwrap();
    check(&midcourse(&home, &["backup", name]), 0, "");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(8).position(|window| window == b"event 30").unwrap();
    bytes[at + 7] = b'1';
    fs::write(&file, bytes).unwrap();
    let before = fs::read(home.join("store.db")).unwrap();
    check(&midcourse(&home, &["restore", name]), 1, "record 30 was changed");
    fs::write(&file, "no database at all".repeat(99)).unwrap();
    check(&midcourse(&home, &["restore", name]), 1, "is not a database");
    fs::write(&file, "").unwrap();
    check(&midcourse(&home, &["restore", name]), 1, "is empty");
    fs::remove_file(&file).unwrap();
    check(&midcourse(&home, &["restore", name]), 1, "cannot read");
    check(&midcourse(&home, &["restore", home.join("store.db").to_str().unwrap()]), 1, "itself");
    assert_eq!(fs::read(home.join("store.db")).unwrap(), before);
    assert_eq!(
        fs::read_dir(&home)
            .unwrap()
            .filter(|entry| {
                entry.as_ref().unwrap().file_name().to_str().unwrap().contains("restor")
            })
            .count(),
        0
    );
}

#[test]
fn a_store_that_another_process_has_open_is_not_replaced() {
    let place = TempStore::new();
    place.open().append(user_message("r", "one")).unwrap();
    let home = place.data_dir().path().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("copy.db");
    let name = name.to_str().unwrap();
    check(&midcourse(&home, &["backup", name]), 0, "");
    let mut reader = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .args(["tail", "--follow", "--json"])
        .env("MIDCOURSE_HOME", &home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // `tail` has the store open once it has printed the record.
    let mut line = String::new();
    let mut out = std::io::BufReader::new(reader.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    check(&midcourse(&home, &["restore", name]), 1, "another process has the store open");
    reader.kill().unwrap();
    reader.wait().unwrap();
    check(&midcourse(&home, &["restore", name]), 0, "Restored");
}

/// `restore` and `repair` lock the whole file while they replace the store. This test holds the
/// same lock.
#[cfg(unix)]
#[test]
fn a_hook_spills_its_event_while_the_store_is_replaced() {
    use rustix::fs::{FlockOperation, fcntl_lock};

    let place = TempStore::new();
    place.open().append(user_message("r", "one")).unwrap();
    let home = place.data_dir().path().to_owned();
    let hook = |prompt: &str| {
        let payload = serde_json::json!({"session_id": "s", "cwd": "/", "prompt": prompt,
                                         "hook_event_name": "UserPromptSubmit"});
        let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
            .args(["hook", "claude-code"])
            .env("MIDCOURSE_HOME", &home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let payload = payload.to_string();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), payload.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    };
    let spilled = || fs::read_dir(home.join("spill")).map_or(0, Iterator::count);
    let file = fs::File::options().read(true).write(true).open(home.join("store.db")).unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    hook("while it is replaced");
    assert_eq!(spilled(), 2, "the prompt, and what the run is about");
    drop(file);
    hook("afterwards");
    assert_eq!(spilled(), 0);
    let stored = place.open().trajectory("s").unwrap();
    let text = serde_json::to_string(&stored).unwrap();
    assert!(text.contains("while it is replaced") && text.contains("afterwards"), "{text}");
    assert!(place.findings().is_empty());
}

/// Simulates a process that died after it had stored the replacement and overwritten a part of the
/// database.
#[test]
fn an_interrupted_restore_is_finished_by_the_next_process() {
    let place = TempStore::new();
    place.open().append(user_message("r", "one")).unwrap();
    let home = place.data_dir().path().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy.db");
    let name = file.to_str().unwrap();
    check(&midcourse(&home, &["backup", name]), 0, "");
    check(&midcourse(&home, &["restore", name]), 0, "");
    fs::copy(home.join("store.db"), home.join("store.db.replacing")).unwrap();
    fs::write(home.join("store.db"), "half").unwrap();
    check(&midcourse(&home, &["show", "r"]), 0, "one");
    assert!(!home.join("store.db.replacing").exists());
    assert_eq!(findings(&place.open()), [""; 0]);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_full_disk_is_reported_and_leaves_no_file() {
    use simulated_disk::{Disk, Fault};
    let disk = Disk::new();
    let data_dir = midcourse::DataDir::at(disk.root().join("home"));
    let mut store = midcourse::Store::open(&data_dir, test_settings()).unwrap();
    store.append(user_message("r", "one")).unwrap();
    drop(store);
    disk.inject(&[Fault::no_space().on("*copy*")]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(["backup"]).arg(disk.root().join("copy.db"));
    let output = disk.record(&mut command).env("MIDCOURSE_HOME", data_dir.path()).output().unwrap();
    check(&output, 1, "the disk is full");
    let left = fs::read_dir(disk.root()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_str().unwrap().contains("copy")));
}
