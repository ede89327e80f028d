//! Appending: the one place where a record gets its seq.
//!
//! Everything here runs inside the caller's write transaction. Other processes cannot write
//! meanwhile, so the engine, whose providers may be slow, is not called here. A fact key identifies
//! what an event is about: a second event with the same key and payload kind creates no record, but
//! is compared with the stored one. If the parent of a run is not stored yet, the parent is stored
//! first. Events that arrived before their run was known are in a provisional run, whose records
//! move into the real run when an event of the real run names the provisional one.

use midcourse_core::{DecisionPoint, TrajectoryPayload, TrajectoryRecord};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::call_failure::classify;
use super::chain::Link;
use super::error::StoreError;
use super::prepare::{PreparedEvent, PreparedRecord};
use super::run_counts::RunCounts;
use super::{body, parents, read, report, schema, summaries};
use crate::dedupe::{RecordStatus, other_end};

/// The result of appending an event.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "short-lived: boxing would cost an allocation per event"
)]
pub(super) enum Appended {
    /// A new record, at this seq.
    New(u64),
    /// The event was stored already: how this report compares with the record, and the record.
    Existing(RecordStatus, TrajectoryRecord),
}

/// Where the next record of a run is added: the id of the run's row, the seq that the next record
/// gets, and the latest hash of the run's hash chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunHead {
    pub(super) id: i64,
    pub(super) next_seq: i64,
    pub(super) link: Link,
}

/// Refuses to write if a newer release has changed the schema since the store was opened.
pub(super) fn check_version(connection: &Connection) -> Result<(), StoreError> {
    match schema::version(connection)? {
        schema::VERSION => Ok(()),
        found => Err(StoreError::Newer { found, known: schema::VERSION }),
    }
}

/// The next seq and the latest hash of a run; `None` if the run is not stored.
pub(super) fn run_head(
    connection: &Connection,
    run_id: &str,
) -> Result<Option<RunHead>, StoreError> {
    let mut find =
        connection.prepare_cached("SELECT id, next_seq, head FROM runs WHERE run_id = ?1")?;
    let head = find.query_row([run_id], |row| {
        let link: [u8; 32] = row.get(2)?;
        Ok(RunHead { id: row.get(0)?, next_seq: row.get(1)?, link: link.into() })
    });
    Ok(head.optional()?)
}

/// Stores an event as a new record. If the event is stored already, compares this report with the
/// record instead.
pub(super) fn append(
    connection: &Connection,
    event: &PreparedEvent,
) -> Result<Appended, StoreError> {
    let mut run = match run_head(connection, event.run.run_id.as_str())? {
        Some(run) => run,
        None => parents::begin_run(connection, event)?,
    };
    if let TrajectoryPayload::RunStarted { identity } = event.payload()
        && identity.run_id == event.run.run_id
    {
        parents::complete(connection, &run, identity, event)?;
    }
    if let Some(provisional) = &event.adopts {
        run = super::adopt::adopt(connection, provisional.as_str(), run, &event.run)?;
    }
    if let Some(stored) = stored_fact(connection, run.id, &event.prepared)? {
        return report::add(connection, &run, stored, &event.prepared);
    }
    if let Some(seq) = earlier_record(connection, run.id, event)?
        && let Some(stored) = read::record(connection, run.id, seq)?
    {
        return Ok(Appended::Existing(RecordStatus::Duplicate, stored.into_record()));
    }
    insert(connection, &mut run, &event.prepared).map(Appended::New)
}

/// Stores an event that no engine analyses. The engine's findings about the run are then incomplete
/// if the event is one that the engine analyses: a message or the end of a call.
pub(super) fn append_unanalysed(
    connection: &Connection,
    event: &PreparedEvent,
) -> Result<Appended, StoreError> {
    let appended = append(connection, event)?;
    let is_analysed = matches!(
        event.payload(),
        TrajectoryPayload::MessageAppended { .. }
            | TrajectoryPayload::ToolEnded { .. }
            | TrajectoryPayload::Denied { .. }
    );
    if is_analysed
        && matches!(appended, Appended::New(_))
        && let Some(run) = run_head(connection, event.run.run_id.as_str())?
    {
        summaries::clear_engine(connection, run.id)?;
    }
    Ok(appended)
}

