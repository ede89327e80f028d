//! Lists of runs. The conditions are those of the store on a machine; a test compares the two.

use std::collections::HashMap;

use midcourse::{
    ListedRun, RunCursor, RunFilter, RunHeader, RunId, RunOrder, RunTableQuery, TableRun, Timestamp,
};
use postgres::types::ToSql;
use postgres::{Row, Transaction};

use crate::error::FleetError;
use crate::reader::ReadRun;
use crate::reader::rows::{read_header, read_run, unsigned};

/// How many levels of child runs are followed.
const MAX_LEVELS: usize = 64;

/// The parameters of [`condition`], which are `$1` to `$6`.
pub(super) struct Filter {
    project: i32,
    host: Option<String>,
    since: Option<i64>,
    folder: Option<String>,
    failed: bool,
    said: bool,
}

impl Filter {
    pub(super) fn new(project: i32, filter: &RunFilter) -> Self {
        let since = filter.since.map(milliseconds);
        Self {
            project,
            host: filter.host.clone().map(without_nul),
            since,
            folder: filter.folder.clone().map(without_nul),
            failed: filter.failed,
            said: filter.said,
        }
    }

    /// These parameters and further ones.
    pub(super) fn and<'a>(
        &'a self,
        more: &[&'a (dyn ToSql + Sync)],
    ) -> Vec<&'a (dyn ToSql + Sync)> {
        let mut all: Vec<&(dyn ToSql + Sync)> =
            vec![&self.project, &self.host, &self.since, &self.folder, &self.failed, &self.said];
        all.extend(more);
        all
    }
}

/// A text that Postgres accepts. Nothing that is stored has a NUL character, so nothing is found.
pub(super) fn without_nul(text: String) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The condition of a [`Filter`] on the table of runs with this alias. A run without a header has no
/// start; the indexes are of runs with a start.
pub(super) fn condition(alias: &str) -> String {
    format!(
        "{alias}.project = $1 AND {alias}.started IS NOT NULL \
         AND ($2::text IS NULL OR {alias}.host = $2) AND ($3::bigint IS NULL OR {alias}.latest >= $3) \
         AND ($4::text IS NULL OR {alias}.folder = $4 \
              OR left({alias}.folder, length($4) + 1) = $4 || '/') \
         AND (NOT $5::boolean OR {alias}.outcome IN ('failed', 'aborted')) \
         AND (NOT $6::boolean OR {alias}.messages > 0)"
    )
}

/// The condition of a run at level 0: it has no parent in the list. `OFFSET 0` makes the server look up the
/// parent in the index on ids. Otherwise it would read all runs, or all runs of a host, for each child run.
fn top_condition() -> String {
    format!(
        "{} AND (r.parent_run_id IS NULL OR NOT EXISTS (SELECT FROM (SELECT * FROM midcourse.runs AS it \
         WHERE it.project = $1 AND it.run_id = r.parent_run_id OFFSET 0) AS parent WHERE {} OFFSET 0))",
        condition("r"),
        condition("parent")
    )
}

pub(super) fn list_runs(
    transaction: &mut Transaction<'_>,
    project: i32,
    filter: &RunFilter,
    after: RunCursor,
    count: usize,
) -> Result<(Vec<ListedRun>, RunCursor), FleetError> {
    let filter = Filter::new(project, filter);
    let (mut started, mut run) = after.place();
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    let query = format!(
        "SELECT r.header, r.started, r.run FROM midcourse.runs AS r \
         WHERE (r.started, r.run) < ($7, $8) AND {} \
         ORDER BY r.started DESC, r.run DESC LIMIT $9",
        top_condition()
    );
    let (mut last, mut top) = (after, Vec::new());
    // An empty page is the end of the list, so one with nothing but unreadable headers is skipped.
    while top.is_empty() {
        let rows = transaction.query(&query, &filter.and(&[&started, &run, &limit]))?;
        let Some(row) = rows.last() else { break };
        (started, run) = (row.get(1), row.get(2));
        last = RunCursor::after(started, run);
        top = readable(&rows);
    }
    let mut children: HashMap<RunId, Vec<RunHeader>> = HashMap::new();
    let mut parents: Vec<String> = top.iter().map(|it| it.run_id().as_str().to_owned()).collect();
    for _ in 0..MAX_LEVELS {
        if parents.is_empty() {
            break;
        }
        let rows = transaction.query(
            &format!(
                "SELECT r.header FROM midcourse.runs AS r WHERE r.parent_run_id = ANY ($7) AND {} \
                 ORDER BY r.started, r.run",
                condition("r")
            ),
            &filter.and(&[&parents]),
        )?;
        parents.clear();
        for child in readable(&rows) {
            parents.push(child.run_id().as_str().to_owned());
            if let Some(parent) = child.summary().parent_run_id {
                children.entry(parent).or_default().push(child);
            }
        }
    }
    let mut listed = Vec::new();
    for run in top {
        add_with_children(run, 0, &mut children, &mut listed);
    }
    Ok((listed, last))
}

/// Adds a run and its child runs. Each is taken out of `children`, so a cycle ends.
fn add_with_children(
    run: RunHeader,
    level: usize,
    children: &mut HashMap<RunId, Vec<RunHeader>>,
    listed: &mut Vec<ListedRun>,
) {
    let below = children.remove(run.run_id()).unwrap_or_default();
    listed.push(ListedRun { run: run.summary(), open_calls: run.open_calls, level });
    for child in below {
        add_with_children(child, level.saturating_add(1), children, listed);
    }
}

pub(super) fn count(
    transaction: &mut Transaction<'_>,
    project: i32,
    filter: &RunFilter,
) -> Result<u64, FleetError> {
    let filter = Filter::new(project, filter);
    let query = format!("SELECT count(*) FROM midcourse.runs AS r WHERE {}", top_condition());
    unsigned(&transaction.query_one(&query, &filter.and(&[]))?, 0)
}

