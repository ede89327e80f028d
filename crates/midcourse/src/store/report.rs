//! Further reports of an event that already has a record. The store keeps the fields that a report
//! adds to the record, or the whole report if it conflicts with the record.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::append::{Appended, RunHead, is_setting};
use super::chain::report_link;
use super::error::StoreError;
use super::prepare::PreparedRecord;
use super::{body, read};
use crate::dedupe::{Comparison, RecordStatus, compare};

/// How many conflicting reports of one event are kept; further ones are not stored.
const MAX_CONFLICTS: usize = 16;

/// Compares a further report of an event with its record, and stores what is new or conflicting.
pub(super) fn add(
    connection: &Connection,
    run: &RunHead,
    stored: read::StoredRecord,
    report: &PreparedRecord,
) -> Result<Appended, StoreError> {
    let reported = report.value()?;
    let same_source = stored.source == report.source;
    // If the record is from the same source as this report, compare the two without the fields that
    // other sources have added to the record.
    let known = stored.first_reported.as_ref().filter(|_| same_source).unwrap_or(&stored.value);
    let (status, payload) = match compare(known, &reported, same_source) {
        Comparison::Same => (RecordStatus::Duplicate, None),
        // If several processes report the configuration or deadline of a run, the first report
        // counts. A process that starts at the same time may compute a slightly later deadline;
        // that is not a conflict.
        _ if is_setting(&report.record.payload) => (RecordStatus::Duplicate, None),
        Comparison::Adds(added) => (RecordStatus::Merged, Some(Value::Object(added))),
        Comparison::Conflicts
            if stored.conflicts.contains(&reported) || stored.conflicts.len() >= MAX_CONFLICTS =>
        {
            (RecordStatus::Conflict, None)
        }
        Comparison::Conflicts => (RecordStatus::Conflict, Some(reported)),
    };
    let Some(payload) = payload else {
        return Ok(Appended::Existing(status, stored.into_record()));
    };
    let seq = i64::try_from(stored.seq).unwrap_or(i64::MAX);
    insert(connection, run, stored.seq, report, status, &payload)?;
    let record = read::record(connection, run.id, seq)?.unwrap_or(stored).into_record();
    Ok(Appended::Existing(status, record))
}

fn insert(
    connection: &Connection,
    run: &RunHead,
    seq: u64,
    report: &PreparedRecord,
    status: RecordStatus,
    payload: &Value,
) -> Result<(), StoreError> {
    let text = payload.to_string();
    let hash = *blake3::hash(text.as_bytes()).as_bytes();
    let (host, channel) = (report.source.host(), report.source.channel().as_str());
    let at = report.record.at().unix_ms();
    let link = report_link(&run.link, seq, at, host, channel, status.as_str(), &hash);
    connection
        .prepare_cached(
            "INSERT INTO reports (run, seq, after, at, host, channel, status, hash, zstd, link) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            run.id,
            i64::try_from(seq).unwrap_or(i64::MAX),
            run.next_seq,
            report.at_ms,
            host,
            channel,
            status.as_str(),
            hash,
            body::pack(&text)?,
            link.as_bytes(),
        ])?;
    connection
        .prepare_cached("UPDATE runs SET head = ?2, latest = max(latest, ?3) WHERE id = ?1")?
        .execute(params![run.id, link.as_bytes(), report.at_ms])?;
    Ok(())
}
