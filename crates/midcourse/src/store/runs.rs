//! Summaries of the runs in a store.

use midcourse_core::{Engine, MicroUsd, RunId, Timestamp, Usage};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::Store;
use super::append::{run_head, seq_of_fact};
use super::error::StoreError;
use super::read::unsigned;
use super::summaries::{self, FACT_COLUMNS, FINDING_COLUMNS};
use super::summary::Findings;

/// A summary of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How the run ended, in one word such as `completed` or `failed`; `None` if `ended` is `None`.
    /// If the host gave no clear word, it follows from the exit code of the agent's command, or from
    /// the model's last response.
    pub outcome: Option<String>,
    /// The host's word for how the run ended.
    pub reported_outcome: Option<String>,
    /// The number of records in the run.
    pub records: u64,
    /// The number of tool calls that ended or were refused.
    pub calls: u64,
    /// The number of tool calls that failed or were refused.
    pub errors: u64,
    /// The number of messages that were shown to the agent.
    pub deliveries: u64,
    /// The first message of the user, on one line of at most 200 characters.
    pub task: Option<String>,
    /// The folder of the agent's project.
    pub folder: Option<String>,
    /// The command line with which the agent was started.
    pub command: Option<String>,
    /// The version of the host.
    pub host_version: Option<String>,
    /// The name of the model.
    pub model: Option<String>,
    /// The exit code of the agent's command; 128 plus the number of the signal that ended it.
    pub exit_code: Option<i64>,
    /// The tokens of all model requests and responses; `None` if no usage is known.
    pub tokens: Option<Usage>,
    /// What the run cost, as the host reported it.
    pub cost: Option<MicroUsd>,
    /// The number of messages that were recorded and not shown to the agent: those of shadow mode,
    /// and those that an experiment withheld.
    pub shadow_deliveries: u64,
    /// The number of messages after which the problem went away.
    pub cleared: u64,
    /// The number of messages after which the problem was still there.
    pub ignored: u64,
    /// What the engine found in the run. See [`Self::state`] for whether it is up to date.
    pub findings: Findings,
    /// Whether the fields from `task` on are up to date.
    #[serde(skip)]
    pub state: SummaryState,
}

/// Whether the summary of a run is up to date.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SummaryState {
    /// Everything is up to date.
    Current,
    /// The findings are incomplete, because no engine has analysed the whole run. Everything else is
    /// up to date.
    NotAnalysed,
    /// The findings, and which calls failed, were decided by the engine of another release.
    OtherEngine,
    /// Everything from `task` on is missing: the run was stored by an older release.
    #[default]
    Missing,
}

/// How a run ended, as an SQL expression over the tables `runs` and `summaries`. Exit codes above
/// 128 are signals: 129, 130 and 143 are those with which a user ends a program.
pub(super) const OUTCOME: &str = "CASE WHEN ended IS NULL THEN NULL \
    WHEN outcome IN ('completed', 'failed', 'aborted', 'limit_reached') THEN outcome \
    WHEN exit_code = 0 THEN 'completed' WHEN exit_code IN (129, 130, 143) THEN 'aborted' \
    WHEN exit_code IS NOT NULL THEN 'failed' \
    WHEN answered = 1 THEN 'completed' WHEN answered = 0 THEN 'failed' ELSE outcome END";

/// The column that is not NULL if the run has a row in `summaries`.
pub(super) const HAS_SUMMARY_COLUMN: usize = 12;

/// The column with the version of the engine that made the findings.
pub(super) const ENGINE_COLUMN: usize = 13;

/// The number of columns before those of `summaries`.
const RUN_COLUMNS: usize = 14;

/// The index of the first of the `added` columns in a row of [`select`].
const ADDED_COLUMN: usize = 35;

/// The start of a query for summaries of runs: all columns, then `added` ones.
pub(super) fn select(added: &str) -> String {
    format!(
        "SELECT run_id, parent_run_id, runs.host, started, latest, ended, {OUTCOME}, next_seq, \
         calls, errors, deliveries, outcome, summaries.run, engine, {FACT_COLUMNS}, \
         {FINDING_COLUMNS}{added} FROM runs LEFT JOIN summaries ON summaries.run = runs.id"
    )
}

