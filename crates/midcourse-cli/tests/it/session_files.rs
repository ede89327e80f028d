//! Importing the session files in `testdata/sessions`, exporting what came in, and importing that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn midcourse(data_dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    let output = command.args(arguments).env("MIDCOURSE_HOME", data_dir).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn import(data_dir: &Path, path: &Path) -> Value {
    let report = midcourse(data_dir, &["import", "--json", path.to_str().unwrap()]);
    serde_json::from_str(&report).unwrap()
}

/// The ids of all runs in a store, in a fixed order.
fn runs(data_dir: &Path) -> Vec<String> {
    let store = midcourse::Store::open(
        &midcourse::DataDir::at(data_dir.to_owned()),
        crate::events::test_settings(),
    );
    let mut runs = store.unwrap().runs(usize::MAX).unwrap();
    runs.sort_by_key(|run| (run.parent_run_id.is_some(), run.run_id.as_str().to_owned()));
    runs.into_iter().map(|run| run.run_id.as_str().to_owned()).collect()
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sessions");
    let paths = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_dir()).collect()
}

#[test]
fn an_imported_run_is_the_same_after_export_and_import() {
    let folders = folders();
    assert!(folders.len() >= 5, "{folders:?}");
    for folder in folders {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let report = import(first.path(), &folder);
        let format = folder.file_name().unwrap().to_str().unwrap();
        let formats: Vec<&String> = report["formats"].as_object().unwrap().keys().collect();
        assert_eq!(formats, [format], "{report}");
        assert!(report["new"].as_u64().unwrap() > 0, "{report}");
        for problem in ["unreadable", "unknown", "conflict", "merged", "renumbered"] {
            assert_eq!(report[problem], 0, "{report}");
        }
        assert_eq!(report["unrecognised_files"], Value::Array(Vec::new()), "{report}");
        let again = import(first.path(), &folder);
        for changed in ["new", "conflict", "merged", "renumbered"] {
            assert_eq!(again[changed], 0, "{again}");
        }

        let file = second.path().join("exported.jsonl");
        for run in runs(first.path()) {
            let exported = midcourse(first.path(), &["export", &run]);
            fs::write(&file, &exported).unwrap();
            let copied = import(second.path(), &file);
            assert_eq!(copied["new"], exported.lines().count(), "{format} {run}: {copied}");
            assert_eq!(midcourse(second.path(), &["export", &run]), exported, "{format} {run}");
        }
        midcourse(first.path(), &["verify"]);
        midcourse(second.path(), &["verify"]);
    }
}
