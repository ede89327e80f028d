//! Summaries of the runs in a store.

use midcourse_core::{RunId, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::Store;
use super::append::{run_head, seq_of_fact};
use super::error::StoreError;
use super::read::unsigned;

/// A summary of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// The run's id.
    pub run_id: RunId,
    /// The run that started this one, if it is a child run.
    pub parent_run_id: Option<RunId>,
    /// The host that reported the run first.
    pub host: String,
    /// The time of the run's earliest record.
    pub started: Timestamp,
    /// The time of the run's latest record.
    pub latest: Timestamp,
    /// When the run ended; `None` if no end is recorded, or if the run continued after it.
    pub ended: Option<Timestamp>,
    /// How the run ended; `None` if `ended` is `None`.
    pub outcome: Option<String>,
    /// The number of records in the run.
    pub records: u64,
    /// The number of tool calls that ended or were refused.
    pub calls: u64,
    /// The number of tool calls that failed or were refused.
    pub errors: u64,
    /// The number of messages that were shown to the agent.
    pub deliveries: u64,
}

const COLUMNS: &str = "run_id, parent_run_id, runs.host, started, latest, ended, outcome, next_seq, \
                       calls, errors, deliveries";

fn read_summary(row: &rusqlite::Row<'_>) -> rusqlite::Result<RunSummary> {
    let ended: Option<i64> = row.get(5)?;
    Ok(RunSummary {
        run_id: row.get::<_, String>(0)?.into(),
        parent_run_id: row.get::<_, Option<String>>(1)?.map(RunId::from),
        host: row.get(2)?,
        started: Timestamp::from_unix_ms(unsigned(row, 3)?),
        latest: Timestamp::from_unix_ms(unsigned(row, 4)?),
        ended: ended.and_then(|ms| u64::try_from(ms).ok()).map(Timestamp::from_unix_ms),
        outcome: row.get(6)?,
        records: unsigned(row, 7)?,
        calls: unsigned(row, 8)?,
        errors: unsigned(row, 9)?,
        deliveries: unsigned(row, 10)?,
    })
}

impl Store {
    /// Up to `count` runs. The run that started last comes first.
    pub fn runs(&self, count: usize) -> Result<Vec<RunSummary>, StoreError> {
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs ORDER BY started DESC, id DESC LIMIT ?1"
        ))?;
        let found = find.query_map([i64::try_from(count).unwrap_or(i64::MAX)], read_summary)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The number of runs in the store.
    pub fn run_count(&self) -> Result<u64, StoreError> {
        let count =
            self.connection.query_row("SELECT count(*) FROM runs", [], |row| unsigned(row, 0))?;
        Ok(count)
    }

    /// The run with this id, if it is stored.
    pub fn run(&self, run_id: &str) -> Result<Option<RunSummary>, StoreError> {
        let found = self
            .connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE run_id = ?1"))?
            .query_row([run_id], read_summary);
        Ok(found.optional()?)
    }

    /// The runs that this run started directly.
    pub fn children(&self, run_id: &str) -> Result<Vec<RunSummary>, StoreError> {
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs WHERE parent_run_id = ?1 ORDER BY id"
        ))?;
        let found = find.query_map([run_id], read_summary)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The runs that have a record of this payload kind with this fact key (see `FactKey`), each
    /// with the seq of that record. Runs without a record since `since` are left out.
    pub fn runs_with_fact(
        &self,
        kind: &str,
        fact: &str,
        since: Timestamp,
    ) -> Result<Vec<(RunSummary, u64)>, StoreError> {
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS}, records.seq FROM runs JOIN records ON records.run = runs.id \
             AND records.kind = ?1 AND records.fact = ?2 WHERE latest >= ?3 ORDER BY runs.id"
        ))?;
        let since = i64::try_from(since.unix_ms()).unwrap_or(i64::MAX);
        let found = find.query_map(params![kind, fact, since], |row| {
            Ok((read_summary(row)?, unsigned(row, 11)?))
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Whether a run has a record of this payload kind with this fact key (see `FactKey`).
    pub fn has_fact(&self, run_id: &str, kind: &str, fact: &str) -> Result<bool, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(false) };
        Ok(seq_of_fact(&self.connection, head.id, kind, fact)?.is_some())
    }

    /// The number of tool calls in a run that were made and have no result: they are running, or
    /// the agent stopped after them. `RunSummary::calls` does not count them.
    pub fn open_call_count(&self, run_id: &str) -> Result<u64, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(0) };
        let mut count = self.connection.prepare_cached(
            "SELECT count(*) FROM records AS call \
             WHERE run = ?1 AND kind = 'tool_started' AND fact IS NOT NULL AND NOT EXISTS \
             (SELECT 1 FROM records WHERE run = ?1 AND kind IN ('tool_ended', 'denied') \
             AND fact = call.fact)",
        )?;
        Ok(count.query_row([head.id], |row| unsigned(row, 0))?)
    }

    /// Up to `count` run ids that start with `prefix`, the newest run first.
    pub fn runs_like(&self, prefix: &str, count: usize) -> Result<Vec<RunId>, StoreError> {
        let mut find = self.connection.prepare_cached(
            "SELECT run_id FROM runs WHERE substr(run_id, 1, length(?1)) = ?1 \
             ORDER BY started DESC LIMIT ?2",
        )?;
        let limit = i64::try_from(count).unwrap_or(i64::MAX);
        let found = find.query_map(params![prefix, limit], |row| row.get::<_, String>(0))?;
        Ok(found.map(|id| id.map(RunId::from)).collect::<Result<_, _>>()?)
    }
}
