//! The write-ahead log of the database, and how it stays short.
//!
//! SQLite's automatic checkpointing does not suit processes that live for one event: what it knows
//! about a checkpointed log is lost with the last process, so the log would grow without bound and
//! be checkpointed at every event. Here the log is checkpointed and truncated once it exceeds
//! [`CHECKPOINT_BYTES`], so a fresh process reads little more than that. A reader in the middle of a
//! transaction only postpones it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::error::StoreError;
use crate::data_dir::sync_folder;

/// Length from which the log is checkpointed. A fresh process has to read the log, so a long one
/// slows every hook; a checkpoint takes three syncs, so a short one slows some of them more.
pub(super) const CHECKPOINT_BYTES: u64 = 320 * 1024;

/// The write-ahead log of one database.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: PathBuf,
    checkpoint_bytes: u64,
    /// Its length when this process last looked.
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

    /// Call before a commit, while the store is locked. A process that finds the log empty or
    /// missing syncs the folder, so the name of a log that holds a commit is always durable.
    pub(super) fn before_commit(&mut self) -> Result<(), StoreError> {
        if self.length == 0
            && let Some(folder) = self.file.parent()
        {
            sync_folder(folder)?;
        }
        Ok(())
    }

    fn length_on_disk(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |found| found.len())
    }

    /// Call after a commit. Checkpoints the log if it is long.
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

    /// Moves the log's content into the database and truncates it, unless a reader is active: then
    /// it is left for a later commit.
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
