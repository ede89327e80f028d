//! Reading records: rows, their long texts, and the fields that further reports added.
//!
//! An event may be reported several times; the first report becomes the record, and further reports
//! may add fields. A [`Row`] is one row of the `records` table; a [`StoredRecord`] also has the
//! long texts and the added fields. Every function here reads all rows of a query before it
//! returns: an open query would prevent other processes from truncating SQLite's write-ahead log.

use midcourse_core::{DecisionPoint, RunId, Timestamp, TrajectoryPayload, TrajectoryRecord};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::body;
use super::chain::{Link, RecordFields, record_link, report_link};
use super::error::StoreError;
use crate::dedupe::merge;
use crate::event::{Channel, Source};

/// A row of the `records` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) seq: u64,
    pub(super) at: u64,
    pub(super) kind: String,
    pub(super) fact: Option<String>,
    pub(super) host: String,
    pub(super) channel: String,
    pub(super) decision_point: Option<String>,
    pub(super) schema_version: u32,
    pub(super) redactions: u32,
    pub(super) failed: Option<bool>,
    pub(super) payload: String,
    pub(super) link: Link,
    pub(super) bodies: Vec<BodyRow>,
}

/// A long text of a record, still compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BodyRow {
    pub(super) pointer: String,
    pub(super) hash: Vec<u8>,
    pub(super) length: i64,
    pub(super) zstd: Vec<u8>,
}

/// A further report of an event that already has a record: a row of the `reports` table, without
/// the text that was reported.
#[derive(Debug, Clone)]
pub(super) struct ReportRow {
    pub(super) id: i64,
    pub(super) seq: u64,
    pub(super) after: u64,
    pub(super) at: u64,
    pub(super) host: String,
    pub(super) channel: String,
    pub(super) status: String,
    pub(super) hash: Vec<u8>,
    pub(super) link: Link,
}

/// A complete record: with its long texts and the fields that further reports added.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    /// The run of the record.
    pub run: RunKey,
    /// The record's position in the run, from 0.
    pub seq: u64,
    /// When the event happened.
    pub at: Timestamp,
    /// The schema version of the payload.
    pub schema_version: u32,
    /// Where the first report of the event came from.
    pub source: Source,
    /// The moment of the agent's turn at which a message about the event could be shown to the
    /// agent. `None` if no message was possible when the event was recorded.
    pub decision_point: Option<DecisionPoint>,
    /// The key by which another report of the same event is recognised, if there is one.
    pub fact: Option<String>,
    /// The number of secrets that were redacted in this record.
    pub redactions: u32,
    /// Whether the call that this record ends has failed or was refused; `None` if it does not end
    /// a call. The payload says only what the host reported.
    pub failed: Option<bool>,
    /// The payload as JSON, with the fields that further reports added.
    pub value: Value,
    /// The payload of the first report; `None` if no further report added fields.
    pub first_reported: Option<Value>,
    /// Other payloads that the same source reported for this event.
    pub conflicts: Vec<Value>,
}

/// A seq, with the record at that seq or the reason why it cannot be read.
pub type RecordAtSeq = (u64, Result<StoredRecord, StoreError>);

/// The identity of a run as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunKey {
    /// The run's id.
    pub run_id: RunId,
    /// The run that started this one, if it is a child run.
    pub parent_run_id: Option<RunId>,
    /// 0 for a run that a person started, 1 for its subagents, and so on.
    pub depth: usize,
}

impl Row {
    /// The hash that this record must have if it is at `seq` and follows the hash `head`.
    pub(super) fn link_at(&self, head: &Link, seq: u64) -> Link {
        record_link(
            head,
            &RecordFields {
                seq,
                at: self.at,
                kind: &self.kind,
                fact: self.fact.as_deref(),
                host: &self.host,
                channel: &self.channel,
                decision_point: self.decision_point.as_deref(),
                schema_version: self.schema_version,
                redactions: self.redactions,
                payload: &self.payload,
            },
            self.bodies.iter().map(|body| (body.pointer.as_str(), body.hash.as_slice())),
        )
    }

