//! Notices that the end of the store is missing.
//!
//! SQLite takes a damaged write-ahead log for one that ends before the damage: the commits behind it
//! are gone, and what is left is consistent. So the number of records that were ever stored is also
//! kept in a small file outside of the database. It is written after each commit, without a sync: an
//! older number is harmless. If the database has a smaller number than this file, records that were
//! acknowledged are missing. The next process that writes notes that in another file, which
//! `midcourse verify` reports until somebody removes it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension as _};

use super::error::StoreError;
use super::schema::check_file;
use crate::clock::now;
use crate::data_dir::DataDir;

/// How many records were ever stored. Removed records count too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordCount(u64);

impl RecordCount {
    /// The number in the database.
    pub(super) fn in_database(connection: &Connection) -> Result<Self, StoreError> {
        let mut find =
            connection.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'records'")?;
        let count: Option<i64> = find.query_row([], |row| row.get(0)).optional()?;
        Ok(Self(count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default()))
    }

    /// The number in the file; `None` if the file is missing or damaged.
    pub(super) fn in_file(data_dir: &DataDir) -> Option<Self> {
        check_file(&data_dir.count_file()).ok()?;
        let bytes = fs::read(data_dir.count_file()).ok()?;
        let count = bytes.first_chunk().copied().map(u64::from_le_bytes)?;
        (bytes == encoded(count)).then_some(Self(count))
    }

    pub(super) const fn number(self) -> u64 {
        self.0
    }

    /// Overwrites the number in the file. An error is ignored: an older number is harmless.
    pub(super) fn write(self, data_dir: &DataDir) {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = data_dir.count_file();
        let _ = check_file(&file)
            .and_then(|()| options.open(file))
            .and_then(|mut file| file.write_all(&encoded(self.0)));
    }

    /// Says that records are missing if the database has this number, and the file a greater one.
    pub(super) fn missing(self, data_dir: &DataDir) -> Option<String> {
        let expected = Self::in_file(data_dir).filter(|expected| *expected > self)?;
        Some(missing_text(expected.0.saturating_sub(self.0)))
    }
}

/// The message that the last `count` records are missing.
pub(super) fn missing_text(count: u64) -> String {
    format!("the last {count} records of the store are missing, although they were stored")
}

/// The number and a checksum.
fn encoded(count: u64) -> Vec<u8> {
    let number = count.to_le_bytes();
    [number, xxhash_rust::xxh3::xxh3_64(&number).to_le_bytes()].concat()
}

/// Notes that records are missing.
pub(super) fn note(data_dir: &DataDir, what: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let line = format!("{} {what}\n", now().unix_ms());
    options.open(note_file(data_dir))?.write_all(line.as_bytes())
}

/// What was noted.
pub(super) fn notes(data_dir: &DataDir) -> Vec<String> {
    let file = note_file(data_dir);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let whats = text.lines().filter_map(|line| line.split_once(' ')).map(|(_, what)| what);
    whats.map(|what| format!("{what}; remove {} if you know why", file.display())).collect()
}

/// The file to which [`note`] writes that records are missing.
pub(super) fn note_file(data_dir: &DataDir) -> PathBuf {
    data_dir.count_file().with_extension("missing")
}
