//! Batches: events of one run, evaluated before anything is written.
//!
//! The engine works before the transaction begins, on what the store holds then. The transaction
//! only checks that the run has not changed since (its hash chain tells) and writes. If another
//! process was faster, the batch is stale and is evaluated again. So no provider, rule or template
//! of a user runs while the store is locked, and records, deliveries and checkpoint always agree.
//! Batches of several runs can share one commit.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use midcourse_core::{Checkpoint, RunId, Step};
use rusqlite::Connection;

use super::Store;
use super::append::{self, Appended, RunHead, run_head};
use super::checkpoint::{MAX_RECORDS_PER_STEP, catch_up, save_checkpoint};
use super::error::StoreError;
use super::loss::LossNote;
use super::prepare::{PreparedEvent, PreparedRecord};
use super::settings::StoreSettings;
use super::spill;
use super::synced_engine::SyncedEngine;
use crate::data_dir::DataDir;
use crate::event::{Channel, Event, Source};
use crate::sink::Recorded;

/// Events of one run, with what the engine concluded from them.
pub struct Batch {
    run: RunId,
    /// The run's head when the batch was evaluated.
    head: Option<RunHead>,
    entries: Vec<Entry>,
    step: Step,
    progress: Progress,
}

/// Something to store.
enum Entry {
    /// A reported event: a new record, or another report of a stored one. The seq is the one that
    /// the engine was shown, if it was shown the event.
    Event(Box<PreparedEvent>, Option<u64>),
    /// An outcome or a delivery, which follows the event before it.
    Conclusion(Box<PreparedRecord>),
}

/// How far the engine has followed the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It was not needed yet.
    NotNeeded,
    /// It has seen every record so far.
    Current,
    /// It has seen this many records of the run; a later step takes in the rest.
    Behind(i64),
    /// It cannot predict the run: an event moves records of another run into it.
    Unknown,
}

impl Batch {
    /// Prepares events of one run. Call [`Store::evaluate`] before it is committed.
    pub fn new(
        events: impl IntoIterator<Item = Event>,
        settings: &StoreSettings,
    ) -> Result<Self, StoreError> {
        let prepare = |event| PreparedEvent::new(event, settings);
        let events: Vec<_> = events.into_iter().map(prepare).collect::<Result<_, StoreError>>()?;
        Self::of(events)
    }

    pub(super) fn of(events: Vec<PreparedEvent>) -> Result<Self, StoreError> {
        let Some(first) = events.first() else {
            return Err(StoreError::Rejected("a batch needs an event".to_owned()));
        };
        let run = first.run.run_id.clone();
        if events.iter().any(|event| event.run.run_id != run) {
            return Err(StoreError::Rejected("a batch holds events of one run only".to_owned()));
        }
        let entries = events.into_iter().map(|event| Entry::Event(Box::new(event), None)).collect();
        let (head, step, progress) = (None, Step::default(), Progress::NotNeeded);
        Ok(Self { run, head, entries, step, progress })
    }

    /// The run of the events.
    pub const fn run_id(&self) -> &RunId {
        &self.run
    }

    /// What the engine concluded from the events.
    pub const fn step(&self) -> &Step {
        &self.step
    }

    /// What the engine concluded from the events.
    pub fn into_step(self) -> Step {
        self.step
    }

    pub(super) fn take_step(&mut self) -> Step {
        std::mem::take(&mut self.step)
    }

    /// Takes away the permission to deliver messages: the batch has to be evaluated again and then
    /// has no deliveries.
    pub fn forbid_deliveries(&mut self) {
        for entry in &mut self.entries {
            if let Entry::Event(event, _) = entry {
                event.decision_point = None;
            }
        }
    }

