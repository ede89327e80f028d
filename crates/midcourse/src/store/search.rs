//! Full-text search over all records, with an index in a file of its own.
//!
//! Hooks do not update the index, so that they stay fast. Instead, whoever wants to search first
//! adds the records that are not in the index yet ([`SearchIndex::catch_up`]). The index can be
//! deleted at any time and is then built again.
//!
//! A search finds entries (see [`Entry`]): the start of a call, its result and a message that repeats
//! the result are one hit.

use std::collections::HashSet;
use std::path::Path;

use midcourse_core::RunId;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};
use serde_json::Value;

use super::append::seq_of_fact;
use super::entries::{self, Entry};
use super::error::StoreError;
use super::read::{self, StoredRecord};
use super::run_list::{self, RunFilter};
use super::search_words::SearchWords;
use super::verify::Finding;
use super::{Store, body};

/// The version of the index format; an index of another version is deleted and built again.
const VERSION: u32 = 2;

/// How many records are added to the index in one transaction.
const PAGE: i64 = 500;

/// How many bytes of each text, from its start, are searchable.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Which entries a search may find. The default allows all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchFilter {
    /// Only entries of these runs.
    pub runs: RunFilter,
    /// Only entries of this run.
    pub run_id: Option<RunId>,
    /// Only calls that failed or were refused.
    pub errors: bool,
    /// Only calls of this tool; upper and lower case do not matter.
    pub tool: Option<String>,
}

/// An entry that matches a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The run of the entry.
    pub run_id: RunId,
    /// The seq of the entry's record.
    pub seq: u64,
    /// The record, and the result if it is a call.
    pub entry: Entry,
    /// The line of the entry that has most of the words.
    pub line: String,
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
        super::schema::keep_prepared_statements(&connection)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        match super::schema::version(&connection)? {
            0 => create_tables(&connection)?,
            VERSION => {}
            found => return Err(StoreError::Newer { found, known: VERSION }),
        }
        Ok(Self { connection })
    }

    /// An index of one run, in memory: of all its records, or of only these, for a caller that knows
    /// that no others can match.
    pub fn of_run(store: &Store, run_id: &RunId, seqs: Option<&[u64]>) -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        create_tables(&connection)?;
        let of_run = "SELECT records.id, run, seq FROM records JOIN runs ON runs.id = run \
                      WHERE run_id = ?1";
        let place = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let mut places: Vec<(i64, i64, i64)> = Vec::new();
        match seqs {
            None => {
                let mut find = store.connection.prepare_cached(of_run)?;
                for found in find.query_map([run_id.as_str()], place)? {
                    places.push(found?);
                }
            }
            Some(seqs) => {
                let one = format!("{of_run} AND seq = ?2");
                let mut find = store.connection.prepare_cached(&one)?;
                for seq in seqs {
                    let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
                    let found = find.query_row(params![run_id.as_str(), seq], place);
                    places.extend(found.optional()?);
                }
            }
        }
        let transaction = connection.transaction()?;
        for (id, run, seq) in places {
            add_record(&transaction, store, id, run, seq)?;
        }
        transaction.commit()?;
        Ok(Self { connection })
    }

    /// Adds the records that are not in the index yet. While it works, it calls `progress` with the
    /// number of records that are left; the last call has 0.
    pub fn catch_up(
        &mut self,
        store: &Store,
        mut progress: impl FnMut(u64),
    ) -> Result<(), StoreError> {
        let last = last_record(store)?;
        let mut upto = self.indexed_upto()?;
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

    /// About how many records are not in the index yet.
    pub fn unindexed(&self, store: &Store) -> Result<u64, StoreError> {
        let left = last_record(store)?.saturating_sub(self.indexed_upto()?);
        Ok(u64::try_from(left).unwrap_or_default())
    }

    fn indexed_upto(&self) -> Result<i64, StoreError> {
        let upto = self.connection.query_row("SELECT upto FROM done", [], |row| row.get(0));
        Ok(upto.optional()?.unwrap_or(0))
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
            add_record(&transaction, store, id, run, seq)?;
            done = id;
        }
        transaction.execute("INSERT OR REPLACE INTO done (one, upto) VALUES (1, ?1)", [done])?;
        transaction.commit()?;
        Ok(done)
    }

    /// Up to `count` entries that contain all the words, newest first. Words are taken literally,
    /// not as a query language; words without a letter or digit are ignored. Fields that were added
    /// to a record after it was indexed are not searched. The second list describes damage in the
    /// records that were found. An entry that cannot be read is only in the second list.
    pub fn search(
        &self,
        store: &Store,
        words: &str,
        filter: &SearchFilter,
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
        let words = SearchWords::of(words);
        let mut find = self
            .connection
            .prepare_cached("SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rowid DESC")?;
        let mut rows = find.query([query.join(" ")])?;
        let (mut hits, mut findings) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        while let Some(row) = rows.next()? {
            if hits.len() == count {
                break;
            }
            let Some(place) = place_of(store, row.get(0)?, filter)? else { continue };
            if seen.insert((place.run, place.seq)) {
                hits.extend(hit(store, &place, &words, &mut findings)?);
            }
        }
        Ok((hits, findings))
    }
}

