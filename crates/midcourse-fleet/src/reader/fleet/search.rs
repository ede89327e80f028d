//! Which runs may contain some words.

use std::collections::{BTreeMap, HashMap, HashSet};

use midcourse::{ChainEntry, RunFilter, RunId};
use postgres::types::ToSql;
use postgres::{Row, Transaction};

use super::lists::{Filter, condition};
use super::{FleetReader, chains};
use crate::error::FleetError;
use crate::reader::rows::{Bodies, RECORD_COLUMNS, keys, record};
use crate::words::{Buckets, Candidates, Words};

/// The largest number of runs that are looked up at once.
const MAX_PAGE: usize = 200;

/// About how many records are read together to see whether they have all the words.
const MAX_RECORDS: u64 = 5_000;

/// The largest number of rows that one query returns. A writer chooses the buckets of its records, so a
/// bucket may have more records than expected.
const MAX_ROWS: usize = 20_000;

/// The records of a run are not checked if the words have more buckets than this in common: one of its
/// entries most likely has all the words.
const MAX_BUCKETS: u32 = 8;

/// A run that has all the words, but perhaps in different records and calls.
struct Found {
    run_id: RunId,
    run: i64,
    /// As the server writes a date.
    day: String,
    /// The buckets that all the words have in common. Only records in these can have all the words.
    buckets: Buckets,
    records: u64,
}

impl Found {
    /// About how many of its records are in the buckets.
    fn records_in_buckets(&self) -> u64 {
        let share = u64::from(self.buckets.count_ones()).saturating_mul(self.records);
        share.div_ceil(u64::from(Buckets::BITS))
    }

    /// Whether the buckets have so few records that reading them is worth it.
    fn has_few_candidates(&self) -> bool {
        self.buckets.count_ones() <= MAX_BUCKETS && self.records_in_buckets() <= MAX_RECORDS
    }
}

/// Up to `count` runs that may contain all the words, from the latest day to the oldest. `after` is the last
/// run of the page before.
pub(super) fn runs_with_words(
    reader: &mut FleetReader,
    words: &str,
    filter: &RunFilter,
    after: Option<&RunId>,
    count: usize,
) -> Result<Vec<RunId>, FleetError> {
    let wanted = Words::of(words);
    let mut before: (Option<String>, i64) = (None, i64::MAX);
    if let Some(after) = after {
        let project = reader.project;
        let find = "SELECT day::text, run FROM midcourse.runs WHERE project = $1 AND run_id = $2";
        let Some(row) = reader.client()?.query_opt(find, &[&project, &after.as_str()])? else {
            return Ok(Vec::new());
        };
        before = (Some(row.try_get(0)?), row.try_get(1)?);
    }
    let mut found = Vec::new();
    // Pages grow, because many runs are dropped if their words are rarely in one record.
    let mut page = count.clamp(1, MAX_PAGE);
    while found.len() < count && !wanted.is_empty() {
        let rows = reader.snapshot(|transaction, project| {
            let most = i32::try_from(page).unwrap_or(i32::MAX);
            let rows = transaction.query(
                "SELECT day::text, run, buckets \
                 FROM midcourse.runs_with($1, $2, $3::text::date, $4, $5)",
                &[&project, &wanted, &before.0, &before.1, &most],
            )?;
            Ok((filtered(transaction, &Filter::new(project, filter), &rows)?, rows))
        });
        let (passed, rows) = rows?;
        let Some(last) = rows.last() else { break };
        before = (Some(last.try_get(0)?), last.try_get(1)?);
        found.extend(with_candidates(reader, &wanted, passed)?);
        if rows.len() < page {
            break;
        }
        page = page.saturating_mul(2).min(MAX_PAGE);
    }
    found.truncate(count);
    Ok(found)
}