pub(super) fn read_summary(row: &rusqlite::Row<'_>) -> rusqlite::Result<RunSummary> {
    let ended: Option<i64> = row.get(5)?;
    let has_summary = row.get::<_, Option<i64>>(HAS_SUMMARY_COLUMN)?.is_some();
    let state = match row.get::<_, Option<u32>>(ENGINE_COLUMN)? {
        _ if !has_summary => SummaryState::Missing,
        None => SummaryState::NotAnalysed,
        Some(Engine::VERSION) => SummaryState::Current,
        Some(_) => SummaryState::OtherEngine,
    };
    let facts = summaries::facts(row, RUN_COLUMNS)?;
    Ok(RunSummary {
        run_id: row.get::<_, String>(0)?.into(),
        parent_run_id: row.get::<_, Option<String>>(1)?.map(RunId::from),
        host: row.get(2)?,
        started: Timestamp::from_unix_ms(unsigned(row, 3)?),
        latest: Timestamp::from_unix_ms(unsigned(row, 4)?),
        ended: ended.and_then(|ms| u64::try_from(ms).ok()).map(Timestamp::from_unix_ms),
        outcome: row.get(6)?,
        reported_outcome: row.get(11)?,
        records: unsigned(row, 7)?,
        calls: unsigned(row, 8)?,
        errors: unsigned(row, 9)?,
        deliveries: unsigned(row, 10)?,
        task: facts.task,
        folder: facts.folder,
        command: facts.command,
        host_version: facts.host_version,
        model: facts.model,
        exit_code: facts.exit_code,
        tokens: facts.tokens,
        cost: facts.cost,
        shadow_deliveries: facts.shadow_deliveries,
        cleared: facts.cleared,
        ignored: facts.ignored,
        findings: summaries::findings(row, 31)?,
        state,
    })
}

/// The summaries of the runs for which an SQL condition holds, in its order.
pub(super) fn select_where(
    connection: &Connection,
    condition: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<RunSummary>, StoreError> {
    let mut find = connection.prepare_cached(&format!("{} WHERE {condition}", select("")))?;
    let found = find.query_map(parameters, read_summary)?;
    Ok(found.collect::<Result<_, _>>()?)
}

impl Store {
    /// Up to `count` runs. The run that started last comes first.
    pub fn runs(&self, count: usize) -> Result<Vec<RunSummary>, StoreError> {
        let mut find = self
            .connection
            .prepare_cached(&format!("{} ORDER BY started DESC, id DESC LIMIT ?1", select("")))?;
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
            .prepare_cached(&format!("{} WHERE run_id = ?1", select("")))?
            .query_row([run_id], read_summary);
        Ok(found.optional()?)
    }

    /// Whether a message could have been delivered somewhere in the run: whether one of its records
    /// has a decision point.
    pub fn was_monitored(&self, run_id: &str) -> Result<bool, StoreError> {
        let mut find = self.connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records JOIN runs ON runs.id = run \
             WHERE run_id = ?1 AND decision_point IS NOT NULL)",
        )?;
        Ok(find.query_row([run_id], |row| row.get(0))?)
    }

    /// The runs that this run started directly.
    pub fn children(&self, run_id: &str) -> Result<Vec<RunSummary>, StoreError> {
        let mut find = self.connection.prepare_cached(&format!(
            "{} WHERE parent_run_id = ?1 ORDER BY started, id",
            select("")
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
            "{} JOIN records ON records.run = runs.id AND records.kind = ?1 AND records.fact = ?2 \
             WHERE latest >= ?3 ORDER BY runs.id",
            select(", records.seq")
        ))?;
        let since = i64::try_from(since.unix_ms()).unwrap_or(i64::MAX);
        let found = find.query_map(params![kind, fact, since], |row| {
            Ok((read_summary(row)?, unsigned(row, ADDED_COLUMN)?))
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

    /// Up to `count` run ids that end in `suffix`, the newest run first.
    pub fn runs_ending_in(&self, suffix: &str, count: usize) -> Result<Vec<RunId>, StoreError> {
        let mut find = self.connection.prepare_cached(
            "SELECT run_id FROM runs WHERE length(?1) > 0 AND substr(run_id, -length(?1)) = ?1 \
             ORDER BY started DESC LIMIT ?2",
        )?;
        let limit = i64::try_from(count).unwrap_or(i64::MAX);
        let found = find.query_map(params![suffix, limit], |row| row.get::<_, String>(0))?;
        Ok(found.map(|id| id.map(RunId::from)).collect::<Result<_, _>>()?)
    }
}
