//! Replaces a missing or damaged store with a backup.

use std::path::Path;
use std::time::Duration;

use super::Store;
use super::backup::TemporaryFile;
use super::error::StoreError;
use super::loss::LossNote;
use super::replace::ExclusiveLock;
use crate::data_dir::DataDir;

/// How long to wait until no other process has the store open. Hooks have it open for milliseconds.
pub(super) const EXCLUSIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The number of runs in the store now.
    pub runs: u64,
    /// The number of records in the store now.
    pub records: u64,
    /// Whether there was a store before. If so, its files were copied to the folder `kept`.
    pub has_kept: bool,
}

impl Store {
    /// Replaces the store of a data directory with the one in the file `backup`. The old files are
    /// copied to the new folder `kept` first. Fails, and changes nothing, if `backup` is damaged or
    /// if another process has the store open. This process must not have the store open either.
    pub fn restore(data_dir: &DataDir, backup: &Path, kept: &Path) -> Result<Restored, StoreError> {
        let source = Self::open_file(backup)?;
        let found = source.check()?;
        if let Some(finding) = found.findings.first() {
            let count = found.findings.len();
            return Err(StoreError::Damaged(format!("verify finds {count} problems: {finding}")));
        }
        data_dir.create(data_dir.path())?;
        LossNote::create_file(data_dir)?;
        let new = TemporaryFile::beside(&data_dir.store_file())?;
        source.copy_into(&new)?;
        drop(source);
        let lock = ExclusiveLock::wait(data_dir, EXCLUSIVE_TIMEOUT)?;
        let has_kept = lock.keep(data_dir, kept)?;
        lock.replace(data_dir, new)?;
        Ok(Restored { runs: found.runs, records: found.records, has_kept })
    }
}
