//! Keeps the database's write-ahead log short.
//!
//! SQLite writes each transaction to the log first; a checkpoint copies the log into the database
//! file. SQLite's own checkpoints do not suit processes that live for one event. The one at the
//! close of the database is too slow for a hook and is turned off. The automatic ones do not
//! shorten the log, and when the last process closes the database, SQLite forgets how much of the
//! log it has copied: the log would grow without bound, and every event would copy all of it again.
//! So this module copies and truncates the log when it is longer than [`CHECKPOINT_BYTES`]. If a
//! reader is in the middle of a transaction, this is postponed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::error::StoreError;
use super::log_frames::LogFrames;
use crate::data_dir::sync_folder;

/// The length in bytes from which the log is copied into the database. A new process reads the log,
/// so a higher limit slows down every hook. Copying needs three disk syncs, so with a lower limit
/// hooks have to wait for syncs more often.
pub(super) const CHECKPOINT_BYTES: u64 = 320 * 1024;

/// The path of the copy of a damaged log, in the same folder as the log.
pub(super) fn damaged_log(log: &Path) -> PathBuf {
    let mut file = log.as_os_str().to_owned();
    file.push(".damaged");
    file.into()
}

/// The write-ahead log of one database.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: PathBuf,
    checkpoint_bytes: u64,
    /// The log's length in bytes when this process last looked.
    length: u64,
}

impl WriteAheadLog {
    /// The log of the database in this file.
    pub(super) fn of(database: &Path, checkpoint_bytes: u64) -> Self {
        let mut file = database.as_os_str().to_owned();
        file.push("-wal");
        let mut log = Self { file: file.into(), checkpoint_bytes, length: 0 };
        log.length = log.length_on_disk();
        log
    }

    /// Call this before a commit, while the store is locked. If the log was empty or missing, its
    /// file may be new: its folder is then synced, so that a power cut cannot remove the file and
    /// the commit in it.
    pub(super) fn before_commit(&mut self) -> Result<(), StoreError> {
        if self.length == 0
            && let Some(folder) = self.file.parent()
        {
            sync_folder(folder)?;
        }
        Ok(())
    }

    pub(super) fn frames(&self) -> LogFrames {
        LogFrames::read(&self.file)
    }

    /// If the log contains commits after damage, copies the log to [`damaged_log`], from which
    /// `midcourse repair` reads them. Call this in a write transaction, so that the log does not
    /// change.
    pub(super) fn keep_damaged(&self) {
        if self.frames().behind_damage().is_some() {
            // If copying fails, these commits are lost. `midcourse verify` still reports that
            // records are missing.
            let _ = fs::copy(&self.file, damaged_log(&self.file));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length_on_disk() == 0
    }

    fn length_on_disk(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |found| found.len())
    }

    /// Call this after a commit. If the log has reached its limit, copies its content into the
    /// database and truncates the log.
    pub(super) fn after_commit(
        &mut self,
        connection: &Connection,
        busy_timeout: Duration,
    ) -> Result<(), StoreError> {
        self.length = self.length_on_disk();
        if self.length < self.checkpoint_bytes {
            Ok(())
        } else {
            self.checkpoint(connection, busy_timeout)
        }
    }

    /// Copies the log's content into the database and truncates the log. While a reader is active
    /// this does nothing, and a later commit tries again.
    pub(super) fn checkpoint(
        &mut self,
        connection: &Connection,
        busy_timeout: Duration,
    ) -> Result<(), StoreError> {
        connection.busy_timeout(Duration::ZERO)?;
        let done = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(super::schema::bounded(busy_timeout))?;
        self.length = self.length_on_disk();
        match done.map_err(StoreError::from) {
            Err(StoreError::Locked) => Ok(()),
            other => other,
        }
    }
}
