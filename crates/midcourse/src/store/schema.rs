//! The database's schema, its versions, and how a connection is opened.
//!
//! The database's `user_version` is the schema version. A store of an older release is upgraded
//! version by version. Each upgrade is one transaction that checks the version again, so two
//! processes may try at once. A store of a newer release is refused; every write checks this again,
//! because a newer release may upgrade the store while this one has it open. The database's
//! `application_id` is a hash of the schema, so that a store which was created by an unreleased
//! build with another schema is refused too.

use std::fs::OpenOptions;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::StoreError;
use super::settings::Durability;
use crate::data_dir::sync_folder;

/// SQL scripts: the first creates a store, each further one upgrades it to the next version.
const STEPS: [&str; 3] =
    [include_str!("schema/1.sql"), include_str!("schema/2.sql"), include_str!("schema/3.sql")];

/// The schema version of this release.
pub(super) const VERSION: u32 = 3;

/// The pause between two attempts to create a store.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// How many prepared SQL statements a connection keeps for reuse. The code has fewer statements
/// than this, so all of them are kept.
const MAX_PREPARED_STATEMENTS: usize = 64;

/// Opens the database at `path` for writing, and creates it if there is none.
pub(super) fn open(
    path: &Path,
    durability: Durability,
    busy_timeout: Duration,
) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // If the file does not exist, SQLite may retry read-only just as another process creates the
    // file, and the connection would then be read-only. So the file is created before SQLite opens
    // it.
    if !path.try_exists()? {
        create_file(path)?;
    }
    check_file(path)?;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection, durability, busy_timeout)?;
    match checked_version(&connection, path)? {
        VERSION => {}
        0 => create(&connection, path, busy_timeout)?,
        _ => upgrade(&connection, &STEPS)?,
    }
    Ok(connection)
}

/// Refuses a pipe or a device: opening or reading it could block for ever.
pub(super) fn check_file(path: &Path) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(std::io::Error::other(format!("{} is not a file", path.display())));
    }
    Ok(())
}

/// Opens the database read-only. If the store has to be upgraded first, opens it for writing.
pub(super) fn open_read_only(
    path: &Path,
    busy_timeout: Duration,
) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    check_file(path)?;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection, Durability::Full, busy_timeout)?;
    match checked_version(&connection, path)? {
        VERSION => Ok(connection),
        // An older store. Upgrading it needs a connection that can write.
        _ => {
            drop(connection);
            open(path, Durability::Full, busy_timeout)
        }
    }
}

/// The store's current schema version.
pub(super) fn version(connection: &Connection) -> Result<u32, StoreError> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Limits a timeout to one week. SQLite counts it in milliseconds, as a 32-bit number, and accepts
/// no more than 24 days.
pub(super) fn bounded(busy_timeout: Duration) -> Duration {
    busy_timeout.min(Duration::from_secs(7 * 24 * 3_600))
}

/// Makes SQLite compile each of our statements once. By default, it compiles a statement again whenever
/// the value of a parameter changes that could have changed the plan, which takes several times as long
/// as most statements run.
pub(super) fn keep_prepared_statements(connection: &Connection) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(MAX_PREPARED_STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn configure(
    connection: &Connection,
    durability: Durability,
    busy_timeout: Duration,
) -> Result<(), StoreError> {
    keep_prepared_statements(connection)?;
    connection.busy_timeout(bounded(busy_timeout))?;
    // Keep the file of the write-ahead log when the last process closes the store: deleting this
    // file and creating it again would take a hook longer than everything else it does.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    // On macOS, data reaches the disk only with fullfsync; on other systems this has no effect.
    connection.execute_batch(&format!(
        "PRAGMA synchronous={synchronous}; PRAGMA fullfsync=ON; PRAGMA checkpoint_fullfsync=ON;
         PRAGMA wal_autocheckpoint=0;"
    ))?;
    Ok(())
}

/// Creates the empty database file, readable by its owner only.
pub(super) fn create_file(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?;
    Ok(())
}

/// Creates the tables, and tries again until the timeout if another process does so at the same
/// time. SQLite's own timeout does not help: if two processes switch a new database to the
/// write-ahead log at once, SQLite returns an error to one of them immediately.
fn create(connection: &Connection, path: &Path, busy_timeout: Duration) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        match try_create(connection, path) {
            Err(StoreError::Locked) if begun.elapsed() < busy_timeout => {
                thread::sleep(RETRY_INTERVAL)
            }
            done => return done,
        }
    }
}

/// Tries once to create the tables. The folder is synced before any process can see the tables.
/// Otherwise a power cut could remove the new file after a record was stored in it.
fn try_create(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let why = "its filesystem does not support shared memory".to_owned();
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
        transaction.pragma_update(None, "application_id", fingerprint(&STEPS, 1))?;
    }
    transaction.commit()?;
    upgrade(connection, &STEPS)
}