const fn expression(order: RunOrder) -> &'static str {
    match order {
        RunOrder::Started => "r.started",
        RunOrder::Latest => "r.latest",
        RunOrder::Duration => "r.latest - r.started",
        RunOrder::Calls => "r.calls",
        RunOrder::Errors => "r.errors",
        RunOrder::Messages => "r.messages",
        RunOrder::Tokens => "r.tokens",
        RunOrder::Cost => "r.cost",
    }
}

pub(super) fn run_table(
    transaction: &mut Transaction<'_>,
    project: i32,
    query: &RunTableQuery,
) -> Result<(Vec<TableRun>, u64), FleetError> {
    let filter = Filter::new(project, &query.filter);
    let text = query.text.as_ref().map(|text| without_nul(text.to_ascii_lowercase()));
    let running = query.running_since.map(milliseconds);
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
    let limit = i64::try_from(query.count).unwrap_or(i64::MAX);
    // Upper and lower case are the same for the letters A to Z only, as on a machine.
    let contains = |column: &str| format!("position($8 IN lower(r.{column} COLLATE \"C\")) > 0");
    let matching = format!(
        "{} AND (r.parent_run_id IS NULL OR NOT EXISTS (SELECT FROM midcourse.runs AS parent \
         WHERE parent.project = $1 AND parent.run_id = r.parent_run_id AND parent.started IS NOT NULL OFFSET 0)) \
         AND ($7::bigint IS NULL OR r.ended IS NULL AND r.latest >= $7) \
         AND ($8::text IS NULL OR {} OR {} OR {} OR {})",
        condition("r"),
        contains("run_id"),
        contains("task"),
        contains("folder"),
        contains("model"),
    );
    let parameters: [&(dyn ToSql + Sync); 2] = [&running, &text];
    let total = transaction.query_one(
        &format!("SELECT count(*) FROM midcourse.runs AS r WHERE {matching}"),
        &filter.and(&parameters),
    )?;
    let direction = if query.is_ascending { "ASC" } else { "DESC" };
    // Without `NULLS LAST` where nothing is NULL, so that the index on the start is used.
    let order = match query.order {
        RunOrder::Started => format!("r.started {direction}, r.run {direction}"),
        order => format!(
            "{} {direction} NULLS LAST, r.started {direction}, r.run {direction}",
            expression(order)
        ),
    };
    // With the collation of the index on parents, or else the server reads all runs for each row.
    let rows = transaction.query(
        &format!(
            "SELECT r.header, (SELECT count(*) FROM midcourse.runs AS child \
             WHERE child.project = $1 AND child.parent_run_id = r.run_id COLLATE \"default\" \
             AND child.started IS NOT NULL) FROM midcourse.runs AS r WHERE {matching} \
             ORDER BY {order} LIMIT $9 OFFSET $10"
        ),
        &filter.and(&[&running, &text, &limit, &offset]),
    )?;
    let row = |row: &Row| Some(header(row)?.table_run(unsigned(row, 1).ok()?));
    Ok((rows.iter().filter_map(row).collect(), unsigned(&total, 0)?))
}

pub(super) fn family(
    transaction: &mut Transaction<'_>,
    project: i32,
    run_id: &RunId,
) -> Result<Vec<ReadRun>, FleetError> {
    let mut family: Vec<ReadRun> = Vec::new();
    if run_id.as_str().contains('\0') {
        return Ok(family);
    }
    let found = transaction.query(
        "SELECT header, level FROM midcourse.runs \
         WHERE project = $1 AND run_id = $2 AND header IS NOT NULL",
        &[&project, &run_id.as_str()],
    )?;
    for row in &found {
        family.push(read_run(row, 0)?);
    }
    let mut parents: Vec<String> =
        family.iter().map(|run| run.header.run_id().as_str().to_owned()).collect();
    for _ in 0..MAX_LEVELS {
        if parents.is_empty() {
            break;
        }
        let known: Vec<String> =
            family.iter().map(|run| run.header.run_id().as_str().to_owned()).collect();
        let rows = transaction.query(
            "SELECT header, level FROM midcourse.runs WHERE project = $1 \
             AND parent_run_id = ANY ($2) AND run_id <> ALL ($3) AND header IS NOT NULL \
             ORDER BY started, run",
            &[&project, &parents, &known],
        )?;
        parents.clear();
        for row in &rows {
            let Ok(child) = read_run(row, 0) else { continue };
            parents.push(child.header.run_id().as_str().to_owned());
            family.push(child);
        }
    }
    Ok(family)
}

pub(super) fn runs_between(
    transaction: &mut Transaction<'_>,
    project: i32,
    since: Timestamp,
    until: Timestamp,
) -> Result<Vec<ReadRun>, FleetError> {
    let rows = transaction.query(
        "SELECT header, level FROM midcourse.runs WHERE project = $1 AND started IS NOT NULL \
         AND latest >= $2 AND started < $3 ORDER BY started DESC, run DESC",
        &[&project, &milliseconds(since), &milliseconds(until)],
    )?;
    Ok(rows.iter().filter_map(|row| read_run(row, 0).ok()).collect())
}

/// The headers that can be read. A writer can ship a header that no release understands; that must not
/// keep anybody from the other runs of a list.
fn readable(rows: &[Row]) -> Vec<RunHeader> {
    rows.iter().filter_map(header).collect()
}

fn header(row: &Row) -> Option<RunHeader> {
    read_header(row, 0).ok()
}

fn milliseconds(at: Timestamp) -> i64 {
    i64::try_from(at.unix_ms()).unwrap_or(i64::MAX)
}
