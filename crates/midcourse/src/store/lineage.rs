//! Which run started which: rows of runs, made after those of their parents.
//!
//! A run may be met before its parent, or before anybody said that it has one. A parent that was
//! never seen gets a row and a first record, told by the store itself, so that whatever a host says
//! about it later fills it in. A run that would be its own ancestor has no parent.

use midcourse_core::{RunIdentity, Timestamp, TrajectoryPayload};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::append::{self, RunHead, run_head};
use super::chain::Link;
use super::draft::Draft;
use super::error::StoreError;
use super::settings::StoreSettings;
use crate::event::{Event, Source};

/// Ancestors looked at before a line of descent is taken for a circle.
const ANCESTORS_MAX: usize = 64;

/// Makes the row of a run that is new, after that of its parent.
pub(super) fn begin_run(connection: &Connection, draft: &Draft) -> Result<RunHead, StoreError> {
    let host = draft.source.host();
    let parent = parent(connection, &draft.run)?;
    if parent.is_some() {
        ensure_parent(connection, &draft.run, host, draft.at)?;
    }
    insert_row(connection, &draft.run, parent, host, draft.at)
}

/// A run says who it is: what its row lacks is put there.
pub(super) fn correct(
    connection: &Connection,
    run: &RunHead,
    identity: &RunIdentity,
    draft: &Draft,
) -> Result<(), StoreError> {
    let parent = parent(connection, identity)?;
    if parent.is_some() {
        ensure_parent(connection, identity, draft.source.host(), draft.at)?;
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

/// The parent that a run names, unless it is the run itself or below it.
fn parent<'a>(
    connection: &Connection,
    identity: &'a RunIdentity,
) -> Result<Option<&'a str>, StoreError> {
    let Some(parent) = identity.parent_run_id.as_ref() else { return Ok(None) };
    let mut above = Some(parent.as_str().to_owned());
    for _ in 0..ANCESTORS_MAX {
        match above {
            None => return Ok(Some(parent.as_str())),
            Some(id) if id == identity.run_id.as_str() => return Ok(None),
            Some(id) => {
                above = connection
                    .prepare_cached("SELECT parent_run_id FROM runs WHERE run_id = ?1")?
                    .query_row([id], |row| row.get(0))
                    .optional()?
                    .flatten();
            }
        }
    }
    Ok(None)
}

/// Gives a parent that was never seen a row and its first record.
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
    let event = Event::new(identity, Source::new("midcourse", "store"), at, started);
    append::insert(connection, &mut run, &Draft::new(event, &StoreSettings::default())?)?;
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
    Ok(RunHead { id: connection.last_insert_rowid(), next_seq: 0, link })
}

fn depth(identity: &RunIdentity) -> i64 {
    i64::try_from(identity.depth).unwrap_or(i64::MAX)
}