/// A hash of the text of the schema in this version. It shows whether a store has exactly this
/// schema.
fn fingerprint(steps: &[&str], version: u32) -> i32 {
    let count = usize::try_from(version).unwrap_or(usize::MAX);
    let text: String = steps.iter().take(count).copied().collect();
    let hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    let [low, middle, high, ..] = hash.to_le_bytes();
    i32::from_le_bytes([low, middle, high, b'M'])
}

/// The store's schema version. Refuses a store of a newer release, one that an unreleased build
/// made with another schema, and a database of another program.
fn checked_version(connection: &Connection, path: &Path) -> Result<u32, StoreError> {
    // Read everything in one transaction, because another process may be creating the tables.
    let snapshot = connection.unchecked_transaction()?;
    let found = version(&snapshot)?;
    let id: i32 = snapshot.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if (1..=VERSION).contains(&found) && id == fingerprint(&STEPS, found) {
        return Ok(found);
    }
    let [.., last] = id.to_le_bytes();
    if last == b'M' && found > VERSION {
        return Err(StoreError::Newer { found, known: VERSION });
    }
    let (tables, ours): (i64, i64) = snapshot.query_row(
        "SELECT count(*), coalesce(sum(name IN ('runs', 'records')), 0) FROM sqlite_schema",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    match (tables, ours) {
        // An empty database is not an error: the caller creates the tables in it.
        (0, _) if found == 0 => Ok(found),
        (_, 2) => Err(StoreError::EarlierBuild),
        _ => Err(StoreError::Foreign(path.display().to_string())),
    }
}

/// Applies the missing upgrades, each in a transaction of its own.
fn upgrade(connection: &Connection, steps: &[&str]) -> Result<(), StoreError> {
    loop {
        let transaction =
            rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let at = version(&transaction)?;
        let Some(step) = usize::try_from(at).ok().and_then(|at| steps.get(at)) else {
            return Ok(());
        };
        transaction.execute_batch(step)?;
        let upgraded = at.saturating_add(1);
        transaction.pragma_update(None, "user_version", upgraded)?;
        transaction.pragma_update(None, "application_id", fingerprint(steps, upgraded))?;
        transaction.commit()?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::{Connection, StatementStatus};

    use super::{Durability, STEPS, StoreError, VERSION, upgrade, version};

    #[test]
    fn every_version_has_an_upgrade() {
        assert_eq!(STEPS.len(), usize::try_from(VERSION).unwrap());
    }

    #[test]
    fn missing_upgrades_are_applied_in_order_and_once() {
        let connection = Connection::open_in_memory().unwrap();
        let steps = ["CREATE TABLE a(x)", "ALTER TABLE a ADD COLUMN y", "CREATE TABLE b(z)"];
        upgrade(&connection, &steps[..1]).unwrap();
        connection.execute("INSERT INTO a VALUES (7)", []).unwrap();
        upgrade(&connection, &steps).unwrap();
        upgrade(&connection, &steps).unwrap();
        assert_eq!(version(&connection).unwrap(), 3);
        let kept: i64 = connection.query_row("SELECT x FROM a", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 7);
    }

    #[test]
    fn a_failed_upgrade_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        let steps = ["CREATE TABLE a(x)", "CREATE TABLE b(y); CREATE TABLE a(x)"];
        upgrade(&connection, &steps).unwrap_err();
        assert_eq!(version(&connection).unwrap(), 1);
        connection.prepare("SELECT * FROM b").unwrap_err();
    }

    #[test]
    fn a_statement_is_compiled_once_for_all_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let writable = super::open(&path, Durability::Full, Duration::from_secs(5)).unwrap();
        let read_only = super::open_read_only(&path, Duration::from_secs(5)).unwrap();
        for connection in [writable, read_only] {
            for value in [1, 500, 2, 70_000] {
                let mut find = connection
                    .prepare_cached(
                        "SELECT hash FROM record_bodies JOIN bodies ON bodies.id = body \
                         WHERE record = ?1 ORDER BY pointer",
                    )
                    .unwrap();
                assert!(!find.exists([value]).unwrap());
                assert_eq!(find.get_status(StatementStatus::RePrepare), 0, "{value}");
            }
        }
    }

    #[test]
    fn a_store_of_an_earlier_build_is_refused_with_one_clear_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let open = || super::open(&path, Durability::Full, Duration::from_secs(5));
        drop(open().unwrap());
        drop(open().unwrap());
        let other = Connection::open(&path).unwrap();
        other.pragma_update(None, "application_id", 0).unwrap();
        drop(other);
        let error = open().unwrap_err();
        assert_eq!(error, StoreError::EarlierBuild);
        assert_eq!(error.to_string().lines().count(), 1);
        assert!(error.hint().contains("MIDCOURSE_HOME"));
        let error = super::open_read_only(&path, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error, StoreError::EarlierBuild);
    }
}
