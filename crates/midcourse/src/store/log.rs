//! The write-ahead log of the database, and how it stays short.
//!
//! SQLite's own way is no use to processes that live for one event: what it knows of a folded log
//! dies with the last process, so the log would grow for ever and be folded at every event. Here
//! the log is folded into the database and emptied once it is longer than [`FOLD_BYTES`]; a fresh
//! process reads little more than that. A reader in the middle of a transaction only puts the
//! emptying off.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use super::error::StoreError;
use crate::home::sync_folder;

/// Length of the log from which on it is folded. A fresh process has to read the log, so a long one
/// costs every hook; folding costs three syncs, so a short one costs some of them more.
pub(super) const FOLD_BYTES: u64 = 320 * 1024;

/// The log of one database.
#[derive(Debug)]
pub(super) struct Log {
    file: PathBuf,
    fold_bytes: u64,
    known: u64,
}

impl Log {
    /// The log of the database in this file.
    pub(super) fn of(database: &std::path::Path, fold_bytes: u64) -> Self {
        let mut file = database.as_os_str().to_owned();
        file.push("-wal");
        let mut log = Self { file: file.into(), fold_bytes, known: 0 };
        log.known = log.length();
        log
    }

    /// Before a commit, while the store is locked: makes the log's name durable where it may not
    /// be. Whoever finds the log empty or missing does this, so a log that holds a commit has a
    /// name that lasts.
    pub(super) fn before_commit(&mut self) -> Result<(), StoreError> {
        if self.known == 0
            && let Some(folder) = self.file.parent()
        {
            sync_folder(folder)?;
        }
        Ok(())
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |found| found.len())
    }

    /// After a commit: folds the log if it is long.
    pub(super) fn after_commit(
        &mut self,
        connection: &Connection,
        patience: Duration,
    ) -> Result<(), StoreError> {
        self.known = self.length();
        if self.known < self.fold_bytes { Ok(()) } else { self.fold(connection, patience) }
    }

    /// Folds the log and empties it, unless somebody is reading: then it is left for later.
    pub(super) fn fold(
        &mut self,
        connection: &Connection,
        patience: Duration,
    ) -> Result<(), StoreError> {
        connection.busy_timeout(Duration::ZERO)?;
        let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(super::schema::bounded(patience))?;
        self.known = self.length();
        match folded.map_err(StoreError::from) {
            Err(StoreError::Locked) => Ok(()),
            other => other,
        }
    }
}
