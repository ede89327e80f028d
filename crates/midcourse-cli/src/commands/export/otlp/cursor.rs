//! What an endpoint has accepted of a run: a small file for each run and endpoint, in the data
//! directory.
//!
//! The file is replaced as a whole, and is on disk when `accept` returns.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use midcourse::{DataDir, RunId, sync_folder};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "otlp-cursors";
const VERSION: u32 = 1;

/// How far the spans of a run were accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    version: u32,
    run_id: String,
    /// Spans that were complete after this many records were accepted.
    pub(super) records: u64,
    /// After how many records the run seemed to be over, so that all its spans were sent. Records
    /// that followed are in spans of their own.
    pub(super) ends: Vec<u64>,
}

/// A cursor and its file.
pub(super) struct CursorFile {
    path: PathBuf,
    /// What is on disk.
    saved: Cursor,
    pub(super) cursor: Cursor,
}

impl CursorFile {
    /// Reads the cursor of a run. It is empty if nothing was sent yet, or if the run has fewer
    /// records than were sent: then it is another run with the same id.
    pub(super) fn read(data_dir: &DataDir, run_id: &str, url: &str, records: u64) -> Result<Self> {
        let path = folder(data_dir).join(format!("{}{}.json", prefix(run_id), hash(url)));
        let found = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Cursor>(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let is_valid = |cursor: &Cursor| {
            cursor.version == VERSION && cursor.run_id == run_id && cursor.records <= records
        };
        let new = || Cursor { version: VERSION, run_id: run_id.to_owned(), ..Cursor::default() };
        let cursor = found.filter(is_valid).unwrap_or_else(new);
        Ok(Self { path, saved: cursor.clone(), cursor })
    }

    /// Saves that the spans that are complete after this many records were accepted.
    pub(super) fn accept(&mut self, records: u64) -> Result<()> {
        self.cursor.records = self.cursor.records.max(records);
        if self.cursor == self.saved {
            return Ok(());
        }
        self.replace().with_context(|| {
            format!(
                "the spans were accepted, but {} cannot be written; the next export sends them again",
                self.path.display()
            )
        })?;
        self.saved = self.cursor.clone();
        Ok(())
    }

    fn replace(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder)?;
        let temporary = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = File::create(&temporary)?;
        file.write_all(serde_json::to_string(&self.cursor)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        sync_folder(folder)
    }
}

/// Removes the cursors of a deleted run, or of all runs.
pub(in crate::commands) fn forget(data_dir: &DataDir, run: Option<&RunId>) -> io::Result<()> {
    let entries = match fs::read_dir(folder(data_dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let prefix = run.map_or_else(String::new, |run| prefix(run.as_str()));
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn folder(data_dir: &DataDir) -> PathBuf {
    data_dir.path().join(FOLDER)
}

/// The beginning of the names of a run's files. Run ids come from hosts, so a hash stands for them.
fn prefix(run_id: &str) -> String {
    format!("{}-", hash(run_id))
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect()
}