    /// Writes the events to the spill folder, durably. Those that cannot be written are lost, which
    /// is noted; the first error is returned.
    pub fn spill(&self, data_dir: &DataDir) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut failed = None;
        for event in self.events() {
            match spill::write(data_dir, event) {
                Ok(file) => files.push(file),
                Err(error) => {
                    // If this fails too, the error still reaches the caller.
                    let _ = LossNote::write(data_dir, &self.run);
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(files), Err)
    }

    /// The gap marker for events of this run that were lost before it.
    pub(super) fn gap_marker(&self, note: &LossNote) -> Option<Event> {
        let first = self.events().next()?;
        Some(note.gap_marker(&first.run, first.prepared.record.at()))
    }

    fn events(&self) -> impl Iterator<Item = &PreparedEvent> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Event(event, _) => Some(&**event),
            Entry::Conclusion(_) => None,
        })
    }

    /// Forgets an earlier evaluation.
    fn reset(&mut self, head: Option<RunHead>) {
        self.entries.retain(|entry| matches!(entry, Entry::Event(..)));
        self.head = head;
        self.step = Step::default();
        self.progress = Progress::NotNeeded;
    }

    /// The engine's state after the batch, if it follows the run.
    fn checkpoint(&self, engine: &SyncedEngine) -> Option<Checkpoint> {
        let has_seen = matches!(self.progress, Progress::Current | Progress::Behind(_));
        has_seen.then(|| engine.engine().checkpoint().ok()).flatten()
    }

    /// Writes the batch; `None` if it is stale.
    fn write(
        &self,
        connection: &Connection,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<Written>, StoreError> {
        if run_head(connection, self.run.as_str())? != self.head {
            return Ok(None);
        }
        let mut appended = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Event(event, expected) => {
                    let done = append::append(connection, event)?;
                    if let (Appended::New(seq), Some(expected)) = (&done, expected) {
                        check_seq(*seq, *expected)?;
                    }
                    appended.push(done);
                }
                Entry::Conclusion(prepared) => {
                    let mut head = self.current_head(connection)?;
                    let seq = append::insert(connection, &mut head, prepared)?;
                    check_seq(seq, prepared.record.seq)?;
                }
            }
        }
        let head = self.current_head(connection)?;
        let folded = match self.progress {
            Progress::Behind(folded) => folded,
            _ => head.next_seq,
        };
        if let Some(checkpoint) = checkpoint {
            save_checkpoint(connection, head.id, folded, checkpoint)?;
        }
        Ok(Some(Written { appended, head }))
    }

    fn current_head(&self, connection: &Connection) -> Result<RunHead, StoreError> {
        run_head(connection, self.run.as_str())?
            .ok_or_else(|| StoreError::Damaged(format!("run {} vanished", self.run)))
    }

    /// The stored records of the events, once the batch is committed.
    fn take_records(&mut self, appended: Vec<Appended>) -> Vec<Recorded> {
        let events =
            std::mem::take(&mut self.entries).into_iter().filter_map(|entry| match entry {
                Entry::Event(event, _) => Some(event),
                Entry::Conclusion(_) => None,
            });
        events.zip(appended).map(|(event, appended)| super::recorded(*event, appended)).collect()
    }
}

/// The engine numbers its conclusions itself; those numbers have to be the ones that are stored.
fn check_seq(stored: u64, expected: u64) -> Result<(), StoreError> {
    if stored == expected {
        return Ok(());
    }
    let error = format!("a record was to be stored at seq {expected} and would be at {stored}");
    Err(StoreError::Damaged(error))
}

/// What writing a batch led to.
struct Written {
    appended: Vec<Appended>,
    head: RunHead,
}

impl Store {
    /// Shows the events of a batch to the engine and keeps what it concludes. Writes nothing.
    pub fn evaluate(&self, batch: &mut Batch, engine: &mut SyncedEngine) -> Result<(), StoreError> {
        let start = Instant::now();
        while !self.try_evaluate(batch, engine)? {
            if start.elapsed() >= self.settings.busy_timeout {
                return Err(StoreError::Locked);
            }
        }
        Ok(())
    }

    /// One attempt; `false` if another process changed the run meanwhile.
    fn try_evaluate(
        &self,
        batch: &mut Batch,
        engine: &mut SyncedEngine,
    ) -> Result<bool, StoreError> {
        // One read transaction: the run does not change while it is looked at.
        let snapshot = self.connection.unchecked_transaction()?;
        let head = run_head(&snapshot, batch.run.as_str())?;
        batch.reset(head);
        let next_seq = head.map_or(0, |head| u64::try_from(head.next_seq).unwrap_or_default());
        let mut evaluation = Evaluation {
            connection: &snapshot,
            settings: &self.settings,
            next_seq,
            facts: HashSet::new(),
        };
        let mut entries = std::mem::take(&mut batch.entries).into_iter();
        let mut done = Ok(true);
        for entry in entries.by_ref() {
            let Entry::Event(event, _) = entry else { continue };
            done = evaluation.add(batch, event, engine);
            if !matches!(done, Ok(true)) {
                break;
            }
        }
        // The batch keeps the events that were not reached.
        batch.entries.extend(entries);
        // Until the batch is committed the engine is ahead of the store.
        engine.clear_position();
        done
    }

