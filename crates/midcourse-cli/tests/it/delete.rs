//! `midcourse delete`: it asks, it deletes a run with its subagents, and it leaves no text behind.

use std::path::{Path, PathBuf};

use crate::archive::everything;
use crate::events::user_message;
use crate::runs_command::User;

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The files of the data directory that contain a text.
fn files_with(user: &User, text: &str) -> Vec<PathBuf> {
    let contains = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    let files = files(user.data_dir().path());
    files.into_iter().filter(|file| contains(&std::fs::read(file).unwrap())).collect()
}

#[test]
fn delete_removes_a_run_with_its_subagents_and_their_text_from_the_disk() {
    let user = User::new();
    everything(&mut user.place.open());
    user.place.open().append(user_message("other", "unmistakable-kept")).unwrap();
    user.place.open().append(user_message("r", "unmistakable-deleted")).unwrap();
    user.output(&["search", "unmistakable"]);
    assert!(!files_with(&user, "unmistakable-deleted").is_empty());
    let error = user.error(&["delete", "r"]);
    assert!(
        error.contains("Delete the run r (make it build), 13 records and its subagent?"),
        "{error}"
    );
    assert!(error.contains("Add `--yes`"), "{error}");
    assert_eq!(user.output(&["delete", "r", "--yes"]), "Deleted 2 runs, 14 records.\n");
    assert_eq!(files_with(&user, "unmistakable-deleted"), [""; 0].map(PathBuf::from));
    assert!(!files_with(&user, "unmistakable-kept").is_empty());
    let left = user.lines(&["list", "--json"]);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["run_id"], "other");
    assert!(user.output(&["verify"]).contains("no problems"));
    assert!(user.error(&["delete", "r", "--yes"]).contains("no run `r`"));
}

#[test]
fn delete_all_keeps_only_what_is_not_recorded() {
    let user = User::new();
    everything(&mut user.place.open());
    user.place.open().append(user_message("other", "unmistakable")).unwrap();
    let folder = user.data_dir().path().to_owned();
    std::fs::write(user.data_dir().config_file(), "mode = \"shadow\"\n").unwrap();
    std::fs::write(user.data_dir().log_file(), "unmistakable").unwrap();
    let kept = folder.join("before-repair-2026-11-16T10-00-00.000Z");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("store.db"), "unmistakable").unwrap();
    let launch = user.data_dir().launch_folder("01a1e5f7-a28c-7040-9317-c0b24bfb0e7c");
    std::fs::create_dir_all(&launch).unwrap();
    std::fs::write(launch.join("settings.json"), "{}").unwrap();
    assert!(user.error(&["delete", "--all"]).contains("Delete all 3 runs in "));
    assert_eq!(user.output(&["delete", "--all", "--yes"]), "Deleted 3 runs, 14 records.\n");
    assert_eq!(files_with(&user, "unmistakable"), [""; 0].map(PathBuf::from));
    assert!(user.data_dir().config_file().exists() && !launch.exists() && !kept.exists());
    assert_eq!(user.output(&["list"]), "No runs recorded yet.\n");
    assert!(user.output(&["verify"]).contains("no problems"));
    // The store is still usable.
    user.place.open().append(user_message("new", "x")).unwrap();
    assert_eq!(user.lines(&["list", "--json"]).len(), 1);
    assert!(user.output(&["verify"]).contains("no problems"));
}
