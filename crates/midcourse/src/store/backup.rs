//! Copies the store into one file, while other processes write to it.
//!
//! `VACUUM INTO` writes the copy. SQLite's backup API would be faster, but it copies whole pages,
//! with free pages and the unused space between rows, which may still contain text that was removed
//! or redacted. `VACUUM INTO` writes only rows. Both copy one consistent state: `VACUUM INTO` reads
//! in a single transaction, and in WAL mode writers do not wait for readers.
//!
//! The copy is one file without a write-ahead log. It does not contain `redaction.key`: a copy may
//! be given to others, and with the key they could check guesses of the redacted secrets. Nor does
//! it contain `record-count`, which describes the store in the data directory and not the copy.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::error::StoreError;
use super::settings::StoreSettings;
use super::verify::Finding;
use super::wal::{CHECKPOINT_BYTES, WriteAheadLog};
use super::{Store, schema};
use crate::data_dir::{DataDir, sync_folder};

/// What a backup contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The number of runs.
    pub runs: u64,
    /// The number of records.
    pub records: u64,
    /// What `verify` finds in the file; empty if all runs are intact.
    pub findings: Vec<Finding>,
}

impl Store {
    /// Copies the store to `file`, which only its owner can read, and verifies the copy. The copy
    /// is written to a temporary file in the same folder, synced and renamed, so `file` is complete
    /// or stays as it was. Unless `overwrite`, fails if `file` exists.
    pub fn back_up(&self, file: &Path, overwrite: bool) -> Result<Backup, StoreError> {
        // A device or a pipe must not be replaced by a file.
        schema::check_file(file)?;
        let temporary = TemporaryFile::beside(file)?;
        self.copy_into(&temporary)?;
        let backup = Self::open_file(temporary.path())?.check()?;
        temporary.persist(file, overwrite)?;
        Ok(backup)
    }

    /// Writes all rows of the database into an empty file, and syncs it.
    pub(super) fn copy_into(&self, file: &TemporaryFile) -> Result<(), StoreError> {
        let name = file.path().to_str().ok_or_else(|| {
            StoreError::Unwritable(format!("{} is not UTF-8", file.path().display()))
        })?;
        self.connection.execute("VACUUM INTO ?1", [name])?;
        Ok(fs::File::open(file.path())?.sync_all()?)
    }

    /// Opens the database in a file that need not be in a data directory, for reading.
    pub(super) fn open_file(file: &Path) -> Result<Self, StoreError> {
        let settings = StoreSettings::default();
        let connection = schema::open_read_only(file, settings.busy_timeout)?;
        let log = WriteAheadLog::of(file, CHECKPOINT_BYTES);
        let data_dir = DataDir::at(file.parent().unwrap_or(Path::new("")));
        Ok(Self { connection, settings, data_dir, log, count: None })
    }

    /// Verifies the database and all its runs, and counts them.
    pub(super) fn check(&self) -> Result<Backup, StoreError> {
        let mut findings = self.verify_database()?;
        let (mut runs, mut records) = (0, 0);
        for run in self.runs(usize::MAX)? {
            findings.extend(self.verify_run(&run.run_id)?);
            runs += 1;
            records += run.records;
        }
        Ok(Backup { runs, records, findings })
    }
}

/// A file that is removed on drop unless it was renamed.
pub(super) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Creates an empty file in the folder of `file`, readable by its owner only.
    pub(super) fn beside(file: &Path) -> Result<Self, StoreError> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", Uuid::now_v7()));
        // An absolute path, because SQLite would take a name such as `file:x` for a URL.
        let temporary = Self(std::path::absolute(file)?.with_file_name(name));
        schema::create_file(temporary.path())?;
        Ok(temporary)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Renames the file and syncs its folder. Unless `overwrite`, fails if the new name exists.
    pub(super) fn persist(self, file: &Path, overwrite: bool) -> Result<(), StoreError> {
        let file = std::path::absolute(file)?;
        match fs::hard_link(self.path(), &file) {
            Ok(()) => {}
            Err(_) if !overwrite && file.try_exists()? => {
                return Err(StoreError::Unwritable(format!("{} exists", file.display())));
            }
            // The file is to be replaced, or the filesystem has no hard links.
            Err(_) => fs::rename(self.path(), &file)?,
        }
        Ok(sync_folder(file.parent().unwrap_or(Path::new("/")))?)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        for end in ["", "-journal", "-wal", "-shm"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(end);
            // The file may be gone already; a left-over one is harmless.
            let _ = fs::remove_file(name);
        }
    }
}
