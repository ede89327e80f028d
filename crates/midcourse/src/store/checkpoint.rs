//! Checkpoints: the saved state of the engine for a stored run, and how many records this state
//! covers. To continue a run, the engine loads the checkpoint and reads only the records after it.

use midcourse_core::{Checkpoint, RunId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::append::{RunHead, run_head};
use super::body::compressed;
use super::error::StoreError;
use super::synced_engine::SyncedEngine;
use super::{Store, read};

/// The most stored records that the engine reads before it sees a new event. After an upgrade of
/// midcourse the checkpoint may be unusable; the engine then reads the run again from the start.
/// With this limit, a very long run is read in parts, over several events, so no event takes long.
pub(super) const MAX_RECORDS_PER_STEP: usize = 20_000;

/// The most bytes that a checkpoint may have after decompression. Valid checkpoints are much
/// smaller, so a larger one is damaged.
const MAX_CHECKPOINT_BYTES: usize = 1024 * 1024;

/// How many records are read from the database at a time.
const PAGE: usize = 256;

impl Store {
    /// Shows the engine all stored records of a run that the engine has not seen yet; returns
    /// `false` if the run is not stored.
    pub fn fold(&self, run_id: &str, engine: &mut SyncedEngine) -> Result<bool, StoreError> {
        let run = run_id.into();
        loop {
            let Some(head) = run_head(&self.connection, run_id)? else { return Ok(false) };
            let folded = catch_up(&self.connection, engine, &run, Some(&head), usize::MAX)?;
            if folded == Some(head.next_seq) {
                engine.set_position(&run, head.link);
                return Ok(true);
            }
        }
    }

    /// The stored checkpoint of a run, and how many records of the run it covers. `None` if the run
    /// or its checkpoint is not stored.
    pub fn checkpoint(&self, run_id: &str) -> Result<Option<(u64, Checkpoint)>, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(None) };
        let stored = load_checkpoint(&self.connection, head.id)?;
        Ok(stored
            .map(|(folded, checkpoint)| (u64::try_from(folded).unwrap_or_default(), checkpoint)))
    }
}

/// Shows the engine up to `max` records of the run that it has not seen. Returns how many records
/// of the run the engine has seen in all, or `None` if another process changed the run meanwhile.
pub(super) fn catch_up(
    connection: &Connection,
    engine: &mut SyncedEngine,
    run_id: &RunId,
    head: Option<&RunHead>,
    max: usize,
) -> Result<Option<i64>, StoreError> {
    let Some(head) = head else {
        engine.load(None);
        return Ok(Some(0));
    };
    if engine.is_at(run_id, &head.link) {
        return Ok(Some(head.next_seq));
    }
    let (mut from, checkpoint) = match load_checkpoint(connection, head.id)? {
        // The checkpoint covers more records than the run had when `head` was read. Either the run
        // has grown since, or the checkpoint is wrong.
        Some((folded, _)) if folded > head.next_seq => {
            if run_head(connection, run_id.as_str())?.as_ref() != Some(head) {
                return Ok(None);
            }
            (0, None)
        }
        Some((folded, checkpoint)) => (folded, Some(checkpoint)),
        None => (0, None),
    };
    if !engine.load(checkpoint) {
        from = 0;
    }
    fold_rows(connection, engine, head.id, max, from, head.next_seq).map(Some)
}

fn fold_rows(
    connection: &Connection,
    engine: &mut SyncedEngine,
    run: i64,
    max: usize,
    mut from: i64,
    to: i64,
) -> Result<i64, StoreError> {
    let mut left = max;
    while from < to && left > 0 {
        let rest = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        let page = read::first_reported(connection, run, from, rest.min(left).min(PAGE))?;
        if page.is_empty() {
            return Err(StoreError::Damaged(format!("record {from} is missing")));
        }
        for record in &page {
            // `fold` only updates the engine's state. The messages that the agent got are already
            // among the records, so the engine must not make new ones.
            engine.engine_mut().fold(record);
        }
        left = left.saturating_sub(page.len());
        from = from.saturating_add(i64::try_from(page.len()).unwrap_or(i64::MAX));
    }
    Ok(from)
}

fn load_checkpoint(
    connection: &Connection,
    run: i64,
) -> Result<Option<(i64, Checkpoint)>, StoreError> {
    let stored: Option<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT next_seq, zstd FROM checkpoints WHERE run = ?1")?
        .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // A checkpoint that does not decompress becomes an empty one. The engine rejects that and reads
    // the run again from the start.
    Ok(stored.map(|(folded, packed)| {
        let bytes = zstd::bulk::decompress(&packed, MAX_CHECKPOINT_BYTES).unwrap_or_default();
        (folded, Checkpoint::from(bytes))
    }))
}

/// Stores a checkpoint, compressed so that it fits into one page of the database.
pub(super) fn save_checkpoint(
    connection: &Connection,
    run: i64,
    folded: i64,
    checkpoint: &Checkpoint,
) -> Result<(), StoreError> {
    let packed = compressed(checkpoint.as_bytes(), 1)?;
    connection
        .prepare_cached(
            "INSERT INTO checkpoints (run, next_seq, zstd) VALUES (?1, ?2, ?3) \
             ON CONFLICT (run) DO UPDATE SET next_seq = excluded.next_seq, zstd = excluded.zstd",
        )?
        .execute(params![run, folded, packed])?;
    Ok(())
}
