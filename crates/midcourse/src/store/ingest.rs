//! Stores the events of a short-lived process, such as a hook. An event that cannot be stored in
//! time is spilled: written to a file in the spill folder, from which the next process stores it.

use std::time::{Duration, Instant};

use midcourse_core::Step;
use uuid::Uuid;

use super::batch::Batch;
use super::error::StoreError;
use super::loss::LossNote;
use super::prepare::PreparedEvent;
use super::spill::{self, Spilled};
use super::synced_engine::SyncedEngine;
use super::writer_lock::WriterLock;
use super::{Store, StoreSettings};
use crate::data_dir::DataDir;
use crate::event::Event;
use crate::sink::Recorded;

/// Where an event went.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "short-lived: boxing would cost an allocation per event"
)]
pub enum Ingested {
    /// The event is in the store, together with what the engine concluded from it.
    Stored {
        /// The stored record of the event; of several events, that of the last.
        recorded: Recorded,
        /// What the engine concluded from the events.
        step: Box<Step>,
    },
    /// The event is in the spill folder. The next process that can write to the store stores it; by
    /// then it is too late to show the agent a message about it.
    Spilled {
        /// Why the event could not be stored.
        reason: StoreError,
        /// The event's file.
        spilled: Spilled,
    },
}

/// Stores one event, as [`Intake`] does.
pub fn ingest(
    data_dir: &DataDir,
    settings: &StoreSettings,
    event: Event,
    engine: &mut SyncedEngine,
) -> Result<Ingested, StoreError> {
    Intake::new(data_dir, settings).ingest(event, engine)
}

/// Stores the events of one short-lived process, in order and within one timeout,
/// `settings.busy_timeout`. It opens the store at the first event, and first stores the events that
/// are waiting in the spill folder.
pub struct Intake {
    data_dir: DataDir,
    settings: StoreSettings,
    start: Instant,
    /// The open store, and the lock that makes other short-lived processes wait until this one has
    /// written. `None` before the first event.
    opened: Option<(Store, WriterLock)>,
    /// Why an event could not be stored; `None` as long as all events were stored. After a failure,
    /// all later events are written to the spill folder, so that they stay in order.
    failed: Option<StoreError>,
}

impl Intake {
    /// The time begins to run.
    pub fn new(data_dir: &DataDir, settings: &StoreSettings) -> Self {
        Self {
            data_dir: data_dir.clone(),
            settings: settings.clone().in_data_dir(data_dir),
            start: Instant::now(),
            opened: None,
            failed: None,
        }
    }

    fn remaining(&self) -> Duration {
        self.settings.busy_timeout.saturating_sub(self.start.elapsed())
    }

    /// Evaluates and stores an event. If that fails or takes too long, the event is written to the
    /// spill folder. An error means that the event is malformed, or that it is lost because the
    /// spill folder cannot be written either.
    pub fn ingest(
        &mut self,
        event: Event,
        engine: &mut SyncedEngine,
    ) -> Result<Ingested, StoreError> {
        let event = self.prepare(event)?;
        self.ingest_batch(Batch::of(vec![event])?, engine)
    }

    /// Evaluates and stores events as [`Self::ingest`] does, neighbouring events of one run with one
    /// commit. Returns what became of each group of events, and the error of each malformed event.
    pub fn ingest_all(
        &mut self,
        events: Vec<Event>,
        engine: &mut SyncedEngine,
    ) -> Vec<Result<Ingested, StoreError>> {
        let mut results = Vec::new();
        let mut group: Vec<PreparedEvent> = Vec::new();
        for event in events {
            let event = match self.prepare(event) {
                Ok(event) => event,
                Err(error) => {
                    results.push(Err(error));
                    continue;
                }
            };
            if group.first().is_some_and(|first| first.run.run_id != event.run.run_id) {
                results.push(self.ingest_group(std::mem::take(&mut group), engine));
            }
            group.push(event);
        }
        if !group.is_empty() {
            results.push(self.ingest_group(group, engine));
        }
        results
    }

