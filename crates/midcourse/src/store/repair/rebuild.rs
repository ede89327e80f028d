//! Writes the saved runs into a new database, with new links and gap markers.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use midcourse_core::{GapReason, Timestamp, TrajectoryPayload, TrajectoryRecord};
use rusqlite::{Connection, params};
use serde::Deserialize as _;

use super::super::append::{self, RunHead};
use super::super::call_failure::classify;
use super::super::chain::Link;
use super::super::error::StoreError;
use super::super::labels;
use super::super::prepare::PreparedRecord;
use super::super::read::Row;
use super::super::run_counts::RunCounts;
use super::super::schema;
use super::super::settings::{Durability, StoreSettings};
use super::super::summaries;
use super::choose::{Chosen, Item};
use super::rows::FullReport;
use crate::event::{Channel, Source};

/// Writes the runs, which come with their row ids, into the empty database in `file`. If two runs
/// have the same run id, the second gets a new one. `max_records` is the number of records that
/// were ever stored.
pub(super) fn rebuild(
    file: &Path,
    runs: &mut [(i64, Chosen)],
    max_records: u64,
) -> Result<(), StoreError> {
    let connection = schema::open(file, Durability::Normal, Duration::from_secs(5))?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    // Gap markers get greater row ids than any record had.
    let last = i64::try_from(max_records).unwrap_or(i64::MAX).min(1 << 48);
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('records', ?1)", [last])?;
    let (mut names, mut ids) = (HashSet::new(), HashSet::new());
    for (id, run) in runs.iter_mut() {
        while !names.insert(run.run_id.clone()) {
            run.run_id.push_str("-recovered");
        }
        write_run(&connection, *id, run, &mut ids)?;
    }
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    // The next process that opens the database must find one file without a log.
    connection.query_row("PRAGMA journal_mode=DELETE", [], |_| Ok(()))?;
    Ok(())
}

fn write_run(
    connection: &Connection,
    id: i64,
    run: &mut Chosen,
    ids: &mut HashSet<i64>,
) -> Result<(), StoreError> {
    let mut at = run.items.iter().find_map(Item::at).unwrap_or_default();
    let mut head = begin(connection, id, run, at)?;
    let errors = run.items.iter().filter(|item| item.has_failed()).count();
    let is_counted = run.row.as_ref().is_some_and(|row| usize::try_from(row.errors) == Ok(errors));
    for item in &mut run.items {
        at = item.at().unwrap_or(at);
        match item {
            Item::Record(record) => {
                if !ids.insert(record.id) {
                    // Because of the damage, two records have the same row id. SQLite gives this
                    // one a new id.
                    record.id = 0;
                }
                if !is_counted {
                    // The hash chain does not cover `failed`, and the run's error count does not
                    // confirm it. So compute it again.
                    let payload = TrajectoryPayload::deserialize(record.value()?).ok();
                    let failed = payload.map(|payload| classify(connection, head.id, &payload));
                    record.failed = failed.transpose()?.flatten();
                }
                if !write_record(connection, &mut head, record)? {
                    let seq = record.seq;
                    *item = Item::Lost(seq);
                    write_gap_marker(connection, &mut head, at, seq)?;
                }
            }
            Item::Report(report) => write_report(connection, &mut head, report)?,
            Item::Lost(seq) => write_gap_marker(connection, &mut head, at, *seq)?,
        }
    }
    run.labels.iter().try_for_each(|label| labels::insert(connection, head.id, label))
}

fn begin(connection: &Connection, id: i64, run: &Chosen, at: u64) -> Result<RunHead, StoreError> {
    let (link, row) = (Link::genesis(&run.run_id), run.row.as_ref());
    let host = run.items.iter().find_map(|item| match item {
        Item::Record(record) => Some(record.host.as_str()),
        _ => None,
    });
    let at = i64::try_from(at).unwrap_or_default();
    let (started, latest) = match row {
        Some(row) if run.items.is_empty() => (row.started, row.latest),
        _ => (at, at),
    };
    connection.execute(
        "INSERT INTO runs (id, run_id, parent_run_id, depth, conversation_id, host, started, latest, \
         next_seq, head, calls, errors, deliveries) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, 0, 0, 0)",
        params![
            id,
            run.run_id,
            row.and_then(|row| row.parent_run_id.as_deref()),
            row.map_or(0, |row| row.depth),
            row.and_then(|row| row.conversation_id.as_deref()),
            row.map(|row| row.host.as_str()).or(host).unwrap_or("unknown"),
            started.max(0),
            latest.max(0),
            link.as_bytes(),
        ],
    )?;
    summaries::begin(connection, id)?;
    Ok(RunHead { id, next_seq: 0, link })
}