    /// The payload as JSON, with its long texts put back.
    pub(super) fn value(&self) -> Result<Value, StoreError> {
        let damaged = |why: String| StoreError::Damaged(format!("record {}: {why}", self.seq));
        let mut value: Value =
            serde_json::from_str(&self.payload).map_err(|error| damaged(error.to_string()))?;
        for body in &self.bodies {
            let length = usize::try_from(body.length).unwrap_or(usize::MAX);
            body::put_back(&mut value, &body.pointer, &body.hash, length, &body.zstd)
                .map_err(|error| damaged(format!("the text at {}: {error}", body.pointer)))?;
        }
        Ok(value)
    }
}

impl BodyRow {
    /// Whether the text can be decompressed and matches its hash.
    pub(super) fn is_whole(&self) -> bool {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        body::unpack(&self.hash, length, &self.zstd).is_ok()
    }
}

impl ReportRow {
    /// The hash that this report must have if it is about the record at `seq` and follows the hash
    /// `head`.
    pub(super) fn link_at(&self, head: &Link, seq: u64) -> Link {
        report_link(head, seq, self.at, &self.host, &self.channel, &self.status, &self.hash)
    }
}

impl StoredRecord {
    /// Converts to the engine's record type. A payload that this release cannot read, for example
    /// of a kind that a newer release added, becomes `Unread`.
    pub fn into_record(self) -> TrajectoryRecord {
        let payload = TrajectoryPayload::deserialize(&self.value).unwrap_or_else(|_| {
            let host = self.source.host().to_owned();
            TrajectoryPayload::Unread { host, raw: self.value.to_string() }
        });
        TrajectoryRecord {
            schema_version: self.schema_version,
            seq: self.seq,
            run_id: Some(self.run.run_id),
            parent_run_id: self.run.parent_run_id,
            depth: self.run.depth,
            recorded_at_unix_ms: self.at,
            payload,
        }
    }

    /// The record as one JSON object: the fields of a `TrajectoryRecord`, and those that only the
    /// store has, such as `host` and `channel`. Fields without a value are left out.
    pub fn to_json(&self) -> Value {
        let mut line = json!({
            "schema_version": self.schema_version,
            "seq": self.seq,
            "run_id": self.run.run_id,
            "parent_run_id": self.run.parent_run_id,
            "depth": self.run.depth,
            "recorded_at_unix_ms": self.at,
            "payload": self.value,
            "host": self.source.host(),
            "channel": self.source.channel(),
            "fact": self.fact,
            "decision_point": self.decision_point,
            "failed": self.failed,
        });
        if let Value::Object(fields) = &mut line {
            if self.redactions > 0 {
                fields.insert("redactions".to_owned(), self.redactions.into());
            }
            if !self.conflicts.is_empty() {
                fields.insert("conflicts".to_owned(), self.conflicts.clone().into());
            }
            fields.retain(|_, value| !value.is_null());
        }
        line
    }
}

const COLUMNS: &str = "id, seq, at, kind, fact, host, channel, decision_point, schema_version, redactions, \
                       payload, link, failed";

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let link: [u8; 32] = row.get(11)?;
    Ok(Row {
        id: row.get(0)?,
        seq: unsigned(row, 1)?,
        at: unsigned(row, 2)?,
        kind: row.get(3)?,
        fact: row.get(4)?,
        host: row.get(5)?,
        channel: row.get(6)?,
        decision_point: row.get(7)?,
        schema_version: row.get(8)?,
        redactions: row.get(9)?,
        payload: row.get(10)?,
        link: link.into(),
        failed: row.get(12)?,
        bodies: Vec::new(),
    })
}

pub(super) fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// Reads the long texts of the row from the database and returns the row with them.
pub(super) fn with_bodies(connection: &Connection, mut row: Row) -> Result<Row, StoreError> {
    let mut find = connection.prepare_cached(
        "SELECT pointer, hash, length, zstd FROM record_bodies JOIN bodies ON bodies.id = body \
         WHERE record = ?1 ORDER BY pointer",
    )?;
    let bodies = find.query_map([row.id], |row| {
        Ok(BodyRow {
            pointer: row.get(0)?,
            hash: row.get(1)?,
            length: row.get(2)?,
            zstd: row.get(3)?,
        })
    })?;
    row.bodies = bodies.collect::<Result<_, _>>()?;
    Ok(row)
}