fn create_tables(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(&format!(
        "PRAGMA journal_mode=WAL; BEGIN IMMEDIATE;
         CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(text, content='', contentless_delete=1);
         CREATE TABLE IF NOT EXISTS done (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL);
         PRAGMA user_version={VERSION}; COMMIT;"
    ))?;
    Ok(())
}

/// Adds the record with this row id to an index.
fn add_record(
    index: &Connection,
    store: &Store,
    id: i64,
    run: i64,
    seq: i64,
) -> Result<(), StoreError> {
    // An unreadable record cannot be searched; `verify` reports it.
    let Ok(Some(record)) = read::record(&store.connection, run, seq) else { return Ok(()) };
    // A result is found by the words of its call, too.
    let start = start_of_call(store, run, record.kind(), record.fact.as_deref());
    let call = start.and_then(|seq| read::record(&store.connection, run, seq).ok()?);
    let text = call.map(searchable).unwrap_or_default() + &searchable(record);
    index
        .prepare_cached("INSERT OR REPLACE INTO texts (rowid, text) VALUES (?1, ?2)")?
        .execute(params![id, text])?;
    Ok(())
}

/// The id of the latest record of any run.
fn last_record(store: &Store) -> Result<i64, StoreError> {
    let last = "SELECT coalesce(max(id), 0) FROM records";
    Ok(store.connection.query_row(last, [], |row| row.get(0))?)
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

/// Where an entry is.
struct Place {
    run: i64,
    run_id: RunId,
    seq: i64,
}

/// The place of the entry that contains the record with this row id; `None` if the filter leaves it
/// out, or if the record was removed.
fn place_of(store: &Store, id: i64, filter: &SearchFilter) -> Result<Option<Place>, StoreError> {
    let SearchFilter { runs, run_id, errors, tool } = filter;
    let found = store
        .connection
        .prepare_cached(&format!(
            "SELECT runs.id, runs.run_id, seq, kind, fact FROM records \
             JOIN runs ON runs.id = records.run WHERE records.id = :id \
             AND (:run_id IS NULL OR runs.run_id = :run_id) AND {}",
            run_list::condition("runs")
        ))?
        .query_row(
            named_params! {
                ":id": id, ":run_id": run_id.as_ref().map(RunId::as_str), ":host": runs.host, ":folder": runs.folder,
                ":since": runs.since_ms(), ":failed": runs.failed, ":said": runs.said,
            },
            |row| {
                let (kind, fact): (String, Option<String>) = (row.get(3)?, row.get(4)?);
                let run_id = row.get::<_, String>(1)?.into();
                Ok((Place { run: row.get(0)?, run_id, seq: row.get(2)? }, kind, fact))
            },
        )
        .optional()?;
    let Some((mut place, kind, fact)) = found else { return Ok(None) };
    if let Some(start) = start_of_call(store, place.run, &kind, fact.as_deref()) {
        place.seq = start;
    }
    let is_entry = store
        .connection
        .prepare_cached(&format!(
            "SELECT 1 FROM records AS r WHERE r.run = :run AND r.seq = :seq AND {}",
            entries::condition()
        ))?
        .exists(named_params! {
            ":run": place.run, ":seq": place.seq, ":first": 0, ":last": i64::MAX, ":all": false,
            ":errors": errors, ":said": false, ":tool": tool,
        })?;
    Ok(is_entry.then_some(place))
}

/// The seq of the start of the call that a record ends; `None` if the record does not end a call, or
/// if the start is not stored.
fn start_of_call(store: &Store, run: i64, kind: &str, fact: Option<&str>) -> Option<i64> {
    let fact = fact.filter(|_| matches!(kind, "tool_ended" | "denied"))?;
    seq_of_fact(&store.connection, run, "tool_started", fact).ok()?
}

fn hit(
    store: &Store,
    place: &Place,
    words: &SearchWords,
    findings: &mut Vec<Finding>,
) -> Result<Option<SearchHit>, StoreError> {
    let run_id = place.run_id.clone();
    let entry = match store.entry_at(place.run, place.seq) {
        Ok(Some(entry)) => entry,
        Ok(None) => return Ok(None),
        Err(StoreError::Damaged(description)) => {
            findings.push(Finding { run_id: Some(run_id), description });
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let seq = entry.record.seq;
    for record in [Some(&entry.record), entry.end.as_ref()].into_iter().flatten() {
        findings.extend(store.verify_record(&run_id, record.seq)?);
    }
    let end = entry.end.clone().map(searchable).unwrap_or_default();
    let text = searchable(entry.record.clone()) + &end;
    let line = words.best_line(&text).to_owned();
    Ok(Some(SearchHit { run_id, seq, entry, line }))
}

/// All texts of a payload, each cut to the searchable length and followed by a line break.
fn searchable(record: StoredRecord) -> String {
    let mut all = String::new();
    let mut value: Value = record.value;
    body::each_text(&mut value, &mut |_, text| {
        all.push_str(text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default());
        all.push('\n');
    });
    all
}
