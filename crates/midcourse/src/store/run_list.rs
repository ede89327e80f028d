//! The list of runs, newest first: filtered, page by page, with child runs under their parents.
//!
//! A page is read completely before it is returned: an open query would prevent other processes from
//! truncating SQLite's write-ahead log. The next page starts where the last one ended, so the memory
//! for a list does not depend on its length.

use midcourse_core::Timestamp;
use rusqlite::named_params;

use super::Store;
use super::error::StoreError;
use super::read::unsigned;
use super::runs::{OUTCOME, RunSummary, read_summary, select};

/// How many levels of child runs are followed. The store prevents cycles; this is a second barrier.
const MAX_LEVELS: usize = 64;

/// Which runs to list. The default lists all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs of this host.
    pub host: Option<String>,
    /// Only runs of agents in this folder or below it.
    pub folder: Option<String>,
    /// Only runs with a record at or after this time.
    pub since: Option<Timestamp>,
    /// Only runs that failed or were aborted.
    pub failed: bool,
    /// Only runs with a message for the agent, whether it was shown or only recorded.
    pub said: bool,
}

/// A run in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRun {
    /// The run.
    pub run: RunSummary,
    /// The number of tool calls that have no result. `RunSummary::calls` does not count them.
    pub open_calls: u64,
    /// 0, or for a child run that is listed under its parent, one more than the parent's level.
    pub level: usize,
}

/// A position in the list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCursor {
    started: i64,
    id: i64,
}

impl RunCursor {
    /// The beginning of the list.
    pub const START: Self = Self { started: i64::MAX, id: i64::MAX };

    /// The position after a run that started at this time, in Unix milliseconds. `id` orders the runs
    /// that started at the same time.
    pub const fn after(started: i64, id: i64) -> Self {
        Self { started, id }
    }

    /// When the run before the position started, in Unix milliseconds, and its id.
    pub const fn place(self) -> (i64, i64) {
        (self.started, self.id)
    }
}

/// The SQL condition of a [`RunFilter`] on the `runs` table with this alias. The parameters are
/// `:host`, `:since`, `:folder`, `:failed` and `:said`.
pub(super) fn condition(alias: &str) -> String {
    format!(
        "(:host IS NULL OR {alias}.host = :host) AND {alias}.latest >= :since \
         AND (NOT (:failed OR :said OR :folder IS NOT NULL) OR EXISTS \
         (SELECT 1 FROM runs AS it LEFT JOIN summaries ON summaries.run = it.id \
          WHERE it.id = {alias}.id AND (NOT :failed OR {OUTCOME} IN ('failed', 'aborted')) \
          AND (NOT :said OR deliveries > 0 OR shadow_deliveries > 0) \
          AND (:folder IS NULL OR folder = :folder \
               OR substr(folder, 1, length(:folder) + 1) = :folder || '/')))"
    )
}

/// The condition for a run at the top of the list: its parent is not listed.
fn top_condition() -> String {
    format!(
        "{} AND (runs.parent_run_id IS NULL OR NOT EXISTS (SELECT 1 FROM runs AS parent \
         WHERE parent.run_id = runs.parent_run_id AND {}))",
        condition("runs"),
        condition("parent")
    )
}

/// What the list needs besides the summary of a run. One query for a page is much faster than several
/// for each run.
const ADDED: &str = ", runs.started AS list_started, runs.id AS list_id, \
    EXISTS (SELECT 1 FROM runs AS child WHERE child.parent_run_id = runs.run_id) AS is_parent, \
    (SELECT count(*) FROM records AS call WHERE call.run = runs.id AND call.kind = 'tool_started' \
     AND call.fact IS NOT NULL AND NOT EXISTS (SELECT 1 FROM records AS e WHERE e.run = runs.id \
     AND e.kind IN ('tool_ended', 'denied') AND e.fact = call.fact)) AS open_calls";

/// A row of the list.
struct Row {
    run: RunSummary,
    cursor: RunCursor,
    is_parent: bool,
    open_calls: u64,
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let open_calls: i64 = row.get("open_calls")?;
    Ok(Row {
        run: read_summary(row)?,
        cursor: RunCursor { started: row.get("list_started")?, id: row.get("list_id")? },
        is_parent: row.get("is_parent")?,
        open_calls: u64::try_from(open_calls).unwrap_or_default(),
    })
}

impl RunFilter {
    pub(super) fn since_ms(&self) -> i64 {
        self.since.map_or(i64::MIN, |since| i64::try_from(since.unix_ms()).unwrap_or(i64::MAX))
    }
}

impl Store {
    /// The next runs of the list, and the position after them. At most `count` runs are at level 0;
    /// each is followed by its child runs. A child run is at level 0 if the filter leaves out its
    /// parent.
    pub fn list_runs(
        &self,
        filter: &RunFilter,
        after: RunCursor,
        count: usize,
    ) -> Result<(Vec<ListedRun>, RunCursor), StoreError> {
        let mut find = self.connection.prepare_cached(&format!(
            "{} WHERE (runs.started, runs.id) < (:started, :id) AND {} \
             ORDER BY runs.started DESC, runs.id DESC LIMIT :count",
            select(ADDED),
            top_condition()
        ))?;
        let found = find.query_map(
            named_params! {
                ":host": filter.host, ":folder": filter.folder, ":since": filter.since_ms(),
                ":failed": filter.failed, ":said": filter.said, ":started": after.started, ":id": after.id,
                ":count": i64::try_from(count).unwrap_or(i64::MAX),
            },
            read_row,
        )?;
        let found: Vec<Row> = found.collect::<Result<_, _>>()?;
        let (mut listed, mut last) = (Vec::new(), after);
        for row in found {
            last = row.cursor;
            self.add_with_children(filter, row, 0, &mut listed)?;
        }
        Ok((listed, last))
    }

    fn add_with_children(
        &self,
        filter: &RunFilter,
        row: Row,
        level: usize,
        listed: &mut Vec<ListedRun>,
    ) -> Result<(), StoreError> {
        let Row { run, is_parent, open_calls, .. } = row;
        let run_id = run.run_id.clone();
        listed.push(ListedRun { run, open_calls, level });
        if is_parent && level < MAX_LEVELS {
            for child in self.listed_children(filter, run_id.as_str())? {
                self.add_with_children(filter, child, level.saturating_add(1), listed)?;
            }
        }
        Ok(())
    }

    fn listed_children(&self, filter: &RunFilter, parent: &str) -> Result<Vec<Row>, StoreError> {
        let mut find = self.connection.prepare_cached(&format!(
            "{} WHERE runs.parent_run_id = :parent AND {} ORDER BY runs.started, runs.id",
            select(ADDED),
            condition("runs")
        ))?;
        let found = find.query_map(
            named_params! {
                ":parent": parent, ":host": filter.host, ":folder": filter.folder,
                ":since": filter.since_ms(), ":failed": filter.failed, ":said": filter.said,
            },
            read_row,
        )?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The number of runs at level 0 of the list.
    pub fn listed_run_count(&self, filter: &RunFilter) -> Result<u64, StoreError> {
        let mut count = self
            .connection
            .prepare_cached(&format!("SELECT count(*) FROM runs WHERE {}", top_condition()))?;
        let params = named_params! {
            ":host": filter.host, ":folder": filter.folder, ":since": filter.since_ms(), ":failed": filter.failed,
            ":said": filter.said,
        };
        Ok(count.query_row(params, |row| unsigned(row, 0))?)
    }
}