/// The stored record with this event's fact key and payload kind.
fn stored_fact(
    connection: &Connection,
    run: i64,
    prepared: &PreparedRecord,
) -> Result<Option<read::StoredRecord>, StoreError> {
    let Some(fact) = &prepared.fact else { return Ok(None) };
    match seq_of_fact(connection, run, prepared.record.payload.kind(), fact.as_str())? {
        None => Ok(None),
        Some(seq) => read::record(connection, run, seq),
    }
}

/// Whether the event is a duplicate, for which [`append`] would store no new record. `before` is an
/// event that will be stored before this one, to compare it with the event in place of the latest
/// stored record.
pub(super) fn is_stored(
    connection: &Connection,
    run: Option<i64>,
    event: &PreparedEvent,
    before: Option<&PreparedRecord>,
) -> Result<bool, StoreError> {
    if let Some(run) = run {
        if let Some(fact) = &event.prepared.fact
            && seq_of_fact(connection, run, event.payload().kind(), fact.as_str())?.is_some()
        {
            return Ok(true);
        }
        if ended_otherwise(connection, run, event)?.is_some() {
            return Ok(true);
        }
    }
    match (before, run) {
        _ if !event.dedupe_consecutive => Ok(false),
        (Some(before), _) => {
            let has_same_source = before.source == event.prepared.source;
            Ok(has_same_source && before.value()? == event.prepared.value()?)
        }
        (None, Some(run)) => Ok(equal_before(connection, run, event)?.is_some()),
        (None, None) => Ok(false),
    }
}

/// Whether an event of this kind is compared with a record of kind `before` that comes before it, to
/// find out whether it is a consecutive duplicate.
pub(super) fn is_compared_with(payload: &TrajectoryPayload, before: &TrajectoryPayload) -> bool {
    match is_setting(payload) {
        true => payload.kind() == before.kind(),
        false => !ADDED_KINDS.contains(&before.kind()),
    }
}

/// The kinds of records that midcourse itself adds to a run. They may lie between an event and its
/// duplicate.
const ADDED_KINDS: [&str; 9] = [
    "feedback_delivered",
    "guidance_delivered",
    "outcome",
    "config_applied",
    "deadline_set",
    "usage_reported",
    "cost_reported",
    "proxy_attached",
    "run_described",
];

/// Finds the record that this event duplicates if no record has both the fact key and the payload
/// kind of the event. For the result of a tool call that is the denial of this call, and vice
/// versa. For an event that sets `dedupe_consecutive`, it is also the record directly before, if
/// that is equal and from the same source.
fn earlier_record(
    connection: &Connection,
    run: i64,
    event: &PreparedEvent,
) -> Result<Option<i64>, StoreError> {
    match ended_otherwise(connection, run, event)? {
        None if event.dedupe_consecutive => equal_before(connection, run, event),
        found => Ok(found),
    }
}

/// The denial of the call whose result the event is, or the result of the call whose denial it is.
fn ended_otherwise(
    connection: &Connection,
    run: i64,
    event: &PreparedEvent,
) -> Result<Option<i64>, StoreError> {
    match (&event.prepared.fact, other_end(event.payload())) {
        (Some(fact), Some(other)) => seq_of_fact(connection, run, other, fact.as_str()),
        _ => Ok(None),
    }
}

/// The record directly before, if it is equal and from the same source.
fn equal_before(
    connection: &Connection,
    run: i64,
    event: &PreparedEvent,
) -> Result<Option<i64>, StoreError> {
    let payload = event.payload();
    // A configuration or deadline stays in force until another one replaces it, so it is compared
    // with the latest one of its kind, however old that is. All of them have fact keys; the
    // condition on `fact` lets SQLite use the index, which has only records with a fact key.
    let latest_of_kind =
        "SELECT seq, host = ?3 AND channel = ?4 FROM records WHERE run = ?1 AND kind = ?2 AND \
                          fact IS NOT NULL ORDER BY seq DESC LIMIT 1"
            .to_owned();
    let latest_event = || {
        let added = ADDED_KINDS.map(|kind| format!("'{kind}'")).join(", ");
        format!(
            "SELECT seq, kind = ?2 AND host = ?3 AND channel = ?4 FROM records \
             WHERE run = ?1 AND kind NOT IN ({added}) ORDER BY seq DESC LIMIT 1"
        )
    };
    let source = &event.prepared.source;
    let latest: Option<(i64, bool)> = connection
        .prepare_cached(&if is_setting(payload) { latest_of_kind } else { latest_event() })?
        .query_row(params![run, payload.kind(), source.host(), source.channel().as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((seq, true)) = latest else { return Ok(None) };
    let Some(stored) = read::record(connection, run, seq)? else { return Ok(None) };
    let is_equal =
        *stored.first_reported.as_ref().unwrap_or(&stored.value) == event.prepared.value()?;
    Ok(is_equal.then_some(seq))
}

/// Whether the payload says which configuration or deadline a run has.
pub(super) const fn is_setting(payload: &TrajectoryPayload) -> bool {
    matches!(
        payload,
        TrajectoryPayload::ConfigApplied { .. } | TrajectoryPayload::DeadlineSet { .. }
    )
}

/// The seq of the record with this fact key and payload kind.
pub(super) fn seq_of_fact(
    connection: &Connection,
    run: i64,
    kind: &str,
    fact: &str,
) -> Result<Option<i64>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT seq FROM records WHERE run = ?1 AND kind = ?2 AND fact = ?3")?
        .query_row(params![run, kind, fact], |row| row.get(0))
        .optional()?)
}

