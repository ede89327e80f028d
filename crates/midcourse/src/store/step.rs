//! A step of a watched run: the event, what is said about it and the checkpoint, all or nothing.
//!
//! The engine works before the transaction is begun, on what the store held then; the transaction
//! only looks whether the run is still where it was (its hash chain tells), and writes. If another
//! process was faster, everything is done anew. So no provider, rule or template of a user ever
//! runs while the store is locked, and the record, the words and the fold never disagree.

use std::time::Instant;

use midcourse_core::{Checkpoint, DecisionPoint, Delivery, Fault, Outcome, TrajectoryRecord};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::append::{self, RunHead, run_head};
use super::draft::Draft;
use super::error::StoreError;
use super::settings::StoreSettings;
use super::{Store, read};
use crate::event::{Event, Source};
use crate::relation::Standing;
use crate::sink::Recorded;
use crate::watch::{Seen, Watch, watch};

/// Records folded in one step where the checkpoint is behind: after an upgrade the fold is made
/// again, over several steps if the run is long, so that no step takes long.
const FOLD_MAX: usize = 20_000;

/// No checkpoint is nearly as long as this, in bytes.
const CHECKPOINT_MAX: usize = 1024 * 1024;

/// Records read at a time while folding.
const PAGE: usize = 256;

/// What became of an event of a watched run.
#[derive(Debug)]
pub struct Step {
    /// Its record.
    pub recorded: Recorded,
    /// What is to be said, where and why. It is on record already.
    pub said: Vec<(DecisionPoint, Delivery)>,
    /// What followed things said before. It is on record too.
    pub outcomes: Vec<Outcome>,
    /// Providers and detectors that failed and were skipped.
    pub faults: Vec<Fault>,
}

impl Store {
    /// Records an event, watches it, and records what is said about it.
    pub fn step(
        &mut self,
        event: Event,
        watch: &mut Watch,
        point: Option<DecisionPoint>,
    ) -> Result<Step, StoreError> {
        let draft = Draft::new(event, &self.settings)?;
        self.step_draft(&draft, watch, point)
    }

    pub(super) fn step_draft(
        &mut self,
        draft: &Draft,
        watch: &mut Watch,
        point: Option<DecisionPoint>,
    ) -> Result<Step, StoreError> {
        let (begun, patience) = (Instant::now(), self.settings.patience);
        let stepped = loop {
            match self.try_step(draft, watch, point) {
                Ok(None) if begun.elapsed() < patience => {
                    self.set_patience(patience.saturating_sub(begun.elapsed()))?;
                }
                Ok(None) => break Err(StoreError::Locked),
                Ok(Some(step)) => break Ok(step),
                Err(error) => break Err(error),
            }
        };
        self.set_patience(patience)?;
        if stepped.is_err() {
            watch.lost_its_place();
        }
        stepped
    }

    /// One attempt; nothing, if another process was faster.
    fn try_step(
        &mut self,
        draft: &Draft,
        watch: &mut Watch,
        point: Option<DecisionPoint>,
    ) -> Result<Option<Step>, StoreError> {
        let run_id = &draft.run.run_id;
        let head = run_head(&self.connection, run_id.as_str())?;
        if draft.adopts.is_some() || self.is_known(head.as_ref(), draft)? {
            watch.lost_its_place();
            let recorded = self.append_draft(draft)?;
            return Ok(Some(Step {
                recorded,
                said: Vec::new(),
                outcomes: Vec::new(),
                faults: Vec::new(),
            }));
        }
        let caught_up = catch_up(&self.connection, watch, run_id, head.as_ref(), FOLD_MAX)?;
        let Some(folded) = caught_up else { return Ok(None) };
        let place = head.map_or(0, |head| head.next_seq);
        let seq = u64::try_from(place).unwrap_or_default();
        let is_current = folded == place;
        let (mut seen, mut next) = (Seen::default(), seq);
        if is_current {
            seen = watch_record(watch, draft, point, seq, &mut next);
        }
        let checkpoint = watch.engine().checkpoint().ok();
        let opinions = opinions(draft, &seen)?;
        watch.lost_its_place();

        let written = self.write(|connection| {
            if run_head(connection, run_id.as_str())? != head {
                return Ok(None);
            }
            let settled = append::settle(connection, draft)?;
            let mut head = run_head(connection, run_id.as_str())?
                .ok_or_else(|| StoreError::Damaged("a run vanished".to_owned()))?;
            for opinion in &opinions {
                append::insert(connection, &mut head, opinion)?;
            }
            if let Some(checkpoint) = checkpoint {
                let folded = if is_current { head.next_seq } else { folded };
                save_checkpoint(connection, head.id, folded, &checkpoint)?;
            }
            Ok(Some((settled.record, head.link)))
        })?;
        let Some((record, link)) = written else { return Ok(None) };
        if is_current {
            watch.came_to(run_id, link);
        }
        let recorded = Recorded { record, standing: Standing::New };
        let Seen { said, outcomes, faults, .. } = seen;
        Ok(Some(Step { recorded, said, outcomes, faults }))
    }

    fn is_known(&self, head: Option<&RunHead>, draft: &Draft) -> Result<bool, StoreError> {
        head.map_or(Ok(false), |head| append::is_known(&self.connection, head.id, draft))
    }

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

/// Shows the engine the draft as the record it will be.
fn watch_record(
    watching: &mut Watch,
    draft: &Draft,
    point: Option<DecisionPoint>,
    seq: u64,
    next: &mut u64,
) -> Seen {
    watch(watching.engine_mut(), &draft.record(seq), point, || {
        *next = next.saturating_add(1);
        *next
    })
}

/// The records of what the engine concluded, ready to be stored.
fn opinions(draft: &Draft, seen: &Seen) -> Result<Vec<Draft>, StoreError> {
    let (settings, source) = (StoreSettings::default(), Source::new("midcourse", "engine"));
    let ready = |record: &TrajectoryRecord| {
        let payload = record.payload.clone();
        Draft::new(Event::new(draft.run.clone(), source.clone(), record.at(), payload), &settings)
    };
    seen.records.iter().map(ready).collect()
}

/// Brings the engine to the run's latest record, or `max` records nearer; returns how many records
/// it has folded, or nothing if the run has moved on meanwhile.
fn catch_up(
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
fn save_checkpoint(
    connection: &Connection,
    run: i64,
    folded: i64,
    checkpoint: &Checkpoint,
) -> Result<(), StoreError> {
    let packed = zstd::bulk::compress(checkpoint.as_bytes(), 1)?;
    connection
        .prepare_cached(
            "INSERT INTO checkpoints (run, next_seq, zstd) VALUES (?1, ?2, ?3) \
             ON CONFLICT (run) DO UPDATE SET next_seq = excluded.next_seq, zstd = excluded.zstd",
        )?
        .execute(params![run, folded, packed])?;
    Ok(())
}
