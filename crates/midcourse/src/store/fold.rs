//! The saved fold of a run: bringing an engine to where a stored run stands.

use midcourse_core::Checkpoint;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::append::{RunHead, run_head};
use super::body::compressed;
use super::error::StoreError;
use super::{Store, read};
use crate::watch::Watch;

/// Records folded in one step where the checkpoint is behind: after an upgrade the fold is made
/// again, over several steps if the run is long, so that no step takes long.
pub(super) const FOLD_MAX: usize = 20_000;

/// No checkpoint is nearly as long as this, in bytes.
const CHECKPOINT_MAX: usize = 1024 * 1024;

/// Records read at a time while folding.
const PAGE: usize = 256;

impl Store {
    /// Brings a watch to where a stored run stands; `false` if the run is not stored.
    pub fn fold(&self, run_id: &str, watch: &mut Watch) -> Result<bool, StoreError> {
        let run = run_id.into();
        loop {
            let Some(head) = run_head(&self.connection, run_id)? else { return Ok(false) };
            let folded = catch_up(&self.connection, watch, &run, Some(&head), usize::MAX)?;
            if folded == Some(head.next_seq) {
                watch.came_to(&run, head.link);
                return Ok(true);
            }
        }
    }

    /// The saved fold of a run, and how many records are in it.
    pub fn checkpoint(&self, run_id: &str) -> Result<Option<(u64, Checkpoint)>, StoreError> {
        let Some(head) = run_head(&self.connection, run_id)? else { return Ok(None) };
        let saved = load_checkpoint(&self.connection, head.id)?;
        Ok(saved
            .map(|(folded, checkpoint)| (u64::try_from(folded).unwrap_or_default(), checkpoint)))
    }
}

/// Brings the engine to the run's latest record, or `max` records nearer; returns how many records
/// it has folded, or nothing if the run has moved on meanwhile.
pub(super) fn catch_up(
    connection: &Connection,
    watch: &mut Watch,
    run_id: &midcourse_core::RunId,
    head: Option<&RunHead>,
    max: usize,
) -> Result<Option<i64>, StoreError> {
    let Some(head) = head else {
        watch.resume(None);
        return Ok(Some(0));
    };
    if watch.is_at(run_id, &head.link) {
        return Ok(Some(head.next_seq));
    }
    let (mut from, checkpoint) = match load_checkpoint(connection, head.id)? {
        // The run has moved on, unless it has not: then the checkpoint is not of this run.
        Some((folded, _)) if folded > head.next_seq => {
            if run_head(connection, run_id.as_str())?.as_ref() != Some(head) {
                return Ok(None);
            }
            (0, None)
        }
        Some((folded, checkpoint)) => (folded, Some(checkpoint)),
        None => (0, None),
    };
    if !watch.resume(checkpoint) {
        from = 0;
    }
    fold_rows(connection, watch, head.id, max, from, head.next_seq).map(Some)
}

fn fold_rows(
    connection: &Connection,
    watch: &mut Watch,
    run: i64,
    max: usize,
    mut from: i64,
    to: i64,
) -> Result<i64, StoreError> {
    let mut left = max;
    while from < to && left > 0 {
        let rest = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        let page = read::first_told(connection, run, from, rest.min(left).min(PAGE))?;
        if page.is_empty() {
            return Err(StoreError::Damaged(format!("record {from} is missing")));
        }
        for record in &page {
            watch.engine_mut().take_in(record);
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
    let saved: Option<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT next_seq, zstd FROM checkpoints WHERE run = ?1")?
        .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // One that does not unpack is like one that does not restore: the fold is made again.
    Ok(saved.map(|(folded, packed)| {
        let bytes = zstd::bulk::decompress(&packed, CHECKPOINT_MAX).unwrap_or_default();
        (folded, Checkpoint::from(bytes))
    }))
}

/// Packed, a checkpoint fits into one page of the database beside its key.
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