    fn ingest_group(
        &mut self,
        group: Vec<PreparedEvent>,
        engine: &mut SyncedEngine,
    ) -> Result<Ingested, StoreError> {
        self.ingest_batch(Batch::of(group)?, engine)
    }

    fn prepare(&self, event: Event) -> Result<PreparedEvent, StoreError> {
        let run_id = event.run.run_id.clone();
        let mut event = PreparedEvent::new(event, &self.settings).inspect_err(|_| {
            // The caller gets the error. The lost event is counted, so that the next process that
            // writes to this run stores a gap marker (a record with the number of lost events).
            let _ = LossNote::write(&self.data_dir, &run_id);
        })?;
        // A commit that reports a failure may have succeeded all the same. The event is then in the
        // store and in the spill folder. By this key the second one is recognised as a duplicate.
        event.prepared.fact.get_or_insert_with(|| format!("once:{}", Uuid::now_v7()).into());
        Ok(event)
    }

    fn ingest_batch(
        &mut self,
        mut batch: Batch,
        engine: &mut SyncedEngine,
    ) -> Result<Ingested, StoreError> {
        let stored = match &self.failed {
            Some(reason) => Err(reason.clone()),
            None => self.store(&mut batch, engine),
        };
        match stored {
            Ok((recorded, step)) => Ok(Ingested::Stored { recorded, step: Box::new(step) }),
            Err(reason) => {
                self.failed = Some(reason.clone());
                let mut spilled = batch.spill(&self.data_dir)?;
                // The caller reports one event; one that is only kept in memory is worth more.
                let at = spilled.iter().position(|it| it.disk_error.is_some()).unwrap_or_default();
                match (!spilled.is_empty()).then(|| spilled.swap_remove(at)) {
                    Some(spilled) => Ok(Ingested::Spilled { reason, spilled }),
                    None => Err(reason),
                }
            }
        }
    }

    fn store(
        &mut self,
        batch: &mut Batch,
        engine: &mut SyncedEngine,
    ) -> Result<(Recorded, Step), StoreError> {
        let mut opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.open()?,
        };
        let done = self.store_in(&mut opened.0, batch, engine);
        self.opened = Some(opened);
        done
    }

    fn store_in(
        &self,
        store: &mut Store,
        batch: &mut Batch,
        engine: &mut SyncedEngine,
    ) -> Result<(Recorded, Step), StoreError> {
        store.set_busy_timeout(self.remaining())?;
        if let Some(note) = LossNote::read(&self.data_dir, batch.run_id())
            && let Some(marker) = batch.gap_marker(&note)
        {
            store.append(marker)?;
            // If the note cannot be removed, the next process writes the same gap marker again,
            // which is recognised as a duplicate.
            let _ = note.remove(&self.data_dir);
            store.set_busy_timeout(self.remaining())?;
        }
        store.step_batch(batch, engine)
    }

    /// Opens the store and first stores all events from the spill folder, because they are older.
    fn open(&self) -> Result<(Store, WriterLock), StoreError> {
        let mut store = Store::open(&self.data_dir, self.settings.clone())?;
        let lock = WriterLock::wait(&self.data_dir, self.remaining() / 2);
        loop {
            store.set_busy_timeout(self.remaining())?;
            match store.ingest_spilled() {
                Ok(0) => break,
                Ok(_) if self.remaining().is_zero() => return Err(StoreError::Locked),
                Ok(_) => {}
                Err(StoreError::Locked) => return Err(StoreError::Locked),
                // A broken spill folder must not keep this event out of the store.
                Err(_) => break,
            }
        }
        Ok((store, lock))
    }
}

/// Redacts an event and writes it to the spill folder, or to memory if the disk cannot take it. On an
/// error the event is lost, and it is counted.
pub fn spill_event(
    data_dir: &DataDir,
    event: Event,
    settings: &StoreSettings,
) -> Result<Spilled, StoreError> {
    let run_id = event.run.run_id.clone();
    let settings = settings.clone().in_data_dir(data_dir);
    let event = PreparedEvent::new(event, &settings).inspect_err(|_| {
        // The caller gets the error.
        let _ = LossNote::write(data_dir, &run_id);
    })?;
    Ok(spill::write(data_dir, &event)?)
}
