//! How far each run was shipped, in a small database next to the store. It is a file of its own, so that
//! shipping never waits for a hook and no hook waits for it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use midcourse::{ChainPosition, DataDir, Link, RunId, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::FleetError;

const FOLDER: &str = "shipped";

/// The cursors of a store for one place to ship to.
pub(super) struct Cursors {
    connection: Connection,
    store_id: String,
    positions: HashMap<RunId, ChainPosition>,
    /// Runs whose position is not on disk yet.
    changed: Vec<RunId>,
    /// Held as long as this process ships.
    _lock: File,
}

impl Cursors {
    pub(super) fn open(data_dir: &DataDir, place: &str) -> Result<Self, FleetError> {
        let folder = data_dir.path().join(FOLDER);
        data_dir.create(&folder).map_err(StoreError::from)?;
        let file = file(data_dir, place);
        let lock = lock(&file.with_extension("lock"))?;
        create_private(&file)?;
        let (connection, store_id, positions) = match Self::read(&file) {
            // The server knows the positions too: a damaged file is only made again.
            Err(error) if is_damage(&error) => {
                for end in ["", "-wal", "-shm"] {
                    let mut name = file.as_os_str().to_owned();
                    name.push(end);
                    match std::fs::remove_file(&name) {
                        Err(error) if error.kind() != ErrorKind::NotFound => {
                            return Err(StoreError::from(error).into());
                        }
                        _ => {}
                    }
                }
                create_private(&file)?;
                Self::read(&file).map_err(StoreError::from)?
            }
            other => other.map_err(StoreError::from)?,
        };
        Ok(Self { connection, store_id, positions, changed: Vec::new(), _lock: lock })
    }

    /// Opens the database of a file, or creates it, and reads all of it.
    fn read(file: &Path) -> rusqlite::Result<(Connection, String, HashMap<RunId, ChainPosition>)> {
        let connection = Connection::open(file)?;
        connection.execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
             CREATE TABLE IF NOT EXISTS meta (one INTEGER PRIMARY KEY CHECK (one = 1), store TEXT NOT NULL);
             CREATE TABLE IF NOT EXISTS cursors (run_id TEXT PRIMARY KEY, records INTEGER NOT NULL,
                 reports INTEGER NOT NULL, link BLOB NOT NULL) WITHOUT ROWID;",
        )?;
        let (store_id, positions) = (store_id(&connection)?, read(&connection)?);
        Ok((connection, store_id, positions))
    }

    /// The id of a store that was shipped to a place; `None` if it was not.
    pub(super) fn find_store_id(
        data_dir: &DataDir,
        place: &str,
    ) -> Result<Option<String>, FleetError> {
        let Some(connection) = open_existing(&file(data_dir, place))? else { return Ok(None) };
        let found = connection.query_row("SELECT store FROM meta", [], |row| row.get(0));
        Ok(found.optional().map_err(StoreError::from)?)
    }

    /// Reads the positions without a lock, while another process may be shipping the store. Empty if the
    /// store was never shipped to this place.
    pub(super) fn find_positions(
        data_dir: &DataDir,
        place: &str,
    ) -> Result<HashMap<RunId, ChainPosition>, FleetError> {
        match open_existing(&file(data_dir, place))? {
            Some(connection) => Ok(read(&connection).map_err(StoreError::from)?),
            None => Ok(HashMap::new()),
        }
    }

    /// A random id of this store.
    pub(super) fn store_id(&self) -> &str {
        &self.store_id
    }

    pub(super) fn position(&self, run_id: &RunId) -> Option<ChainPosition> {
        self.positions.get(run_id).copied()
    }

    /// All positions.
    pub(super) fn positions(&self) -> impl Iterator<Item = (&RunId, &ChainPosition)> {
        self.positions.iter()
    }

    pub(super) fn set(&mut self, run_id: &RunId, position: ChainPosition) {
        self.positions.insert(run_id.clone(), position);
        self.changed.push(run_id.clone());
    }

    pub(super) fn forget(&mut self, run_id: &RunId) {
        self.positions.remove(run_id);
        self.changed.push(run_id.clone());
    }

    /// Writes what has changed to disk.
    pub(super) fn commit(&mut self) -> Result<(), FleetError> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let write = || -> rusqlite::Result<()> {
            let transaction = self.connection.unchecked_transaction()?;
            for run_id in &self.changed {
                match self.positions.get(run_id) {
                    Some(at) => transaction
                        .prepare_cached("INSERT OR REPLACE INTO cursors VALUES (?1, ?2, ?3, ?4)")?
                        .execute(params![
                            run_id.as_str(),
                            i64::try_from(at.records).unwrap_or(i64::MAX),
                            i64::try_from(at.reports).unwrap_or(i64::MAX),
                            at.link.as_bytes(),
                        ])?,
                    None => transaction
                        .prepare_cached("DELETE FROM cursors WHERE run_id = ?1")?
                        .execute([run_id.as_str()])?,
                };
            }
            transaction.commit()
        };
        write().map_err(StoreError::from)?;
        self.changed.clear();
        Ok(())
    }
}

/// The file with the cursors for a place.
/// Opens the database of a file for reading; `None` if there is none.
fn open_existing(file: &Path) -> Result<Option<Connection>, FleetError> {
    if !file.is_file() {
        return Ok(None);
    }
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(file, flags).map_err(StoreError::from)?;
    Ok(Some(connection))
}

fn file(data_dir: &DataDir, place: &str) -> PathBuf {
    let name = blake3::hash(place.as_bytes()).to_hex();
    data_dir.path().join(FOLDER).join(format!("{}.db", name.get(..16).unwrap_or_default()))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

fn create_private(file: &Path) -> Result<(), FleetError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map_err(StoreError::from)?;
    Ok(())
}

fn lock(file: &Path) -> Result<File, FleetError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut lock = options.open(file).map_err(StoreError::from)?;
    match lock.try_lock() {
        Ok(()) => {
            // For people who look for the process.
            let _ = lock.set_len(0);
            let _ = lock.write_all(format!("{}\n", std::process::id()).as_bytes());
            Ok(lock)
        }
        Err(TryLockError::WouldBlock) => Err(FleetError::AlreadyShipping),
        Err(TryLockError::Error(error)) => Err(StoreError::from(error).into()),
    }
}

fn store_id(connection: &Connection) -> rusqlite::Result<String> {
    let found = connection.query_row("SELECT store FROM meta", [], |row| row.get(0)).optional()?;
    if let Some(found) = found {
        return Ok(found);
    }
    let new = uuid::Uuid::new_v4().to_string();
    connection.execute("INSERT INTO meta VALUES (1, ?1)", [&new])?;
    Ok(new)
}

fn read(connection: &Connection) -> rusqlite::Result<HashMap<RunId, ChainPosition>> {
    let mut find = connection.prepare("SELECT run_id, records, reports, link FROM cursors")?;
    let found = find.query_map([], |row| {
        let link: [u8; 32] = row.get(3)?;
        let position = ChainPosition {
            records: u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default(),
            reports: u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default(),
            link: Link::from(link),
        };
        Ok((RunId::from(row.get::<_, String>(0)?), position))
    })?;
    found.collect()
}
