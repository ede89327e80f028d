//! Replaces the database of a data directory with another one, and keeps a copy of the old files.
//!
//! The file is overwritten in place, not renamed. With a rename, a process that has just opened the
//! old file would wait for its lock and then write to a file that nobody reads, or combine the old
//! file with the new write-ahead log. While this process overwrites the file, it holds a lock on
//! the whole file. Other processes cannot lock the database then, so hooks spill their events. This
//! process gets the lock only if no other process has the database open.
//!
//! The complete new database is first stored as `store.db.replacing`. If the process or the machine
//! dies while the old database is overwritten, the next process that opens the store overwrites it
//! again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::backup::TemporaryFile;
use super::error::StoreError;
use super::head::{self, RecordCount};
use super::wal::damaged_log;
use super::{schema, search};
use crate::data_dir::{DataDir, sync_folder};

const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// A lock on the whole database file. While it is held, no other process has the store open.
///
/// The operating system releases such a lock as soon as this process closes any handle of the file,
/// so nothing else in this process may open the store meanwhile.
pub(super) struct ExclusiveLock {
    file: File,
}

impl ExclusiveLock {
    /// Waits for the lock, at most for `timeout`. Creates an empty database file if there is none.
    pub(super) fn wait(data_dir: &DataDir, timeout: Duration) -> Result<Self, StoreError> {
        let path = data_dir.store_file();
        schema::check_file(&path)?;
        schema::create_file(&path)?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let start = Instant::now();
        loop {
            match try_lock(&file) {
                Ok(()) => return Ok(Self { file }),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if start.elapsed() >= timeout => return Err(StoreError::InUse),
                Err(_) => thread::sleep(RETRY_INTERVAL),
            }
        }
    }

    /// Copies the database, its write-ahead log and the record count to the folder `kept`. Returns
    /// `false`, and creates no folder, if there is nothing to keep.
    pub(super) fn keep(&self, data_dir: &DataDir, kept: &Path) -> Result<bool, StoreError> {
        let log = file_with(data_dir, "-wal");
        let length = |path: &Path| path.metadata().map_or(0, |found| found.len());
        if self.file.metadata()?.len() == 0 && length(&log) == 0 {
            return Ok(false);
        }
        data_dir.create(kept)?;
        // Opening `store.db` a second time and closing it would release the lock.
        let mut source = &self.file;
        source.rewind()?;
        copy(&mut source, &kept.join("store.db"))?;
        for path in [damaged_log(&log), log, data_dir.count_file(), head::note_file(data_dir)] {
            if let (Ok(mut file), Some(name)) = (File::open(&path), path.file_name()) {
                copy(&mut file, &kept.join(name))?;
            }
        }
        sync_folder(kept)?;
        Ok(true)
    }

    /// Overwrites the database with the one in `new`, whose write-ahead log must be empty.
    pub(super) fn replace(self, data_dir: &DataDir, new: TemporaryFile) -> Result<(), StoreError> {
        let connection = Connection::open(new.path())?;
        let count = RecordCount::in_database(&connection)?;
        let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            let why = "its filesystem does not support shared memory".to_owned();
            return Err(StoreError::Unwritable(why));
        }
        // Closing the last connection copies the write-ahead log into the file and removes the log.
        connection.close().map_err(|(_, error)| error)?;
        File::open(new.path())?.sync_all()?;
        new.persist(&replacement(data_dir), true)?;
        self.finish(data_dir)?;
        count.write(data_dir);
        Ok(())
    }

    fn finish(&self, data_dir: &DataDir) -> Result<(), StoreError> {
        let replacement = replacement(data_dir);
        let mut new = match File::open(&replacement) {
            Ok(new) => new,
            // Another process has just finished the replacement.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut old = &self.file;
        old.rewind()?;
        let length = io::copy(&mut new, &mut old)?;
        self.file.set_len(length)?;
        self.file.sync_all()?;
        for end in ["-wal", "-shm", "-wal.damaged"] {
            remove(&file_with(data_dir, end))?;
        }
        search::remove(&data_dir.search_file())?;
        // This file contains the record count of the old database. The new count is written by
        // `replace`, or else after the next commit.
        remove(&data_dir.count_file())?;
        sync_folder(data_dir.path())?;
        remove(&replacement)?;
        Ok(sync_folder(data_dir.path())?)
    }
}

/// Finishes a replacement during which a process died. Call this before the store is opened.
pub(super) fn finish_interrupted(data_dir: &DataDir, timeout: Duration) -> Result<(), StoreError> {
    if !replacement(data_dir).try_exists()? {
        return Ok(());
    }
    match ExclusiveLock::wait(data_dir, timeout) {
        Ok(lock) => lock.finish(data_dir),
        Err(StoreError::InUse) => Err(StoreError::Locked),
        Err(error) => Err(error),
    }
}

fn replacement(data_dir: &DataDir) -> PathBuf {
    file_with(data_dir, ".replacing")
}

fn file_with(data_dir: &DataDir, end: &str) -> PathBuf {
    let mut name = data_dir.store_file().into_os_string();
    name.push(end);
    name.into()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy(source: &mut impl io::Read, target: &Path) -> Result<(), StoreError> {
    schema::create_file(target)?;
    let mut target = OpenOptions::new().write(true).truncate(true).open(target)?;
    io::copy(source, &mut target)?;
    Ok(target.sync_all()?)
}

/// Locks the file with `fcntl`, as SQLite does. `File::try_lock` uses another kind of lock on some
/// systems, which SQLite would not notice.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<()> {
    let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    match rustix::fs::fcntl_lock(file, operation) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn try_lock(_: &File) -> io::Result<()> {
    Err(io::Error::other("replacing the store is supported on Unix only"))
}
