//! Parts of the hash chains of runs, from the tables of a fleet.

use std::collections::{BTreeMap, HashMap};

use midcourse::{ChainEntry, ChainLimit, ChainPart, ChainPosition, ChainRecord, RunHeader, RunId};
use postgres::Transaction;
use postgres::types::ToSql;

use crate::error::FleetError;
use crate::reader::ReadRun;
use crate::reader::rows::{
    Bodies, RECORD_COLUMNS, REPORT_COLUMNS, in_order, keys, read_run, record, report, unsigned,
};

/// Where the rows of a run are.
#[derive(Debug, Clone)]
struct RunPlace {
    run: i64,
    /// As the server writes a date.
    day: String,
}

impl RunPlace {
    fn date(&self) -> String {
        date(&self.day)
    }
}

/// A day, as the server has written it, as SQL. A parameter would make the server plan with all
/// partitions.
pub(super) fn date(day: &str) -> String {
    format!("DATE '{}'", day.replace('\'', ""))
}

/// Reads a part of a run's hash chain. The run ends where its header says, even if more was shipped
/// since: the rest has no header yet.
pub(super) fn chain(
    transaction: &mut Transaction<'_>,
    project: i32,
    run_id: &RunId,
    from: &ChainPosition,
    limit: ChainLimit,
) -> Result<ChainPart, FleetError> {
    let found = places(transaction, project, std::slice::from_ref(run_id))?;
    let (place, run) = found.into_iter().next().ok_or_else(|| gone(run_id))?;
    chain_of(transaction, project, &place, run.header, from, limit)
}

/// The first parts of runs. Runs of usual length are read together: one at a time, a search would mostly
/// wait for the network.
pub(super) fn chains(
    transaction: &mut Transaction<'_>,
    project: i32,
    runs: &[RunId],
    limit: ChainLimit,
) -> Result<Vec<(ReadRun, ChainPart)>, FleetError> {
    let mut chains = Vec::with_capacity(runs.len());
    let (mut group, mut count) = (Vec::new(), 0_u64);
    for (place, run) in places(transaction, project, runs)? {
        let end = run.header.end();
        if end.records > PAGE || end.reports > 0 {
            let (header, start) = (run.header.clone(), ChainPosition::start(run.header.run_id()));
            let part = chain_of(transaction, project, &place, header, &start, limit)?;
            chains.push((run, part));
            continue;
        }
        if count.saturating_add(end.records) > MAX_GROUP_RECORDS {
            chains.extend(read_group(transaction, project, std::mem::take(&mut group))?);
            count = 0;
        }
        count = count.saturating_add(end.records);
        group.push((place, run));
    }
    chains.extend(read_group(transaction, project, group)?);
    Ok(chains)
}

/// How many records are read together with those of other runs.
const MAX_GROUP_RECORDS: u64 = 5_000;

/// Reads whole runs without reports.
fn read_group(
    transaction: &mut Transaction<'_>,
    project: i32,
    group: Vec<(RunPlace, ReadRun)>,
) -> Result<Vec<(ReadRun, ChainPart)>, FleetError> {
    if group.is_empty() {
        return Ok(Vec::new());
    }
    let queries = group.iter().map(|(place, run)| {
        let (date, run, end) = (place.date(), place.run, run.header.end().records);
        format!(
            "(SELECT {RECORD_COLUMNS}, s.run FROM midcourse.records AS s \
             WHERE s.day = {date} AND s.run = {run} AND s.seq < {end} ORDER BY s.seq)"
        )
    });
    let rows = transaction.query(&queries.collect::<Vec<_>>().join(" UNION ALL "), &[])?;
    let mut by_run: HashMap<i64, Vec<postgres::Row>> = HashMap::new();
    for row in rows {
        by_run.entry(row.try_get(15)?).or_default().push(row);
    }
    let mut wanted: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (place, _) in &group {
        for row in by_run.get(&place.run).into_iter().flatten() {
            let keys = keys(row)?;
            if !keys.is_empty() {
                wanted.entry(place.date()).or_default().extend(keys);
            }
        }
    }
    let bodies = bodies(transaction, project, wanted)?;
    let mut chains = Vec::with_capacity(group.len());
    for (place, run) in group {
        let rows = by_run.remove(&place.run).unwrap_or_default();
        let records = rows.iter().map(|row| record(row, &bodies));
        let entries = in_order(records.collect::<Result<_, _>>()?, Vec::new());
        let end = end_of(ChainPosition::start(run.header.run_id()), &entries);
        let part = ChainPart { header: run.header.clone(), entries, end };
        chains.push((run, part));
    }
    Ok(chains)
}

/// Where runs are, with their headers, in the order of the ids.
fn places(
    transaction: &mut Transaction<'_>,
    project: i32,
    runs: &[RunId],
) -> Result<Vec<(RunPlace, ReadRun)>, FleetError> {
    let ids: Vec<&str> =
        runs.iter().map(RunId::as_str).filter(|run_id| !run_id.contains('\0')).collect();
    let rows = transaction.query(
        "SELECT run, day::text, header, level FROM midcourse.runs \
         WHERE project = $1 AND run_id = ANY ($2) AND header IS NOT NULL \
         ORDER BY array_position($2, run_id)",
        &[&project, &ids],
    )?;
    // Runs whose headers cannot be read are left out. `family` reports the error of such a run.
    let place = |row: &postgres::Row| {
        let run = read_run(row, 2).ok()?;
        Some((RunPlace { run: row.get(0), day: row.get(1) }, run))
    };
    Ok(rows.iter().filter_map(place).collect())
}

fn gone(run_id: &RunId) -> FleetError {
    FleetError::Run(format!("there is no run {run_id} in the fleet any more"))
}

