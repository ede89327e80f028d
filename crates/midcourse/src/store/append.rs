//! Appending: the one place where a record gets its seq.
//!
//! Everything here runs inside the caller's write transaction, and no code of a user does. A fact
//! that is known is not recorded again; a run whose parent was never seen gets it first; records
//! held under a provisional run move to the run that adopts them.

use midcourse_core::{DecisionPoint, TrajectoryPayload, TrajectoryRecord};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::chain::Link;
use super::draft::{Draft, report_link};
use super::error::StoreError;
use super::{body, lineage, read, schema};
use crate::relation::{Relation, Standing, other_end, relate};

/// Different words of one source about one fact that are kept.
const DIVERGED_MAX: usize = 16;

/// What became of a draft.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    pub(super) standing: Standing,
    /// The record of the fact: the new one, or the one that was known.
    pub(super) record: TrajectoryRecord,
}

/// Where a run stands: what the next record goes behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunHead {
    pub(super) id: i64,
    pub(super) next_seq: i64,
    pub(super) link: Link,
}

/// Refuses to write where a newer release has changed the schema since the store was opened.
pub(super) fn check_version(connection: &Connection) -> Result<(), StoreError> {
    match schema::version(connection)? {
        schema::VERSION => Ok(()),
        found => Err(StoreError::Newer { found, known: schema::VERSION }),
    }
}

/// Finds a run.
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

/// Stores a draft, if its fact is new.
pub(super) fn settle(connection: &Connection, draft: &Draft) -> Result<Settled, StoreError> {
    let mut run = match run_head(connection, draft.run.run_id.as_str())? {
        Some(run) => run,
        None => lineage::begin_run(connection, draft)?,
    };
    if let TrajectoryPayload::RunStarted { identity } = &draft.payload
        && identity.run_id == draft.run.run_id
    {
        lineage::correct(connection, &run, identity, draft)?;
    }
    if let Some(provisional) = &draft.adopts {
        run = super::adopt::adopt(connection, provisional.as_str(), run, &draft.run)?;
    }
    if let Some(known) = known_fact(connection, run.id, draft)? {
        return report(connection, &run, known, draft);
    }
    if let Some(seq) = told_before(connection, run.id, draft)?
        && let Some(known) = read::record(connection, run.id, seq)?
    {
        return Ok(Settled { standing: Standing::Known, record: known.into_record() });
    }
    let record = insert(connection, &mut run, draft)?;
    Ok(Settled { standing: Standing::New, record })
}

/// The record of the draft's fact, if there is one.
fn known_fact(
    connection: &Connection,
    run: i64,
    draft: &Draft,
) -> Result<Option<read::StoredRecord>, StoreError> {
    let Some(fact) = &draft.fact else { return Ok(None) };
    match known_seq(connection, run, draft.payload.kind(), fact.as_str())? {
        None => Ok(None),
        Some(seq) => read::record(connection, run, seq),
    }
}

/// Whether the store has the draft's fact already.
pub(super) fn is_known(
    connection: &Connection,
    run: i64,
    draft: &Draft,
) -> Result<bool, StoreError> {
    if let Some(fact) = &draft.fact
        && known_seq(connection, run, draft.payload.kind(), fact.as_str())?.is_some()
    {
        return Ok(true);
    }
    Ok(told_before(connection, run, draft)?.is_some())
}

