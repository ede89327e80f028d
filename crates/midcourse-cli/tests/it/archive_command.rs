//! `midcourse archive`, and `midcourse import` of what it wrote, with real processes.

use std::path::{Path, PathBuf};

use crate::backup::{check, midcourse};
use crate::events::TempStore;

/// A folder for archives, and its address.
struct Folder {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        Self { _folder: folder, path }
    }

    fn address(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

fn home(store: &TempStore) -> PathBuf {
    store.data_dir().path().to_owned()
}

#[cfg(not(feature = "archive"))]
#[test]
fn a_build_without_archives_says_so() {
    let (store, folder) = (TempStore::new(), Folder::new());
    let manifests = folder.path.join("manifests");
    std::fs::create_dir_all(&manifests).unwrap();
    let manifest = "{\"format\": \"midcourse archive\", \"version\": 1}";
    std::fs::write(manifests.join("a.json"), manifest).unwrap();
    for address in [folder.address(), "s3://bucket/prefix"] {
        let output = midcourse(&home(&store), &["import", address]);
        check(&output, 1, "is an archive, which this build cannot read");
    }
    assert!(!Path::new("s3:").exists());
}

#[cfg(feature = "archive")]
mod with_archives {
    use std::fs;

    use midcourse::{ChainEntry, ChainLimit, ChainPosition, RunHeader, Store};
    use serde_json::Value;

    use super::*;
    use crate::archive::everything;
    use crate::events::{findings, user_message};

    fn archive(store: &TempStore, folder: &Folder, more: &[&str]) -> std::process::Output {
        let arguments = ["archive", "--older-than", "1d", "--to", folder.address()];
        midcourse(&home(store), &[&arguments, more].concat())
    }

    fn json(output: &std::process::Output) -> Value {
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The headers and entries of all runs.
    fn contents(store: &Store) -> Vec<(RunHeader, Vec<ChainEntry>)> {
        let mut contents: Vec<_> = store
            .chain_ends()
            .unwrap()
            .iter()
            .map(|(run_id, _)| {
                let start = ChainPosition::start(run_id);
                let part = store.chain_after(run_id, &start, ChainLimit::NONE).unwrap();
                (part.header, part.entries)
            })
            .collect();
        contents.sort_by(|(a, _), (b, _)| a.run_id().cmp(b.run_id()));
        contents
    }

    /// What `export` prints of a run, without labels, which archives do not have.
    fn export(store: &TempStore, run: &str) -> Vec<Value> {
        let output = midcourse(&home(store), &["export", run]);
        assert!(output.status.success(), "{output:?}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("labels");
            line
        });
        lines.collect()
    }

    #[test]
    fn an_archive_imports_without_loss() {
        let (original, copy, folder) = (TempStore::new(), TempStore::new(), Folder::new());
        everything(&mut original.open());
        let output = archive(&original, &folder, &["--dry-run"]);
        check(&output, 0, "2 runs, 13 records would be archived");
        assert!(!folder.path.exists());
        let output = archive(&original, &folder, &[]);
        check(&output, 0, "Archived 2 runs, 13 records");
        check(&output, 0, "`midcourse prune --older-than 1d` removes them");

        check(&midcourse(&home(&copy), &["import", folder.address()]), 0, "Imported 2 runs");
        check(&midcourse(&home(&copy), &["verify"]), 0, "");
        assert_eq!(copy.findings(), [""; 0]);
        assert_eq!(contents(&copy.open()), contents(&original.open()));
        for run in ["r", "r.worker"] {
            let lines = export(&original, run);
            assert!(!lines.is_empty());
            assert_eq!(export(&copy, run), lines);
            let (from, to) = (original.open(), copy.open());
            assert_eq!(to.trajectory(run).unwrap(), from.trajectory(run).unwrap());
        }

        // Nothing is archived or imported twice.
        let again = json(&archive(&original, &folder, &["--json"]));
        assert_eq!((&again["runs"], &again["already_archived"]), (&0.into(), &2.into()));
        assert_eq!(fs::read_dir(folder.path.join("manifests")).unwrap().count(), 1);
        let again = json(&midcourse(&home(&copy), &["import", folder.address(), "--json"]));
        assert_eq!(again["archives"]["unchanged"], 2);
        assert_eq!(again["archives"]["added"], 0);

        // After `prune`, the archive brings the runs back. A run that has grown is archived again.
        check(&midcourse(&home(&original), &["prune", "--older-than", "1d", "--yes"]), 0, "2 runs");
        check(&midcourse(&home(&original), &["import", folder.address()]), 0, "Imported 2 runs");
        original.open().append(user_message("r", "go on")).unwrap();
        check(&archive(&original, &folder, &[]), 0, "Archived 1 run, 13 records");
        let output = midcourse(&home(&copy), &["import", folder.address()]);
        check(&output, 0, "continued 1: 1 records. 1 runs were already stored");
        assert_eq!(contents(&copy.open()), contents(&original.open()));
        assert_eq!(copy.findings(), [""; 0]);
    }

    #[test]
    fn a_run_with_another_chain_and_a_damaged_run_are_named() {
        let (original, other, folder) = (TempStore::new(), TempStore::new(), Folder::new());
        original.open().append(user_message("r", "one")).unwrap();
        original.open().append(user_message("s", "one")).unwrap();
        other.open().append(user_message("r", "another one")).unwrap();
        check(&archive(&original, &folder, &[]), 0, "Archived 2 runs, 2 records");
        let output = midcourse(&home(&other), &["import", folder.address()]);
        check(&output, 1, "not imported: r: its first 1 records differ from those in the store");
        check(&output, 1, "1 runs were not imported");
        assert_eq!(other.open().chain_ends().unwrap().len(), 2, "the other run is imported");
        assert_eq!(findings(&other.open()), [""; 0]);

        everything(&mut other.open());
        let database = rusqlite::Connection::open(other.data_dir().store_file()).unwrap();
        database.execute("UPDATE records SET at = 7 WHERE kind = 'turn_started'", []).unwrap();
        drop(database);
        let second = Folder::new();
        let output = archive(&other, &second, &[]);
        check(&output, 1, "not archived: r.worker: ");
        check(&output, 1, "not archived: r: a child run of its family cannot be archived");
        check(&output, 1, "Archived 1 run, 1 record ");
        check(&output, 1, "2 runs were not archived; run `midcourse verify`");
        let output = json(&archive(&other, &second, &["--json"]));
        assert_eq!(output["already_archived"], 1);
        assert_eq!(output["not_archived"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn only_a_complete_archive_is_read() {
        let (original, copy, folder) = (TempStore::new(), TempStore::new(), Folder::new());
        everything(&mut original.open());
        check(&archive(&original, &folder, &[]), 0, "Archived 2 runs");
        let records = fs::read_dir(folder.path.join("records")).unwrap().next().unwrap().unwrap();
        let file = fs::read_dir(records.path()).unwrap().next().unwrap().unwrap().path();
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..100]).unwrap();
        let output = midcourse(&home(&copy), &["import", folder.address()]);
        check(&output, 1, "has 100 bytes instead of");
        check(&output, 1, "1 part of the archive could not be read");
        assert_eq!(copy.open().chain_ends().unwrap().len(), 0);
        fs::write(&file, bytes).unwrap();
        fs::remove_dir_all(folder.path.join("manifests")).unwrap();
        let output = midcourse(&home(&copy), &["import", folder.address()]);
        check(&output, 1, "contain no session files");
    }

    #[test]
    fn the_folder_is_private_and_wrong_addresses_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let (original, folder) = (TempStore::new(), Folder::new());
        original.open().append(user_message("r", "one")).unwrap();
        check(&archive(&original, &folder, &[]), 0, "Archived 1 run");
        assert_eq!(folder.path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let file = folder.path.join("a-file");
        fs::write(&file, "x").unwrap();
        let (home, to) = (home(&original), |to| ["archive", "--older-than", "1d", "--to", to]);
        check(&midcourse(&home, &to(file.to_str().unwrap())), 1, "a-file");
        check(&midcourse(&home, &to("s3://")), 1, "invalid address `s3://`");
        check(&midcourse(&home, &["archive", "--to", folder.address()]), 2, "--older-than");
        let output = midcourse(&home, &["archive", "--older-than", "soon", "--to", "x"]);
        check(&output, 2, "invalid duration `soon`; try `30d` or `12h`");
        let output = archive(&TempStore::new(), &folder, &[]);
        check(&output, 1, "no runs recorded in");
        assert!(!Path::new("s3:").exists());
    }
}
