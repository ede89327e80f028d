//! The database's schema, its versions, and how a connection is opened.
//!
//! The version stands in `user_version`. A store of an older version is brought up step by step,
//! each in one transaction that looks again first, so that two processes may try at once. A store
//! of a newer version is left alone: whoever meets it says so, and every write looks again, since
//! a newer release may raise the version while an older one has the store open.

use std::fs::OpenOptions;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::StoreError;
use super::settings::Durability;
use crate::data_dir::sync_folder;

/// The steps from each version to the next; the first makes a new store.
const STEPS: [&str; 1] = [include_str!("schema/1.sql")];

/// The version this release writes.
pub(super) const VERSION: u32 = 1;

/// How long it is waited before another attempt to make a store.
const PAUSE: Duration = Duration::from_millis(1);

/// Statements that are kept ready.
const STATEMENTS: usize = 64;

/// Opens the database at `path` for writing, and makes it if there is none.
pub(super) fn open(
    path: &Path,
    durability: Durability,
    busy_timeout: Duration,
) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // SQLite tries to open a file that it does not find once more, to read only; and by then
    // another process may have made it. So it is never let near a file that is not there.
    if !path.try_exists()? {
        make_file(path)?;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection, durability, busy_timeout)?;
    match version(&connection)? {
        VERSION => {}
        0 => create(&connection, path, busy_timeout)?,
        found if found > VERSION => return Err(StoreError::Newer { found, known: VERSION }),
        _ => bring_up(&connection, &STEPS)?,
    }
    Ok(connection)
}

/// Opens the database for reading only. It still takes part in the locking.
pub(super) fn open_read_only(
    path: &Path,
    busy_timeout: Duration,
) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection, Durability::Full, busy_timeout)?;
    match version(&connection)? {
        VERSION => Ok(connection),
        found if found > VERSION => Err(StoreError::Newer { found, known: VERSION }),
        // Somebody has to write to bring it up; a reader alone cannot.
        _ => {
            drop(connection);
            open(path, Durability::Full, busy_timeout)
        }
    }
}

/// The schema version that the store has now.
pub(super) fn version(connection: &Connection) -> Result<u32, StoreError> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// As long as SQLite can wait.
pub(super) fn bounded(busy_timeout: Duration) -> Duration {
    busy_timeout.min(Duration::from_secs(7 * 24 * 3_600))
}

fn configure(
    connection: &Connection,
    durability: Durability,
    busy_timeout: Duration,
) -> Result<(), StoreError> {
    // More than there are: a long-lived process prepares each once.
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(bounded(busy_timeout))?;
    // The log stays when the last process leaves: deleting and making it again costs each hook
    // more than everything else it does.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    // fullfsync is the sync of macOS that reaches the disk; elsewhere it changes nothing.
    connection.execute_batch(&format!(
        "PRAGMA synchronous={synchronous}; PRAGMA fullfsync=ON; PRAGMA checkpoint_fullfsync=ON;
         PRAGMA wal_autocheckpoint=0;"
    ))?;
    Ok(())
}

/// Makes the empty file, for its owner only.
pub(super) fn make_file(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?;
    Ok(())
}

/// Makes the tables, together with whoever else tries to. Where two switch to the log at once,
/// SQLite tells one of them that the store is locked without waiting; so the waiting is done here.
fn create(connection: &Connection, path: &Path, busy_timeout: Duration) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        match try_create(connection, path) {
            Err(StoreError::Locked) if begun.elapsed() < busy_timeout => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

/// Makes the tables. The names of the files are durable before anybody can see the tables, so no
/// process ever acknowledges a record in a file that a power cut could take away.
fn try_create(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let why = "its filesystem cannot share memory between processes".to_owned();
        return Err(StoreError::Unwritable(why));
    }
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if version(&transaction)? == 0 {
        if let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        transaction.execute_batch(STEPS.first().copied().unwrap_or_default())?;
        transaction.pragma_update(None, "user_version", 1)?;
    }
    transaction.commit()?;
    bring_up(connection, &STEPS)
}

/// Takes the steps that are missing, each in a transaction of its own.
fn bring_up(connection: &Connection, steps: &[&str]) -> Result<(), StoreError> {
    loop {
        let transaction =
            rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let at = version(&transaction)?;
        let Some(step) = usize::try_from(at).ok().and_then(|at| steps.get(at)) else {
            return Ok(());
        };
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", at.saturating_add(1))?;
        transaction.commit()?;
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{STEPS, VERSION, bring_up, version};

    #[test]
    fn there_is_a_step_for_every_version() {
        assert_eq!(STEPS.len(), usize::try_from(VERSION).unwrap());
    }

    #[test]
    fn missing_steps_are_taken_in_order_and_once() {
        let connection = Connection::open_in_memory().unwrap();
        let steps = ["CREATE TABLE a(x)", "ALTER TABLE a ADD COLUMN y", "CREATE TABLE b(z)"];
        bring_up(&connection, &steps[..1]).unwrap();
        connection.execute("INSERT INTO a VALUES (7)", []).unwrap();
        bring_up(&connection, &steps).unwrap();
        bring_up(&connection, &steps).unwrap();
        assert_eq!(version(&connection).unwrap(), 3);
        let kept: i64 = connection.query_row("SELECT x FROM a", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 7);
    }

    #[test]
    fn a_failed_step_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        let steps = ["CREATE TABLE a(x)", "CREATE TABLE b(y); CREATE TABLE a(x)"];
        bring_up(&connection, &steps).unwrap_err();
        assert_eq!(version(&connection).unwrap(), 1);
        connection.prepare("SELECT * FROM b").unwrap_err();
    }
}