/// The record that makes the draft nothing new although it is no record of its fact: the end of a
/// call that has ended otherwise, or the same words right before it.
fn told_before(
    connection: &Connection,
    run: i64,
    draft: &Draft,
) -> Result<Option<i64>, StoreError> {
    if let (Some(fact), Some(other)) = (&draft.fact, other_end(&draft.payload))
        && let Some(seq) = known_seq(connection, run, other, fact.as_str())?
    {
        return Ok(Some(seq));
    }
    if !draft.may_echo {
        return Ok(None);
    }
    // Terms hold until there are others; so they are the same as the latest of their kind, however
    // long ago. Every one has its fact, which makes them few to look through.
    let latest_of_kind = "SELECT seq, source = ?3 FROM records WHERE run = ?1 AND kind = ?2 AND \
                          fact IS NOT NULL ORDER BY seq DESC LIMIT 1";
    // What the engine concluded, terms, and what else was read stand between a fact and its echo.
    let latest_of_all = "SELECT seq, kind = ?2 AND source = ?3 FROM records WHERE run = ?1 AND \
                         kind NOT IN ('feedback_delivered', 'guidance_delivered', 'outcome', \
                         'config_applied', 'deadline_set', 'usage_reported', \
                         'cost_reported', 'proxy_attached') \
                         ORDER BY seq DESC LIMIT 1";
    let latest: Option<(i64, bool)> = connection
        .prepare_cached(if are_terms(&draft.payload) { latest_of_kind } else { latest_of_all })?
        .query_row(params![run, draft.payload.kind(), draft.source.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((seq, true)) = latest else { return Ok(None) };
    let Some(known) = read::record(connection, run, seq)? else { return Ok(None) };
    let is_echo = *known.first_told.as_ref().unwrap_or(&known.value) == draft.value()?;
    Ok(is_echo.then_some(seq))
}

/// Whether it says on which terms a run is watched.
const fn are_terms(payload: &TrajectoryPayload) -> bool {
    matches!(
        payload,
        TrajectoryPayload::ConfigApplied { .. } | TrajectoryPayload::DeadlineSet { .. }
    )
}

/// The place of a fact's record in its run, if it has one.
pub(super) fn known_seq(
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

/// Inserts a record behind the run's latest and counts it in the run.
pub(super) fn insert(
    connection: &Connection,
    run: &mut RunHead,
    draft: &Draft,
) -> Result<TrajectoryRecord, StoreError> {
    let seq = run.next_seq;
    let place = u64::try_from(seq).map_err(|_| StoreError::Damaged("a negative seq".to_owned()))?;
    let link = draft.link(&run.link, place);
    connection
        .prepare_cached(
            "INSERT INTO records (run, seq, at, kind, fact, source, decision_point, \
             schema_version, redactions, payload, link) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            run.id,
            seq,
            draft.at_ms,
            draft.payload.kind(),
            draft.fact.as_ref().map(|fact| fact.as_str()),
            draft.source.as_str(),
            draft.decision_point.map(DecisionPoint::as_str),
            draft.schema_version,
            draft.redactions,
            draft.json,
            link.as_bytes(),
        ])?;
    let record = connection.last_insert_rowid();
    for body in &draft.bodies {
        insert_body(connection, record, body)?;
    }
    run.next_seq = seq.saturating_add(1);
    run.link = link;
    Tally::of(&draft.payload).add(connection, run, draft.at_ms)?;
    Ok(draft.record(place))
}

fn insert_body(
    connection: &Connection,
    record: i64,
    body: &super::body::Body,
) -> Result<(), StoreError> {
    let length = i64::try_from(body.length).unwrap_or(i64::MAX);
    connection
        .prepare_cached("INSERT OR IGNORE INTO bodies (hash, length, zstd) VALUES (?1, ?2, ?3)")?
        .execute(params![body.hash, length, body.bytes])?;
    connection
        .prepare_cached(
            "INSERT INTO record_bodies (record, pointer, body) \
             SELECT ?1, ?2, id FROM bodies WHERE hash = ?3",
        )?
        .execute(params![record, body.pointer, body.hash])?;
    Ok(())
}

/// What a record adds to the counts of its run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tally<'a> {
    pub(super) calls: i64,
    pub(super) errors: i64,
    pub(super) deliveries: i64,
    /// Whether the run ends here, or shows that it goes on.
    pub(super) life: &'static str,
    pub(super) outcome: Option<&'a str>,
}

impl<'a> Tally<'a> {
    pub(super) fn of(payload: &'a TrajectoryPayload) -> Self {
        match payload {
            TrajectoryPayload::ToolEnded { is_error, .. } => {
                Self { calls: 1, errors: i64::from(*is_error), ..Self::default() }
            }
            TrajectoryPayload::Denied { .. } => Self { calls: 1, errors: 1, ..Self::default() },
            TrajectoryPayload::FeedbackDelivered { shadow, .. }
            | TrajectoryPayload::GuidanceDelivered { shadow, .. } => {
                Self { deliveries: i64::from(!shadow), ..Self::default() }
            }
            TrajectoryPayload::RunEnded { outcome, .. } => {
                Self { life: "ends", outcome: Some(outcome.as_str()), ..Self::default() }
            }
            TrajectoryPayload::Resumed
            | TrajectoryPayload::TurnStarted
            | TrajectoryPayload::MessageAppended { .. }
            | TrajectoryPayload::ToolStarted { .. } => Self { life: "goes_on", ..Self::default() },
            _ => Self::default(),
        }
    }
}

impl Tally<'_> {
    /// Brings the run's own row up to its latest record.
    pub(super) fn add(
        &self,
        connection: &Connection,
        run: &RunHead,
        at_ms: i64,
    ) -> Result<(), StoreError> {
        connection
            .prepare_cached(
                "UPDATE runs SET next_seq = ?2, head = ?3, latest = max(latest, ?4), \
                 started = min(started, ?4), calls = calls + ?5, errors = errors + ?6, \
                 deliveries = deliveries + ?7, \
                 ended = CASE ?8 WHEN 'ends' THEN ?4 WHEN 'goes_on' THEN NULL ELSE ended END, \
                 outcome = CASE ?8 WHEN 'ends' THEN ?9 WHEN 'goes_on' THEN NULL ELSE outcome END \
                 WHERE id = ?1",
            )?
            .execute(params![
                run.id,
                run.next_seq,
                run.link.as_bytes(),
                at_ms,
                self.calls,
                self.errors,
                self.deliveries,
                self.life,
                self.outcome,
            ])?;
        Ok(())
    }
}