/// Inserts a record after the run's latest one, counts it in the run, and returns its seq.
pub(super) fn insert(
    connection: &Connection,
    run: &mut RunHead,
    prepared: &PreparedRecord,
) -> Result<u64, StoreError> {
    let seq = u64::try_from(run.next_seq)
        .map_err(|_| StoreError::Damaged("a run has a negative seq".to_owned()))?;
    let link = prepared.link(&run.link, seq);
    let payload = &prepared.record.payload;
    let failed = classify(connection, run.id, payload)?;
    connection
        .prepare_cached(
            "INSERT INTO records (run, seq, at, kind, fact, host, channel, decision_point, \
             schema_version, redactions, payload, link, failed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            run.id,
            run.next_seq,
            prepared.at_ms,
            payload.kind(),
            prepared.fact.as_ref().map(|fact| fact.as_str()),
            prepared.source.host(),
            prepared.source.channel().as_str(),
            prepared.decision_point.map(DecisionPoint::as_str),
            prepared.record.schema_version,
            prepared.redactions,
            prepared.json,
            link.as_bytes(),
            failed,
        ])?;
    let row = connection.last_insert_rowid();
    for body in &prepared.bodies {
        insert_body(connection, row, body)?;
    }
    run.next_seq = run.next_seq.saturating_add(1);
    run.link = link;
    RunCounts::of(payload, failed).add(connection, run, prepared.at_ms)?;
    summaries::add(connection, run, payload)?;
    Ok(seq)
}

/// Replaces a stored text that does not have its hash by this one, which has. Copies keep what they were
/// made from, so a damaged text may be stored first; it must not take the place of the same text in
/// other records.
fn replace_damaged_body(
    connection: &Connection,
    body: &body::Body,
    length: i64,
) -> Result<(), StoreError> {
    let (id, stored_length, zstd): (i64, i64, Vec<u8>) = connection
        .prepare_cached("SELECT id, length, zstd FROM bodies WHERE hash = ?1")?
        .query_row([body.hash], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if (stored_length, &zstd) == (length, &body.bytes) {
        return Ok(());
    }
    let stored_length = usize::try_from(stored_length).unwrap_or(usize::MAX);
    if body::unpack(&body.hash, stored_length, &zstd).is_err()
        && body::unpack(&body.hash, body.length, &body.bytes).is_ok()
    {
        connection
            .prepare_cached("UPDATE bodies SET length = ?2, zstd = ?3 WHERE id = ?1")?
            .execute(params![id, length, body.bytes])?;
    }
    Ok(())
}

/// Stores a long text of the record with this row id.
pub(super) fn insert_body(
    connection: &Connection,
    row: i64,
    body: &body::Body,
) -> Result<(), StoreError> {
    let length = i64::try_from(body.length).unwrap_or(i64::MAX);
    let added = connection
        .prepare_cached("INSERT OR IGNORE INTO bodies (hash, length, zstd) VALUES (?1, ?2, ?3)")?
        .execute(params![body.hash, length, body.bytes])?;
    if added == 0 {
        replace_damaged_body(connection, body, length)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO record_bodies (record, pointer, body) \
             SELECT ?1, ?2, id FROM bodies WHERE hash = ?3",
        )?
        .execute(params![row, body.pointer, body.hash])?;
    Ok(())
}
