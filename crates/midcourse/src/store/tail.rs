//! Follows the records of one run, or of all runs, as they are stored.

use midcourse_core::RunId;
use rusqlite::params;

use super::error::StoreError;
use super::read::{self, RecordAtSeq};
use super::{Store, append};

/// The id of a run and a seq in it, with the record at that seq or the reason why the record cannot
/// be read.
pub type RecordOfRun = (RunId, RecordAtSeq);

/// A position in the order in which records were stored, across all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor(i64);

impl Cursor {
    pub(super) const fn at(id: i64) -> Self {
        Self(id)
    }

    pub(super) const fn id(self) -> i64 {
        self.0
    }
}

/// Writes the position as a text that [`str::parse`] reads, also in another process.
impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Cursor {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Store {
    /// The position from which `records_after` returns the latest `count` records of a run, or of
    /// all runs if `run_id` is `None`, and everything that is stored later.
    pub fn cursor(&self, run_id: Option<&RunId>, count: usize) -> Result<Cursor, StoreError> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let last = "coalesce(min(id) - 1, (SELECT coalesce(max(id), 0) FROM records))";
        let cursor = match self.run_row(run_id)? {
            Some(run) => self.connection.query_row(
                &format!(
                    "SELECT {last} FROM (SELECT id FROM records WHERE run = ?1 \
                     ORDER BY seq DESC LIMIT ?2)"
                ),
                params![run, count],
                |row| row.get(0),
            )?,
            None => self.connection.query_row(
                &format!("SELECT {last} FROM (SELECT id FROM records ORDER BY id DESC LIMIT ?1)"),
                params![count],
                |row| row.get(0),
            )?,
        };
        Ok(Cursor(cursor))
    }

    /// Up to `count` records that were stored after a position, of one run or of all runs, and the
    /// position from which to read on. For a damaged record, the list has an error in its place.
    pub fn records_after(
        &self,
        cursor: Cursor,
        run_id: Option<&RunId>,
        count: usize,
    ) -> Result<(Vec<RecordOfRun>, Cursor), StoreError> {
        let run = self.run_row(run_id)?;
        if run_id.is_some() && run.is_none() {
            return Ok((Vec::new(), cursor));
        }
        let mut find = self.connection.prepare_cached(
            "SELECT id, run, seq FROM records WHERE id > ?1 AND (?2 IS NULL OR run = ?2) \
             ORDER BY id LIMIT ?3",
        )?;
        let limit = i64::try_from(count).unwrap_or(i64::MAX);
        let places: Vec<(i64, i64, i64)> = find
            .query_map(params![cursor.0, run, limit], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<Result<_, _>>()?;
        let mut records = Vec::new();
        let mut after = cursor;
        for (id, run, seq) in places {
            after = Cursor(id);
            // The run may just have been removed.
            let Some(key) = read::run_key(&self.connection, run)? else { continue };
            let seq_of_run = u64::try_from(seq).unwrap_or_default();
            match read::record(&self.connection, run, seq) {
                Ok(None) => {}
                Ok(Some(record)) => records.push((key.run_id, (seq_of_run, Ok(record)))),
                Err(error @ StoreError::Damaged(_)) => {
                    records.push((key.run_id, (seq_of_run, Err(error))));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((records, after))
    }

    /// A number that changes whenever another process changes the store. Compare it with an earlier
    /// value to find out whether there may be new records.
    pub fn data_version(&self) -> Result<i64, StoreError> {
        Ok(self.connection.query_row("PRAGMA data_version", [], |row| row.get(0))?)
    }

    fn run_row(&self, run_id: Option<&RunId>) -> Result<Option<i64>, StoreError> {
        let Some(run_id) = run_id else { return Ok(None) };
        Ok(append::run_head(&self.connection, run_id.as_str())?.map(|head| head.id))
    }
}