pub(super) fn row(connection: &Connection, run: i64, seq: i64) -> Result<Option<Row>, StoreError> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM records WHERE run = ?1 AND seq = ?2"))?
        .query_row([run, seq], read_row)
        .optional()?;
    found.map(|row| with_bodies(connection, row)).transpose()
}

/// Up to `count` rows of a run, in order, beginning with seq `from`.
pub(super) fn rows(
    connection: &Connection,
    run: i64,
    from: i64,
    count: usize,
) -> Result<Vec<Row>, StoreError> {
    let mut find = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM records WHERE run = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3"
    ))?;
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    let found = find.query_map(params![run, from, limit], read_row)?;
    let found: Vec<Row> = found.collect::<Result<_, _>>()?;
    found.into_iter().map(|row| with_bodies(connection, row)).collect()
}

const REPORT_COLUMNS: &str = "id, seq, after, at, host, channel, status, hash, link";

pub(super) fn read_report(row: &rusqlite::Row<'_>) -> rusqlite::Result<ReportRow> {
    let link: [u8; 32] = row.get(8)?;
    Ok(ReportRow {
        id: row.get(0)?,
        seq: unsigned(row, 1)?,
        after: unsigned(row, 2)?,
        at: unsigned(row, 3)?,
        host: row.get(4)?,
        channel: row.get(5)?,
        status: row.get(6)?,
        hash: row.get(7)?,
        link: link.into(),
    })
}

/// The further reports about a run's records, in the order of their arrival.
pub(super) fn reports(connection: &Connection, run: i64) -> Result<Vec<ReportRow>, StoreError> {
    let mut find = connection.prepare_cached(&format!(
        "SELECT {REPORT_COLUMNS} FROM reports WHERE run = ?1 ORDER BY after, id"
    ))?;
    let found = find.query_map([run], read_report)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The further reports about one record.
pub(super) fn reports_about(
    connection: &Connection,
    run: i64,
    seq: i64,
) -> Result<Vec<ReportRow>, StoreError> {
    let mut find = connection.prepare_cached(&format!(
        "SELECT {REPORT_COLUMNS} FROM reports WHERE run = ?1 AND seq = ?2 ORDER BY id"
    ))?;
    let found = find.query_map([run, seq], read_report)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The identity of a run; `None` if the run was removed, or if its records moved into another run.
pub(super) fn run_key(connection: &Connection, run: i64) -> Result<Option<RunKey>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT run_id, parent_run_id, depth FROM runs WHERE id = ?1")?
        .query_row([run], |row| {
            let (run_id, parent): (String, Option<String>) = (row.get(0)?, row.get(1)?);
            let depth: i64 = row.get(2)?;
            Ok(RunKey {
                run_id: run_id.into(),
                parent_run_id: parent.map(RunId::from),
                depth: usize::try_from(depth).unwrap_or_default(),
            })
        })
        .optional()?)
}

/// The seqs of a run's records with one of these payload kinds, in order.
pub(super) fn seqs_of(
    connection: &Connection,
    run: i64,
    kinds: &[&str],
) -> Result<Vec<i64>, StoreError> {
    let mut seqs = Vec::new();
    let mut find =
        connection.prepare_cached("SELECT seq FROM records WHERE run = ?1 AND kind = ?2")?;
    for kind in kinds {
        let found = find.query_map(params![run, kind], |row| row.get(0))?;
        seqs.extend(found.collect::<Result<Vec<i64>, _>>()?);
    }
    seqs.sort_unstable();
    Ok(seqs)
}

