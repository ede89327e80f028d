//! Rows of a fleet's tables as entries of hash chains.

use std::collections::HashMap;

use midcourse::{ChainBody, ChainEntry, ChainRecord, ChainReport, Link, RunHeader};
use postgres::Row;

use super::ReadRun;
use crate::error::FleetError;
use crate::ship::Level;

/// The columns of the table `records` that [`record`] reads.
pub(super) const RECORD_COLUMNS: &str = "s.seq, s.at, s.kind, s.fact, s.host, s.channel, \
     s.decision_point, s.schema_version, s.redactions, s.failed, s.payload, s.link, s.pointers, \
     s.hashes, s.keys";

/// The columns of the table `reports` that [`report`] reads.
pub(super) const REPORT_COLUMNS: &str =
    "ordinal, seq, after, at, host, channel, status, hash, link, zstd";

/// Long texts by key: the length, and the compressed text.
pub(super) type Bodies = HashMap<Vec<u8>, (u64, Vec<u8>)>;

/// The keys of the long texts of a record.
pub(super) fn keys(row: &Row) -> Result<Vec<Vec<u8>>, FleetError> {
    Ok(row.try_get::<_, Option<Vec<Vec<u8>>>>(14)?.unwrap_or_default())
}

pub(super) fn record(row: &Row, bodies: &Bodies) -> Result<ChainRecord, FleetError> {
    let list = |column| -> Result<Vec<Vec<u8>>, FleetError> {
        Ok(row.try_get::<_, Option<Vec<Vec<u8>>>>(column)?.unwrap_or_default())
    };
    let (pointers, hashes) = (list(12)?, list(13)?);
    let mut texts = Vec::with_capacity(pointers.len());
    for ((pointer, hash), key) in pointers.into_iter().zip(hashes).zip(keys(row)?) {
        // Without its text, the record is shown as damaged.
        let (length, zstd) = bodies.get(&key).cloned().unwrap_or_default();
        texts.push(ChainBody { pointer: text(pointer)?, hash: hash32(&hash)?, length, zstd });
    }
    Ok(ChainRecord {
        seq: unsigned(row, 0)?,
        at: unsigned(row, 1)?,
        kind: row.try_get(2)?,
        fact: row.try_get::<_, Option<Vec<u8>>>(3)?.map(text).transpose()?,
        host: row.try_get(4)?,
        channel: row.try_get(5)?,
        decision_point: row.try_get(6)?,
        schema_version: row.try_get::<_, i32>(7)?.unsigned_abs(),
        redactions: row.try_get::<_, i32>(8)?.unsigned_abs(),
        failed: row.try_get(9)?,
        payload: row.try_get(10)?,
        link: Link::from(hash32(row.try_get(11)?)?),
        bodies: texts,
    })
}

pub(super) fn report(row: &Row) -> Result<ChainReport, FleetError> {
    Ok(ChainReport {
        ordinal: unsigned(row, 0)?,
        seq: unsigned(row, 1)?,
        after: unsigned(row, 2)?,
        at: unsigned(row, 3)?,
        host: row.try_get(4)?,
        channel: row.try_get(5)?,
        status: row.try_get(6)?,
        hash: hash32(row.try_get(7)?)?,
        link: Link::from(hash32(row.try_get(8)?)?),
        zstd: row.try_get(9)?,
    })
}

/// Records and reports in the order of the hash chain.
pub(super) fn in_order(records: Vec<ChainRecord>, reports: Vec<ChainReport>) -> Vec<ChainEntry> {
    let mut entries = Vec::with_capacity(records.len().saturating_add(reports.len()));
    let mut reports = reports.into_iter().peekable();
    for record in records {
        while let Some(report) = reports.next_if(|report| report.after <= record.seq) {
            entries.push(ChainEntry::Report(report));
        }
        entries.push(ChainEntry::Record(record));
    }
    entries.extend(reports.map(ChainEntry::Report));
    entries
}

/// The run in a row that has the header in this column and the level in the next one.
pub(super) fn read_run(row: &Row, column: usize) -> Result<ReadRun, FleetError> {
    let header = read_header(row, column)?;
    let is_full = row.try_get::<_, &str>(column.saturating_add(1))? == Level::Full.as_str();
    let level = if is_full { Level::Full } else { Level::Metadata };
    Ok(ReadRun { header, level })
}

/// The header in a column. Fails for JSON that Postgres accepts and `serde_json` does not, such as `1e400`.
pub(super) fn read_header(row: &Row, column: usize) -> Result<RunHeader, FleetError> {
    let header: serde_json::Value = row.try_get(column)?;
    serde_json::from_value(header)
        .map_err(|error| FleetError::Server(format!("a header cannot be read: {error}")))
}

pub(super) fn unsigned(row: &Row, column: usize) -> Result<u64, FleetError> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number)
        .map_err(|_| FleetError::Server("a number that counts something is negative".to_owned()))
}

fn hash32(bytes: &[u8]) -> Result<[u8; 32], FleetError> {
    bytes.try_into().map_err(|_| FleetError::Server("a hash has not 32 bytes".to_owned()))
}

fn text(bytes: Vec<u8>) -> Result<String, FleetError> {
    String::from_utf8(bytes).map_err(|_| FleetError::Server("a text is not valid UTF-8".to_owned()))
}
