//! The runs that a person started, in any order, by page number: for a table in which a reader jumps
//! to any place. [`Store::list_runs`] is the list from the newest run on, with its subagents.

use midcourse_core::{RunId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, named_params, params};

use super::error::StoreError;
use super::read::unsigned;
use super::run_list::{self, RunFilter};
use super::runs::{RunSummary, read_summary, select};
use super::tail::Cursor;
use super::{Store, append};

/// The column by which [`Store::run_table`] sorts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunOrder {
    /// When the run started.
    #[default]
    Started,
    /// The time of the latest record.
    Latest,
    /// The time from the start to the latest record.
    Duration,
    /// The number of calls that have ended.
    Calls,
    /// The number of calls that failed or were refused.
    Errors,
    /// The number of messages for the agent, with those that were only recorded.
    Messages,
    /// The number of tokens of all kinds. Runs without a token count come last.
    Tokens,
    /// The cost that the host reported. Runs without one come last.
    Cost,
}

/// Which runs of the table to read, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunTableQuery {
    /// Only these runs.
    pub filter: RunFilter,
    /// Only runs whose id, task, folder or model contains this text. Upper and lower case are the
    /// same for the letters A to Z.
    pub text: Option<String>,
    /// Only runs that have no end and have a record since this time.
    pub running_since: Option<Timestamp>,
    /// The column to sort by; runs that are equal there are in the order of their start.
    pub order: RunOrder,
    /// The smallest value first.
    pub is_ascending: bool,
    /// How many rows to skip.
    pub offset: u64,
    /// The maximum number of rows to return.
    pub count: usize,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRun {
    /// The run.
    pub run: RunSummary,
    /// The number of tool calls that have no result. `RunSummary::calls` does not count them.
    pub open_calls: u64,
    /// The number of runs that this run started directly.
    pub subagents: u64,
}

const ADDED: &str = ", (SELECT count(*) FROM runs AS child WHERE child.parent_run_id = runs.run_id) AS subagents, \
    (SELECT count(*) FROM records AS call WHERE call.run = runs.id AND call.kind = 'tool_started' \
     AND call.fact IS NOT NULL AND NOT EXISTS (SELECT 1 FROM records AS e WHERE e.run = runs.id \
     AND e.kind IN ('tool_ended', 'denied') AND e.fact = call.fact)) AS open_calls";

/// A run that nobody started, as far as the store knows.
const IS_TOP: &str = "(runs.parent_run_id IS NULL OR NOT EXISTS \
     (SELECT 1 FROM runs AS parent WHERE parent.run_id = runs.parent_run_id))";

fn condition() -> String {
    format!(
        "{IS_TOP} AND {} AND (:running_since IS NULL OR ended IS NULL AND latest >= :running_since) \
         AND (:text IS NULL OR instr(lower(run_id), :text) OR instr(lower(task), :text) \
              OR instr(lower(folder), :text) OR instr(lower(model), :text))",
        run_list::condition("runs")
    )
}

impl RunOrder {
    const fn expression(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Latest => "latest",
            Self::Duration => "latest - started",
            Self::Calls => "calls",
            Self::Errors => "errors",
            Self::Messages => "deliveries + coalesce(shadow_deliveries, 0)",
            Self::Tokens => {
                "input_tokens + output_tokens + coalesce(cache_write_tokens, 0) \
                 + coalesce(cache_read_tokens, 0)"
            }
            Self::Cost => "cost",
        }
    }
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<TableRun> {
    let count = |value: i64| u64::try_from(value).unwrap_or_default();
    Ok(TableRun {
        run: read_summary(row)?,
        open_calls: count(row.get("open_calls")?),
        subagents: count(row.get("subagents")?),
    })
}

fn table_run(connection: &Connection, id: i64) -> Result<Option<TableRun>, StoreError> {
    let mut find = connection.prepare_cached(&format!("{} WHERE runs.id = ?1", select(ADDED)))?;
    Ok(find.query_row([id], read_row).optional()?)
}

impl Store {
    /// Rows of the table, and the number of rows that match the query in all.
    pub fn run_table(&self, query: &RunTableQuery) -> Result<(Vec<TableRun>, u64), StoreError> {
        let direction = if query.is_ascending { "ASC" } else { "DESC" };
        let filter = &query.filter;
        let text = query.text.as_ref().map(|text| text.to_ascii_lowercase());
        let since = query.running_since;
        let since = since.map(|since| i64::try_from(since.unix_ms()).unwrap_or(i64::MAX));
        // The rows are sorted by their ids alone: only the rows of the page need the other columns.
        let mut find = self.connection.prepare_cached(&format!(
            "SELECT runs.id, count(*) OVER () FROM runs LEFT JOIN summaries ON summaries.run = runs.id \
             WHERE {} ORDER BY {} {direction} NULLS LAST, started {direction}, runs.id {direction} \
             LIMIT :count OFFSET :offset",
            condition(),
            query.order.expression()
        ))?;
        let places = find.query_map(
            named_params! {
                ":host": filter.host, ":folder": filter.folder, ":since": filter.since_ms(),
                ":failed": filter.failed, ":said": filter.said, ":text": text,
                ":running_since": since, ":count": i64::try_from(query.count).unwrap_or(i64::MAX),
                ":offset": i64::try_from(query.offset).unwrap_or(i64::MAX),
            },
            |row| Ok((row.get::<_, i64>(0)?, unsigned(row, 1)?)),
        )?;
        let places: Vec<(i64, u64)> = places.collect::<Result<_, _>>()?;
        let mut total = places.first().map_or(0, |(_, total)| *total);
        if places.is_empty() && query.offset > 0 {
            // The offset is behind the last row, so there was no row with the total.
            let first = RunTableQuery { offset: 0, count: 1, ..query.clone() };
            total = self.run_table(&first)?.1;
        }
        let rows = places.into_iter().map(|(id, _)| table_run(&self.connection, id));
        Ok((rows.filter_map(Result::transpose).collect::<Result<_, _>>()?, total))
    }

    /// The row of one run, which may be the run of a subagent.
    pub fn table_run(&self, run_id: &str) -> Result<Option<TableRun>, StoreError> {
        let Some(head) = append::run_head(&self.connection, run_id)? else { return Ok(None) };
        table_run(&self.connection, head.id)
    }

    /// The names of all hosts with a run, in alphabetical order.
    pub fn hosts(&self) -> Result<Vec<String>, StoreError> {
        let mut find =
            self.connection.prepare_cached("SELECT DISTINCT host FROM runs ORDER BY host")?;
        let found = find.query_map([], |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Up to `count` runs with a record after this position, and the position of the latest record.
    /// If there are more, those with the newest records are returned.
    pub fn runs_after(
        &self,
        cursor: Cursor,
        count: usize,
    ) -> Result<(Vec<RunId>, Cursor), StoreError> {
        let mut find = self.connection.prepare_cached(
            "SELECT run_id, max(records.id) AS latest_record FROM records JOIN runs ON runs.id = run \
             WHERE records.id > ?1 GROUP BY run ORDER BY latest_record DESC LIMIT ?2",
        )?;
        let limit = i64::try_from(count).unwrap_or(i64::MAX);
        let found = find.query_map(params![cursor.id(), limit], |row| {
            Ok((RunId::from(row.get::<_, String>(0)?), row.get::<_, i64>(1)?))
        })?;
        let found: Vec<(RunId, i64)> = found.collect::<Result<_, _>>()?;
        let latest = found.first().map_or(cursor, |(_, latest)| Cursor::at(*latest));
        Ok((found.into_iter().map(|(run_id, _)| run_id).collect(), latest))
    }
}
