//! Keeps track of which run started which. A parent run is always stored before its child runs.
//!
//! An event of a child run may arrive before the first event of its parent. The store then creates
//! the parent's row and first record itself; when the parent's start is reported later, its fields
//! are merged into that record. The parent of a run may also become known only after the run's
//! first events. A run that would become its own ancestor gets no parent.

use midcourse_core::{RunIdentity, Timestamp, TrajectoryPayload, TrajectoryRecord};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::append::{self, RunHead, run_head};
use super::chain::Link;
use super::error::StoreError;
use super::prepare::{PreparedEvent, PreparedRecord};
use super::settings::StoreSettings;
use super::summaries;
use crate::event::{Channel, FactKey, Source};

/// How many ancestors of a run are followed. If there are more, the runs probably form a cycle, and
/// the run gets no parent.
const MAX_ANCESTORS: usize = 64;

/// Inserts the row of a new run. If the run has a parent that is not stored yet, stores the parent
/// first.
pub(super) fn begin_run(
    connection: &Connection,
    event: &PreparedEvent,
) -> Result<RunHead, StoreError> {
    let (host, at) = (event.prepared.source.host(), event.prepared.record.at());
    let parent = parent(connection, &event.run)?;
    if parent.is_some() {
        ensure_parent(connection, &event.run, host, at)?;
    }
    insert_row(connection, &event.run, parent, host, at)
}

/// Fills in the parent, the depth and the conversation of a run's row, where they are missing, from
/// the identity in its `RunStarted` event.
pub(super) fn complete(
    connection: &Connection,
    run: &RunHead,
    identity: &RunIdentity,
    event: &PreparedEvent,
) -> Result<(), StoreError> {
    let parent = parent(connection, identity)?;
    if parent.is_some() {
        let (host, at) = (event.prepared.source.host(), event.prepared.record.at());
        ensure_parent(connection, identity, host, at)?;
    }
    connection
        .prepare_cached(
            "UPDATE runs SET depth = iif(parent_run_id IS NULL, ?2, depth), \
             parent_run_id = coalesce(parent_run_id, ?3), \
             conversation_id = coalesce(conversation_id, ?4) WHERE id = ?1",
        )?
        .execute(params![run.id, depth(identity), parent, identity.conversation_id])?;
    Ok(())
}

/// The parent that a run names. `None` if it names no parent, or if the run would become its own
/// ancestor.
fn parent<'a>(
    connection: &Connection,
    identity: &'a RunIdentity,
) -> Result<Option<&'a str>, StoreError> {
    let Some(parent) = identity.parent_run_id.as_ref() else { return Ok(None) };
    let mut ancestor = Some(parent.as_str().to_owned());
    for _ in 0..MAX_ANCESTORS {
        match ancestor {
            None => return Ok(Some(parent.as_str())),
            Some(id) if id == identity.run_id.as_str() => return Ok(None),
            Some(id) => {
                ancestor = connection
                    .prepare_cached("SELECT parent_run_id FROM runs WHERE run_id = ?1")?
                    .query_row([id], |row| row.get(0))
                    .optional()?
                    .flatten();
            }
        }
    }
    Ok(None)
}

/// Creates the row and the first record of the child's parent run, if that is not stored yet.
fn ensure_parent(
    connection: &Connection,
    child: &RunIdentity,
    host: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(parent_id) = &child.parent_run_id else { return Ok(()) };
    if run_head(connection, parent_id.as_str())?.is_some() {
        return Ok(());
    }
    let mut identity = RunIdentity::root(parent_id.as_str());
    identity.depth = child.depth.saturating_sub(1);
    identity.conversation_id = child.conversation_id.clone();
    let mut run = insert_row(connection, &identity, None, host, at)?;
    let started = TrajectoryPayload::RunStarted { identity: identity.clone() };
    let fact = FactKey::of(&started);
    let record = TrajectoryRecord::new(0, at, started).in_run(&identity);
    let source = Source::new("midcourse", Channel::Store);
    let mut prepared = PreparedRecord::new(record, source, &StoreSettings::default())?;
    prepared.fact = fact;
    append::insert(connection, &mut run, &prepared)?;
    Ok(())
}

fn insert_row(
    connection: &Connection,
    identity: &RunIdentity,
    parent: Option<&str>,
    host: &str,
    at: Timestamp,
) -> Result<RunHead, StoreError> {
    let run_id = identity.run_id.as_str();
    let link = Link::genesis(run_id);
    connection
        .prepare_cached(
            "INSERT INTO runs (run_id, parent_run_id, depth, conversation_id, host, started, \
             latest, next_seq, head, calls, errors, deliveries) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, 0, ?7, 0, 0, 0)",
        )?
        .execute(params![
            run_id,
            parent,
            depth(identity),
            identity.conversation_id,
            host,
            i64::try_from(at.unix_ms()).unwrap_or(i64::MAX),
            link.as_bytes(),
        ])?;
    let id = connection.last_insert_rowid();
    summaries::begin(connection, id)?;
    Ok(RunHead { id, next_seq: 0, link })
}

fn depth(identity: &RunIdentity) -> i64 {
    i64::try_from(identity.depth).unwrap_or(i64::MAX)
}