    /// Writes batches with one commit. The result of a stale batch is `None`: nothing of it is
    /// written, and it has to be evaluated again.
    pub fn commit(
        &mut self,
        batches: &mut [(&mut Batch, &mut SyncedEngine)],
    ) -> Result<Vec<Option<Vec<Recorded>>>, StoreError> {
        let checkpoints: Vec<_> =
            batches.iter().map(|(batch, engine)| batch.checkpoint(engine)).collect();
        let written = self.write(|connection| {
            let batches = batches.iter().zip(&checkpoints);
            let write = |((batch, _), checkpoint): (&(&mut Batch, _), &Option<Checkpoint>)| {
                batch.write(connection, checkpoint.as_ref())
            };
            batches.map(write).collect::<Result<Vec<_>, _>>()
        })?;
        let mut results = Vec::with_capacity(written.len());
        for ((batch, engine), written) in batches.iter_mut().zip(written) {
            results.push(written.map(|Written { appended, head }| {
                if batch.progress == Progress::Current {
                    engine.set_position(&batch.run, head.link);
                }
                batch.take_records(appended)
            }));
        }
        Ok(results)
    }
}

/// A batch while it is evaluated.
struct Evaluation<'a> {
    connection: &'a Connection,
    settings: &'a StoreSettings,
    next_seq: u64,
    /// The facts of the batch itself, by payload kind.
    facts: HashSet<(&'static str, String)>,
}

impl Evaluation<'_> {
    /// Adds an event to the batch, with what the engine concludes from it; `false` if another
    /// process changed the run meanwhile.
    fn add(
        &mut self,
        batch: &mut Batch,
        mut event: Box<PreparedEvent>,
        engine: &mut SyncedEngine,
    ) -> Result<bool, StoreError> {
        let mut done = Ok(true);
        let mut is_new = false;
        if event.adopts.is_some() {
            batch.progress = Progress::Unknown;
        } else {
            match self.is_stored(batch, &event) {
                Ok(is_stored) => is_new = !is_stored,
                Err(error) => done = Err(error),
            }
        }
        if is_new && batch.progress == Progress::NotNeeded {
            done = self.start(batch, engine);
        }
        if is_new && batch.progress == Progress::Current {
            self.step(batch, event, engine)?;
            return done;
        }
        self.next_seq = self.next_seq.saturating_add(u64::from(is_new));
        // The engine was not asked about this event, so a replay must not ask either.
        event.prepared.decision_point = None;
        batch.entries.push(Entry::Event(event, None));
        done
    }

    /// Brings the engine to the run's latest record; `false` if another process changed the run
    /// meanwhile.
    fn start(&self, batch: &mut Batch, engine: &mut SyncedEngine) -> Result<bool, StoreError> {
        let head = batch.head.as_ref();
        let caught_up = catch_up(self.connection, engine, &batch.run, head, MAX_RECORDS_PER_STEP)?;
        let Some(folded) = caught_up else { return Ok(false) };
        let is_current = folded == head.map_or(0, |head| head.next_seq);
        batch.progress = if is_current { Progress::Current } else { Progress::Behind(folded) };
        Ok(true)
    }

    /// Shows a new event to the engine as the record it will be.
    fn step(
        &mut self,
        batch: &mut Batch,
        mut event: Box<PreparedEvent>,
        engine: &mut SyncedEngine,
    ) -> Result<(), StoreError> {
        event.prepared.record.seq = self.next_seq;
        event.prepared.decision_point = event.decision_point;
        let mut step = engine.engine_mut().step(&event.prepared.record, event.decision_point);
        batch.entries.push(Entry::Event(event, Some(self.next_seq)));
        self.next_seq = self.next_seq.saturating_add(1);
        for record in std::mem::take(&mut step.records) {
            let source = Source::new("midcourse", Channel::Engine);
            let prepared = PreparedRecord::new(record, source, self.settings)?;
            batch.entries.push(Entry::Conclusion(Box::new(prepared)));
            self.next_seq = self.next_seq.saturating_add(1);
        }
        batch.step.patterns.append(&mut step.patterns);
        batch.step.outcomes.append(&mut step.outcomes);
        batch.step.deliveries.append(&mut step.deliveries);
        batch.step.faults.append(&mut step.faults);
        Ok(())
    }

    /// Whether the event's fact is in the store, or earlier in the batch.
    fn is_stored(&mut self, batch: &Batch, event: &PreparedEvent) -> Result<bool, StoreError> {
        let is_stored = match &batch.head {
            Some(head) => append::is_stored(self.connection, head.id, event)?,
            None => false,
        };
        let is_new = event.prepared.fact.as_ref().is_none_or(|fact| {
            self.facts.insert((event.payload().kind(), fact.as_str().to_owned()))
        });
        Ok(is_stored || !is_new)
    }
}