/// The seq of the latest record of a run whose payload kind is in `kinds`.
pub(super) fn latest_seq_of(
    connection: &Connection,
    run: i64,
    kinds: &[&str],
) -> Result<Option<i64>, StoreError> {
    let mut find = connection
        .prepare_cached("SELECT seq, kind FROM records WHERE run = ?1 ORDER BY seq DESC")?;
    let mut rows = find.query(params![run])?;
    while let Some(row) = rows.next()? {
        if row.get_ref(1)?.as_str().is_ok_and(|kind| kinds.contains(&kind)) {
            return Ok(Some(row.get(0)?));
        }
    }
    Ok(None)
}

/// One complete record of a run.
pub(super) fn record(
    connection: &Connection,
    run: i64,
    seq: i64,
) -> Result<Option<StoredRecord>, StoreError> {
    let (Some(key), Some(row)) = (run_key(connection, run)?, row(connection, run, seq)?) else {
        return Ok(None);
    };
    whole(connection, &key, run, row).map(Some)
}

/// Up to `count` complete records of a run, in order. For a damaged record, the list has an error
/// in its place.
pub(super) fn records(
    connection: &Connection,
    run: i64,
    from: i64,
    count: usize,
) -> Result<Vec<RecordAtSeq>, StoreError> {
    let Some(key) = run_key(connection, run)? else { return Ok(Vec::new()) };
    let rows = rows(connection, run, from, count)?;
    Ok(rows.into_iter().map(|row| (row.seq, whole(connection, &key, run, row))).collect())
}

/// Up to `count` records as they were first reported, without the fields that further reports
/// added: this is what the engine saw when the events happened.
pub(super) fn first_reported(
    connection: &Connection,
    run: i64,
    from: i64,
    count: usize,
) -> Result<Vec<TrajectoryRecord>, StoreError> {
    let Some(key) = run_key(connection, run)? else { return Ok(Vec::new()) };
    let rows = rows(connection, run, from, count)?;
    rows.into_iter().map(|row| Ok(stored(&key, row)?.into_record())).collect()
}

fn stored(key: &RunKey, row: Row) -> Result<StoredRecord, StoreError> {
    Ok(StoredRecord {
        run: key.clone(),
        seq: row.seq,
        at: Timestamp::from_unix_ms(row.at),
        schema_version: row.schema_version,
        value: row.value()?,
        // A decision point that only a newer release knows is read as `None`.
        decision_point: row.decision_point.as_deref().and_then(DecisionPoint::from_name),
        // A channel that only a newer release knows is read as `Import`.
        source: Source::new(&row.host, Channel::from_name(&row.channel).unwrap_or(Channel::Import)),
        fact: row.fact,
        redactions: row.redactions,
        failed: row.failed,
        first_reported: None,
        conflicts: Vec::new(),
    })
}

fn whole(
    connection: &Connection,
    key: &RunKey,
    run: i64,
    row: Row,
) -> Result<StoredRecord, StoreError> {
    let seq = i64::try_from(row.seq).unwrap_or(i64::MAX);
    let mut record = stored(key, row)?;
    let mut find = connection.prepare_cached(
        "SELECT status, hash, zstd FROM reports WHERE run = ?1 AND seq = ?2 ORDER BY id",
    )?;
    let found = find.query_map([run, seq], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Vec<u8>>(2)?))
    })?;
    for report in found {
        let (status, hash, packed) = report?;
        match (status.as_str(), unpack_report(&hash, &packed)?) {
            ("merged", Value::Object(added)) => {
                let before = record.value.clone();
                merge(&mut record.value, &added);
                record.first_reported.get_or_insert(before);
            }
            (_, payload) => record.conflicts.push(payload),
        }
    }
    Ok(record)
}

/// Decompresses what a further report added to its record or what contradicted the record.
pub(super) fn unpack_report(hash: &[u8], packed: &[u8]) -> Result<Value, StoreError> {
    let damaged = || StoreError::Damaged("a report does not decompress".to_owned());
    let length = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten();
    let length = length.and_then(|length| usize::try_from(length).ok()).ok_or_else(damaged)?;
    let text = body::unpack(hash, length, packed).map_err(|_| damaged())?;
    serde_json::from_str(&text).map_err(|_| damaged())
}