/// Those of the runs in these rows that pass the filter.
fn filtered(
    transaction: &mut Transaction<'_>,
    filter: &Filter,
    rows: &[Row],
) -> Result<Vec<Found>, FleetError> {
    let runs: Vec<i64> = rows.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>()?;
    let passed = transaction.query(
        &format!(
            "SELECT r.run, r.run_id, r.records FROM midcourse.runs AS r \
             WHERE r.run = ANY ($7) AND {}",
            condition("r")
        ),
        &filter.and(&[&runs]),
    )?;
    let passed: HashMap<i64, &Row> =
        passed.iter().map(|row| Ok((row.try_get(0)?, row))).collect::<Result<_, FleetError>>()?;
    let mut found = Vec::new();
    for row in rows {
        let run = row.try_get(1)?;
        let Some(passed) = passed.get(&run) else { continue };
        found.push(Found {
            run_id: RunId::from(passed.try_get::<_, String>(1)?),
            run,
            day: row.try_get(0)?,
            // The server returns no buckets for a single word: every record may have it.
            buckets: row.try_get::<_, Option<i64>>(2)?.unwrap_or(-1).cast_unsigned(),
            records: passed.try_get::<_, i64>(2)?.unsigned_abs(),
        });
    }
    Ok(found)
}

/// Those of the runs with a record or call that may have all the words.
fn with_candidates(
    reader: &mut FleetReader,
    wanted: &[i32],
    runs: Vec<Found>,
) -> Result<Vec<RunId>, FleetError> {
    let (mut kept, mut group, mut count) = (HashSet::new(), Vec::new(), 0_u64);
    for run in &runs {
        if !run.has_few_candidates() {
            kept.insert(run.run);
            continue;
        }
        count = count.saturating_add(run.records_in_buckets());
        group.push(run);
        if count >= MAX_RECORDS {
            kept.extend(candidates(reader, wanted, &std::mem::take(&mut group))?);
            count = 0;
        }
    }
    kept.extend(candidates(reader, wanted, &group)?);
    Ok(runs.into_iter().filter(|it| kept.contains(&it.run)).map(|it| it.run_id).collect())
}

/// Reads the records in the buckets, and returns the runs that may have all the words in one entry.
fn candidates(
    reader: &mut FleetReader,
    wanted: &[i32],
    runs: &[&Found],
) -> Result<Vec<i64>, FleetError> {
    let mut days: BTreeMap<&str, (Vec<i64>, Vec<i64>)> = BTreeMap::new();
    for found in runs {
        let (numbers, buckets) = days.entry(&found.day).or_default();
        numbers.push(found.run);
        buckets.push(found.buckets.cast_signed());
    }
    if days.is_empty() {
        return Ok(Vec::new());
    }
    let (mut queries, mut parameters) = (Vec::new(), Vec::<&(dyn ToSql + Sync)>::new());
    for (n, (day, (numbers, buckets))) in (1..).step_by(2).zip(&days) {
        queries.push(format!(
            "SELECT {RECORD_COLUMNS}, s.run, s.day::text \
             FROM unnest(${n}::bigint[], ${}::bigint[]) AS wanted (run, buckets) \
             JOIN midcourse.records AS s ON s.day = {} AND s.run = wanted.run \
             AND (wanted.buckets >> s.bucket) & 1 = 1",
            n + 1,
            chains::date(day)
        ));
        parameters.extend([numbers as &(dyn ToSql + Sync), buckets]);
    }
    // A transaction of its own, because the one before has read the table `words`: tables are locked in
    // the order of `make_day`, where `records` comes first.
    let (rows, texts) = reader.snapshot(|transaction, project| {
        let limited = format!("{} LIMIT {MAX_ROWS}", queries.join(" UNION ALL "));
        let rows = transaction.query(&limited, &parameters)?;
        let mut texts: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for row in &rows {
            // If the keys cannot be read, `may_match` keeps the run.
            let keys = keys(row).unwrap_or_default();
            texts.entry(chains::date(row.try_get(16)?)).or_default().extend(keys);
        }
        Ok((rows, chains::bodies(transaction, project, texts)?))
    })?;
    if rows.len() == MAX_ROWS {
        return Ok(runs.iter().map(|it| it.run).collect());
    }
    let mut by_run: HashMap<i64, Vec<Row>> = HashMap::new();
    for row in rows {
        by_run.entry(row.try_get(15)?).or_default().push(row);
    }
    by_run.retain(|_, rows| may_match(rows, &texts, wanted));
    Ok(by_run.into_keys().collect())
}

/// Whether one of the records, or a call among them, may have all the words. True if a record cannot be
/// read: the search then reads the run and reports the error.
fn may_match(rows: &[Row], texts: &Bodies, wanted: &[i32]) -> bool {
    let mut candidates = Candidates::new(wanted);
    for row in rows {
        let Ok(record) = record(row, texts) else { return true };
        candidates.add(&[ChainEntry::Record(record)]);
    }
    !candidates.into_seqs().is_empty()
}
