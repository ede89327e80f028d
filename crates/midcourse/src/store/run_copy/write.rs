//! Writes copies of runs into the store, byte for byte.
//!
//! The records of a copy keep their seqs and links, so that the copy can be checked like the run that
//! it was made from. They are not redacted again: that was done when they were first stored.

use rusqlite::{Connection, params};

use super::{ChainEntry, ChainPosition, ChainRecord, ChainReport, RunHeader};
use crate::store::append::{insert_body, run_head};
use crate::store::body::Body;
use crate::store::error::StoreError;
use crate::store::summary::Facts;
use crate::store::{Store, labels, summaries};

impl Store {
    /// Adds entries to the copy of a run, which begins with the first of them, and replaces its header.
    /// The entries must continue the copy: the caller has checked their links, or wants to see where
    /// they are broken. The counts of the header are those of the run with all entries.
    pub fn add_to_copy(
        &mut self,
        header: &RunHeader,
        entries: &[ChainEntry],
    ) -> Result<(), StoreError> {
        self.write(|connection| {
            let run = save_header(connection, header)?;
            for entry in entries {
                match entry {
                    ChainEntry::Record(record) => insert_record(connection, run, record)?,
                    ChainEntry::Report(report) => insert_report(connection, run, report)?,
                }
            }
            Ok(())
        })
    }

    /// Adds complete runs in one transaction. Each entry is checked; a broken chain, or a run that is
    /// already stored, adds nothing.
    pub fn add_copies(&mut self, runs: &[(RunHeader, Vec<ChainEntry>)]) -> Result<(), StoreError> {
        for (header, entries) in runs {
            let mut end = ChainPosition::start(header.run_id());
            for entry in entries {
                let broken = |error: super::BrokenChain| {
                    StoreError::Damaged(format!("{}: {error}", header.run_id()))
                };
                end = end.after(entry).map_err(broken)?;
            }
            if end != header.end() {
                let what = format!("{}: the copy is not complete", header.run_id());
                return Err(StoreError::Damaged(what));
            }
        }
        self.write(|connection| {
            for (header, entries) in runs {
                if run_head(connection, header.run_id().as_str())?.is_some() {
                    let what = format!("the run {} is already in the store", header.run_id());
                    return Err(StoreError::Rejected(what));
                }
                let run = save_header(connection, header)?;
                for entry in entries {
                    match entry {
                        ChainEntry::Record(record) => insert_record(connection, run, record)?,
                        ChainEntry::Report(report) => insert_report(connection, run, report)?,
                    }
                }
            }
            Ok(())
        })
    }
}

/// Inserts or replaces the rows of a run, and returns its row id. Of two labels of a place, the newer
/// one stays.
fn save_header(connection: &Connection, header: &RunHeader) -> Result<i64, StoreError> {
    let summary = &header.summary;
    let ms = |at: midcourse_core::Timestamp| signed(at.unix_ms());
    connection
        .prepare_cached(
            "INSERT INTO runs (run_id, parent_run_id, depth, conversation_id, host, started, latest, \
             ended, outcome, next_seq, head, calls, errors, deliveries) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
             ON CONFLICT (run_id) DO UPDATE SET parent_run_id = ?2, depth = ?3, \
             conversation_id = ?4, host = ?5, started = ?6, latest = ?7, ended = ?8, outcome = ?9, \
             next_seq = ?10, head = ?11, calls = ?12, errors = ?13, deliveries = ?14",
        )?
        .execute(params![
            summary.run_id.as_str(),
            summary.parent_run_id.as_ref().map(|parent| parent.as_str()),
            signed(header.depth),
            header.conversation_id,
            summary.host,
            ms(summary.started),
            ms(summary.latest),
            summary.ended.map(ms),
            summary.reported_outcome,
            signed(summary.records),
            header.link.as_bytes(),
            signed(summary.calls),
            signed(summary.errors),
            signed(summary.deliveries),
        ])?;
    let head = run_head(connection, summary.run_id.as_str())?;
    let run = head.map(|head| head.id).ok_or_else(|| {
        StoreError::Damaged("the row of a run is missing after it was written".to_owned())
    })?;
    connection.execute("DELETE FROM summaries WHERE run = ?1", [run])?;
    if header.has_summary {
        let facts = Facts {
            task: summary.task.clone(),
            folder: summary.folder.clone(),
            command: summary.command.clone(),
            host_version: summary.host_version.clone(),
            model: summary.model.clone(),
            exit_code: summary.exit_code,
            answered: header.answered,
            responded: header.responded,
            tokens: summary.tokens,
            cost: summary.cost,
            shadow_deliveries: summary.shadow_deliveries,
            cleared: summary.cleared,
            ignored: summary.ignored,
        };
        summaries::replace(connection, run, &facts, &summary.findings, header.engine)?;
    }
    header.labels.iter().try_for_each(|label| labels::insert_newer(connection, run, label))?;
    Ok(run)
}

fn insert_record(connection: &Connection, run: i64, it: &ChainRecord) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO records (run, seq, at, kind, fact, host, channel, decision_point, \
             schema_version, redactions, payload, link, failed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            run,
            signed(it.seq),
            signed(it.at),
            it.kind,
            it.fact,
            it.host,
            it.channel,
            it.decision_point,
            it.schema_version,
            it.redactions,
            it.payload,
            it.link.as_bytes(),
            it.failed,
        ])
        .map_err(copied)?;
    let row = connection.last_insert_rowid();
    for body in &it.bodies {
        let length = usize::try_from(body.length).unwrap_or(usize::MAX);
        let (pointer, bytes) = (body.pointer.clone(), body.zstd.clone());
        insert_body(connection, row, &Body { pointer, hash: body.hash, length, bytes })?;
    }
    Ok(())
}

fn insert_report(connection: &Connection, run: i64, it: &ChainReport) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO reports (run, seq, after, at, host, channel, status, hash, zstd, link) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            run,
            signed(it.seq),
            signed(it.after),
            signed(it.at),
            it.host,
            it.channel,
            it.status,
            it.hash,
            it.zstd,
            it.link.as_bytes(),
        ])
        .map_err(copied)?;
    Ok(())
}

/// Turns a violated constraint into damage: a store never has two records with the same fact key, for
/// example.
fn copied(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => StoreError::Damaged(error.to_string()),
        _ => error.into(),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