/// Keeps what a second report of a fact adds to its record.
fn report(
    connection: &Connection,
    run: &RunHead,
    known: read::StoredRecord,
    draft: &Draft,
) -> Result<Settled, StoreError> {
    let reported = draft.value()?;
    let same_source = known.source == draft.source.as_str();
    // A source is held to its own words, not to what others filled in.
    let told = known.first_told.as_ref().filter(|_| same_source).unwrap_or(&known.value);
    let (standing, payload) = match relate(told, &reported, same_source) {
        Relation::Same => (Standing::Known, None),
        // Who comes first says on which terms a run is watched; who comes at the same time and
        // counts a deadline from a moment later contradicts nobody.
        _ if are_terms(&draft.payload) => (Standing::Known, None),
        Relation::Fills(fills) => (Standing::Filled, Some(Value::Object(fills))),
        // The same other words again are not news, and a source that never says the same twice is
        // not listened to for ever.
        Relation::Diverges
            if known.diverged.contains(&reported) || known.diverged.len() >= DIVERGED_MAX =>
        {
            (Standing::Diverged, None)
        }
        Relation::Diverges => (Standing::Diverged, Some(reported)),
    };
    let Some(payload) = payload else {
        return Ok(Settled { standing, record: known.into_record() });
    };
    let seq = i64::try_from(known.seq).unwrap_or(i64::MAX);
    let text = payload.to_string();
    let hash = *blake3::hash(text.as_bytes()).as_bytes();
    let (at, source) = (draft.at.unix_ms(), draft.source.as_str());
    let link = report_link(&run.link, known.seq, at, source, standing.name(), &hash);
    connection
        .prepare_cached(
            "INSERT INTO reports (run, seq, after, at, source, relation, hash, zstd, link) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            run.id,
            seq,
            run.next_seq,
            draft.at_ms,
            source,
            standing.name(),
            hash,
            body::pack(&text)?,
            link.as_bytes(),
        ])?;
    connection
        .prepare_cached("UPDATE runs SET head = ?2, latest = max(latest, ?3) WHERE id = ?1")?
        .execute(params![run.id, link.as_bytes(), draft.at_ms])?;
    let record = read::record(connection, run.id, seq)?.unwrap_or(known).into_record();
    Ok(Settled { standing, record })
}