/// Writes a record at its seq. Returns `false`, and writes nothing, if the record conflicts with
/// one that is already written. Only an unchecked record can conflict.
fn write_record(
    connection: &Connection,
    head: &mut RunHead,
    row: &Row,
) -> Result<bool, StoreError> {
    let link = row.link_at(&head.link, row.seq);
    let (seq, at) = (head.next_seq, i64::try_from(row.at).unwrap_or(i64::MAX));
    let written = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO records (id, run, seq, at, kind, fact, host, channel, \
             decision_point, schema_version, redactions, payload, link, failed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            Some(row.id).filter(|id| *id > 0),
            head.id,
            seq,
            at,
            row.kind,
            row.fact,
            row.host,
            row.channel,
            row.decision_point,
            row.schema_version,
            row.redactions,
            row.payload,
            link.as_bytes(),
            row.failed,
        ])?;
    if written == 0 {
        return Ok(false);
    }
    let id = connection.last_insert_rowid();
    for body in &row.bodies {
        connection
            .prepare_cached(
                "INSERT OR IGNORE INTO bodies (hash, length, zstd) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![body.hash, body.length, body.zstd])?;
        connection
            .prepare_cached(
                "INSERT INTO record_bodies (record, pointer, body) \
                 SELECT ?1, ?2, id FROM bodies WHERE hash = ?3",
            )?
            .execute(params![id, body.pointer, body.hash])?;
    }
    head.next_seq = seq.saturating_add(1);
    head.link = link;
    let payload = TrajectoryPayload::deserialize(row.value()?).ok();
    let counts = payload.as_ref().map(|payload| RunCounts::of(payload, row.failed));
    counts.unwrap_or_default().add(connection, head, at)?;
    if let Some(payload) = &payload {
        summaries::add(connection, head, payload)?;
    }
    Ok(true)
}

fn write_gap_marker(
    connection: &Connection,
    head: &mut RunHead,
    at: u64,
    seq: u64,
) -> Result<(), StoreError> {
    let gap = TrajectoryPayload::Gap { lost: 1, reason: GapReason::Damage };
    let record = TrajectoryRecord::new(seq, Timestamp::from_unix_ms(at), gap);
    let source = Source::new("midcourse", Channel::Store);
    let mut prepared = PreparedRecord::new(record, source, &StoreSettings::default())?;
    prepared.fact = Some(format!("damage:{seq}").into());
    append::insert(connection, head, &prepared).map(drop)
}

fn write_report(
    connection: &Connection,
    head: &mut RunHead,
    report: &FullReport,
) -> Result<(), StoreError> {
    let row = &report.row;
    let link = row.link_at(&head.link, row.seq);
    let at = i64::try_from(row.at).unwrap_or(i64::MAX);
    connection.execute(
        "INSERT INTO reports (run, seq, after, at, host, channel, status, hash, zstd, link) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            head.id,
            i64::try_from(row.seq).unwrap_or(i64::MAX),
            head.next_seq,
            at,
            row.host,
            row.channel,
            row.status,
            row.hash,
            report.zstd,
            link.as_bytes(),
        ],
    )?;
    connection.execute(
        "UPDATE runs SET head = ?2, latest = max(latest, ?3) WHERE id = ?1",
        params![head.id, link.as_bytes(), at],
    )?;
    head.link = link;
    Ok(())
}

impl Item {
    fn at(&self) -> Option<u64> {
        if let Self::Record(row) = self { Some(row.at) } else { None }
    }

    fn has_failed(&self) -> bool {
        matches!(self, Self::Record(row) if row.failed == Some(true))
    }
}
