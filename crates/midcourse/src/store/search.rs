//! Full-text search over all records, with an index in a file of its own.
//!
//! Hooks do not update the index, so that they stay fast. Instead, whoever wants to search first
//! adds the records that are not in the index yet ([`SearchIndex::catch_up`]). The index can be
//! deleted at any time and is then built again.

use std::path::Path;

use midcourse_core::RunId;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::error::StoreError;
use super::read;
use super::verify::Finding;
use super::{Store, body};

/// The version of the index format; an index of another version is deleted and built again.
const VERSION: u32 = 1;

/// How many records are added to the index in one transaction.
const PAGE: i64 = 500;

/// How many bytes of each text, from its start, are searchable.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// A record that matches a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The run of the record.
    pub run_id: RunId,
    /// The record's position in the run.
    pub seq: u64,
    /// The kind of the record's payload.
    pub kind: String,
    /// The line that contains the first search word, shortened to 120 bytes.
    pub excerpt: String,
}

/// The search index of a store.
pub struct SearchIndex {
    connection: Connection,
}

impl SearchIndex {
    /// Opens the index of a store, or creates it.
    pub fn open(store: &Store) -> Result<Self, StoreError> {
        let file = store.data_dir().search_file();
        match Self::try_open(&file) {
            Ok(index) => Ok(index),
            // The index is only a cache: if it is damaged or of another version, it is built again.
            Err(StoreError::Damaged(_) | StoreError::Newer { .. }) => {
                remove(&file)?;
                Self::try_open(&file)
            }
            Err(error) => Err(error),
        }
    }

    fn try_open(file: &Path) -> Result<Self, StoreError> {
        super::schema::check_file(file)?;
        super::schema::create_file(file)?;
        let connection = Connection::open(file)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        match super::schema::version(&connection)? {
            0 => connection.execute_batch(&format!(
                "PRAGMA journal_mode=WAL; BEGIN IMMEDIATE;
                 CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(text, content='', contentless_delete=1);
                 CREATE TABLE IF NOT EXISTS done (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL);
                 PRAGMA user_version={VERSION}; COMMIT;"
            ))?,
            VERSION => {}
            found => return Err(StoreError::Newer { found, known: VERSION }),
        }
        Ok(Self { connection })
    }

    /// Adds the records that are not in the index yet. While it works, it calls `progress` with the
    /// number of records that are left; the last call has 0.
    pub fn catch_up(
        &mut self,
        store: &Store,
        mut progress: impl FnMut(u64),
    ) -> Result<(), StoreError> {
        let last: i64 =
            store
                .connection
                .query_row("SELECT coalesce(max(id), 0) FROM records", [], |row| row.get(0))?;
        let upto: Option<i64> =
            self.connection.query_row("SELECT upto FROM done", [], |row| row.get(0)).optional()?;
        let mut upto = upto.unwrap_or(0);
        while upto < last {
            progress(u64::try_from(last.saturating_sub(upto)).unwrap_or_default());
            match self.index_page(store, upto)? {
                // The remaining records were removed from the store meanwhile.
                done if done == upto => break,
                done => upto = done,
            }
        }
        progress(0);
        Ok(())
    }

    fn index_page(&mut self, store: &Store, upto: i64) -> Result<i64, StoreError> {
        let mut find = store.connection.prepare_cached(
            "SELECT id, run, seq FROM records WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?;
        let places: Vec<(i64, i64, i64)> = find
            .query_map([upto, PAGE], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<_, _>>()?;
        let transaction = self.connection.transaction()?;
        let mut done = upto;
        for (id, run, seq) in places {
            // An unreadable record cannot be searched; `verify` reports it.
            if let Ok(Some(record)) = read::record(&store.connection, run, seq) {
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO texts (rowid, text) VALUES (?1, ?2)")?
                    .execute(params![id, searchable(record.value)])?;
            }
            done = id;
        }
        transaction.execute("INSERT OR REPLACE INTO done (one, upto) VALUES (1, ?1)", [done])?;
        transaction.commit()?;
        Ok(done)
    }

    /// Up to `count` records that contain all the words, newest first. Words are taken literally,
    /// not as a query language; words without a letter or digit are ignored. Fields that were added
    /// to a record after it was indexed are not searched. The second list describes damage in the
    /// records that were found. A record that cannot be read is only in the second list.
    pub fn search(
        &self,
        store: &Store,
        words: &str,
        count: usize,
    ) -> Result<(Vec<SearchHit>, Vec<Finding>), StoreError> {
        let query: Vec<String> = words
            .split_whitespace()
            .filter(|word| word.contains(char::is_alphanumeric))
            .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
            .collect();
        if query.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut find = self
            .connection
            .prepare_cached("SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rowid DESC")?;
        let mut rows = find.query([query.join(" ")])?;
        let (mut hits, mut findings) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            if hits.len() == count {
                break;
            }
            hits.extend(hit(store, row.get(0)?, words, &mut findings)?);
        }
        Ok((hits, findings))
    }
}

/// Deletes the files of the index.
pub(super) fn remove(file: &Path) -> std::io::Result<()> {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn hit(
    store: &Store,
    id: i64,
    words: &str,
    findings: &mut Vec<Finding>,
) -> Result<Option<SearchHit>, StoreError> {
    let place = store
        .connection
        .prepare_cached("SELECT run, seq, kind FROM records WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((run, seq, kind)) = place else { return Ok(None) };
    let Some(key) = read::run_key(&store.connection, run)? else { return Ok(None) };
    let record = match read::record(&store.connection, run, seq) {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(None),
        Err(StoreError::Damaged(description)) => {
            findings.push(Finding { run_id: Some(key.run_id), description });
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let (run_id, seq) = (key.run_id, record.seq);
    findings.extend(store.verify_record(&run_id, seq)?);
    let excerpt = excerpt(&searchable(record.value), words);
    Ok(Some(SearchHit { run_id, seq, kind, excerpt }))
}

/// All texts of a payload, each cut to the searchable length and followed by a line break.
fn searchable(mut value: Value) -> String {
    let mut all = String::new();
    body::each_text(&mut value, &mut |_, text| {
        all.push_str(text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default());
        all.push('\n');
    });
    all
}

/// The line of the text that contains the first search word, shortened around that word.
fn excerpt(text: &str, words: &str) -> String {
    const WIDTH: usize = 120;
    let word = words.split_whitespace().next().unwrap_or_default().to_lowercase();
    let line = text
        .lines()
        .find(|line| line.to_lowercase().contains(&word))
        .or_else(|| text.lines().next())
        .unwrap_or_default();
    let at = line.to_lowercase().find(&word).unwrap_or_default();
    let from = line.floor_char_boundary(at.saturating_sub(WIDTH / 3));
    let rest = line.get(from..).unwrap_or_default();
    rest.get(..rest.floor_char_boundary(WIDTH)).unwrap_or_default().to_owned()
}