fn has_day(transaction: &mut Transaction<'_>, place: &RunPlace) -> Result<bool, FleetError> {
    let row = transaction.query_one(
        "SELECT to_regclass('midcourse.records' || to_char($1::text::date, '_YYYYMMDD')) IS NOT NULL",
        &[&place.day],
    )?;
    Ok(row.try_get(0)?)
}

fn chain_of(
    transaction: &mut Transaction<'_>,
    project: i32,
    place: &RunPlace,
    header: RunHeader,
    from: &ChainPosition,
    limit: ChainLimit,
) -> Result<ChainPart, FleetError> {
    let end = header.end();
    let most = u64::try_from(limit.entries).unwrap_or(u64::MAX);
    let last = from.records.saturating_add(most).min(end.records);
    let (records, size) = records(transaction, project, place, [from.records, last], limit.bytes)?;
    // A dropped day is gone at once, also from a snapshot in which its runs are still listed.
    if records.is_empty() && from.records < last && !has_day(transaction, place)? {
        return Err(gone(header.run_id()));
    }
    // Fewer records than asked for, because they are large.
    let read_up_to = records.last().map_or(from.records, |it| it.seq.saturating_add(1));
    let is_whole = size < limit.bytes || read_up_to == last;
    let last = if is_whole { last } else { read_up_to };
    let reports = match from.reports < end.reports {
        true => reports(transaction, place, from.reports, last, end)?,
        false => Vec::new(),
    };
    let entries = in_order(records, reports);
    let end = end_of(*from, &entries);
    Ok(ChainPart { header, entries, end })
}

/// The position after entries.
fn end_of(mut position: ChainPosition, entries: &[ChainEntry]) -> ChainPosition {
    for entry in entries {
        // A broken chain is read to its end: `verify` says where it is broken.
        position = position.after(entry).unwrap_or_else(|_| match entry {
            ChainEntry::Record(it) => ChainPosition {
                records: it.seq.saturating_add(1),
                reports: position.reports,
                link: it.link,
            },
            ChainEntry::Report(it) => ChainPosition {
                records: position.records,
                reports: it.ordinal.saturating_add(1),
                link: it.link,
            },
        });
    }
    position
}

/// How many records are read with one query.
const PAGE: u64 = 1_000;

/// The records of a run from a seq on, before another one, until they have this many bytes; and how many
/// bytes they have.
fn records(
    transaction: &mut Transaction<'_>,
    project: i32,
    place: &RunPlace,
    [from, end]: [u64; 2],
    most_bytes: usize,
) -> Result<(Vec<ChainRecord>, usize), FleetError> {
    let (mut found, mut size, mut next) = (Vec::new(), 0_usize, from);
    while next < end && size < most_bytes {
        let until = next.saturating_add(PAGE).min(end);
        let rows = transaction.query(
            &format!(
                "SELECT {RECORD_COLUMNS} FROM midcourse.records AS s WHERE s.day = {} \
                 AND s.run = $1 AND s.seq >= $2 AND s.seq < $3 ORDER BY s.seq",
                place.date()
            ),
            &[&place.run, &signed(next), &signed(until)],
        )?;
        let mut wanted = Vec::new();
        for row in &rows {
            wanted.extend(keys(row)?);
        }
        let wanted = BTreeMap::from([(place.date(), wanted)]);
        let bodies = bodies(transaction, project, wanted)?;
        for row in &rows {
            let record = record(row, &bodies)?;
            let texts: usize = record.bodies.iter().map(|body| body.zstd.len()).sum();
            size = size.saturating_add(record.payload.len()).saturating_add(texts);
            found.push(record);
            if size >= most_bytes {
                return Ok((found, size));
            }
        }
        next = until;
    }
    Ok((found, size))
}

/// The long texts with these keys, by the dates of their days.
pub(super) fn bodies(
    transaction: &mut Transaction<'_>,
    project: i32,
    mut wanted: BTreeMap<String, Vec<Vec<u8>>>,
) -> Result<Bodies, FleetError> {
    wanted.retain(|_, keys| !keys.is_empty());
    if wanted.is_empty() {
        return Ok(Bodies::new());
    }
    let mut queries = Vec::new();
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&project];
    for (n, (date, keys)) in (2..).zip(&mut wanted) {
        keys.sort_unstable();
        keys.dedup();
        queries.push(format!(
            "SELECT key, length, zstd FROM midcourse.bodies \
             WHERE day = {date} AND project = $1 AND key = ANY (${n})"
        ));
        parameters.push(keys);
    }
    let rows = transaction.query(&queries.join(" UNION ALL "), &parameters)?;
    let body = |row: &postgres::Row| Ok((row.try_get(0)?, (unsigned(row, 1)?, row.try_get(2)?)));
    rows.iter().map(body).collect()
}

fn reports(
    transaction: &mut Transaction<'_>,
    place: &RunPlace,
    from: u64,
    last: u64,
    end: ChainPosition,
) -> Result<Vec<midcourse::ChainReport>, FleetError> {
    if from >= end.reports {
        return Ok(Vec::new());
    }
    // Those after the last record that is read belong to the next part, unless this is the last one.
    let before = if last >= end.records { i64::MAX } else { signed(last) };
    let rows = transaction.query(
        &format!(
            "SELECT {REPORT_COLUMNS} FROM midcourse.reports WHERE day = {} AND run = $1 \
             AND ordinal >= $2 AND ordinal < $3 AND after < $4 ORDER BY ordinal",
            place.date()
        ),
        &[&place.run, &signed(from), &signed(end.reports), &before],
    )?;
    rows.iter().map(report).collect()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
