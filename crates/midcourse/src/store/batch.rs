//! Batches: events of one run, which the engine analyses before they are written.
//!
//! The engine runs before the transaction begins, so no provider, rule or template of a user runs
//! while the store is locked. The transaction first checks, by the run's latest hash, that the run
//! is still as the engine saw it. Then it writes the events, the messages for the agent and the
//! engine's state together, so that these always agree. If another process wrote to the run in
//! between, the batch is stale: nothing is written, and the batch is evaluated again. Batches of
//! several runs can share one commit.

use std::collections::HashSet;
use std::io;
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
use super::spill::{self, Spilled};
use super::summaries;
use super::synced_engine::SyncedEngine;
use crate::data_dir::DataDir;
use crate::event::{Channel, Event, Source};
use crate::sink::Recorded;

/// Events of one run, with what the engine concluded from them.
pub struct Batch {
    run: RunId,
    /// The end of the run when the batch was evaluated; `None` if the run was not stored then. If
    /// the run has grown since, the batch is stale.
    head: Option<RunHead>,
    entries: Vec<Entry>,
    step: Step,
    progress: Progress,
}

/// One thing that the transaction stores.
enum Entry {
    /// An event: it becomes a new record, or another report of a stored one. The number is the seq
    /// under which the engine saw it; `None` if the engine did not see it.
    Event(Box<PreparedEvent>, Option<u64>),
    /// A record that the engine made after it saw the event before this entry: a message for the
    /// agent, or what followed an earlier message.
    Conclusion(Box<PreparedRecord>),
}

/// Whether the engine has seen all records of the run, including those that the batch will add.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// So far, the batch has no event that the engine has to see.
    NotNeeded,
    /// The engine has seen every record so far.
    Current,
    /// The engine has seen only this many records of the run, because one evaluation shows it at
    /// most [`MAX_RECORDS_PER_STEP`] stored records. Later evaluations show it the rest.
    Behind(i64),
    /// Not known, because an event of the batch moves records of another run into this run, and
    /// that happens only in the transaction.
    Unknown,
}

impl Batch {
    /// Redacts and compresses events of one run. Call [`Store::evaluate`] with the batch, and then
    /// [`Store::commit`]. Fails if there is no event, or if the events are not all of one run.
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

    /// What the engine concluded from the events; empty before the batch is evaluated.
    pub const fn step(&self) -> &Step {
        &self.step
    }

    /// Consumes the batch and returns what the engine concluded from the events.
    pub fn into_step(self) -> Step {
        self.step
    }

    pub(super) fn take_step(&mut self) -> Step {
        std::mem::take(&mut self.step)
    }

    /// Forbids messages about the events, for example because it is too late to show them to the
    /// agent. Evaluate the batch again after this call; it then has no messages.
    pub fn forbid_deliveries(&mut self) {
        for entry in &mut self.entries {
            if let Entry::Event(event, _) = entry {
                event.decision_point = None;
            }
        }
    }

    /// Writes the events to the spill folder, from which the next process stores them. An event that
    /// the disk cannot take is lost and is counted, so that the next process stores a gap marker (a
    /// record with the number of lost events), unless it finds a copy in memory. Returns the first
    /// error.
    pub fn spill(&self, data_dir: &DataDir) -> io::Result<Vec<Spilled>> {
        let mut spilled = Vec::new();
        let mut failed = None;
        for event in self.events() {
            match spill::write(data_dir, event) {
                Ok(event) => spilled.push(event),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(spilled), Err)
    }

    /// A gap marker with the number of lost events in `note`; `None` if the batch is empty.
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

    /// Removes what the engine concluded before, so that the batch can be evaluated again.
    fn reset(&mut self, head: Option<RunHead>) {
        self.entries.retain(|entry| matches!(entry, Entry::Event(..)));
        self.head = head;
        self.step = Step::default();
        self.progress = Progress::NotNeeded;
    }

    /// The engine's state after it saw the batch, to be saved with it. `None` if the engine saw no
    /// event of the batch, or if its state cannot be saved.
    fn checkpoint(&self, engine: &SyncedEngine) -> Option<Checkpoint> {
        let has_seen = matches!(self.progress, Progress::Current | Progress::Behind(_));
        has_seen.then(|| engine.engine().checkpoint().ok()).flatten()
    }

    /// Writes the batch. Returns `None`, and writes nothing, if the run has changed since the
    /// evaluation.
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
        match self.progress {
            Progress::Current if self.head.is_none() => summaries::set_engine(connection, head.id)?,
            Progress::Behind(_) | Progress::Unknown => {
                summaries::clear_engine(connection, head.id)?
            }
            Progress::Current | Progress::NotNeeded => {}
        }
        summaries::add_patterns(connection, head.id, &self.step.patterns)?;
        Ok(Some(Written { appended, head }))
    }

    fn current_head(&self, connection: &Connection) -> Result<RunHead, StoreError> {
        run_head(connection, self.run.as_str())?
            .ok_or_else(|| StoreError::Damaged(format!("run {} vanished", self.run)))
    }

    /// The stored records of the events, after the batch was committed.
    fn take_records(&mut self, appended: Vec<Appended>) -> Vec<Recorded> {
        let events =
            std::mem::take(&mut self.entries).into_iter().filter_map(|entry| match entry {
                Entry::Event(event, _) => Some(event),
                Entry::Conclusion(_) => None,
            });
        events.zip(appended).map(|(event, appended)| super::recorded(*event, appended)).collect()
    }
}

/// Checks that a record was stored at the seq under which the engine saw it.
fn check_seq(stored: u64, expected: u64) -> Result<(), StoreError> {
    if stored == expected {
        return Ok(());
    }
    let error = format!("a record was to be stored at seq {expected} and would be at {stored}");
    Err(StoreError::Damaged(error))
}

/// The result of writing a batch.
struct Written {
    appended: Vec<Appended>,
    head: RunHead,
}

impl Store {
    /// Shows the events of a batch to the engine and keeps what it concludes in the batch. Writes
    /// nothing to the store. If another process changes the run meanwhile, tries again until the
    /// store's timeout.
    pub fn evaluate(&self, batch: &mut Batch, engine: &mut SyncedEngine) -> Result<(), StoreError> {
        let start = Instant::now();
        while !self.try_evaluate(batch, engine)? {
            if start.elapsed() >= self.settings.busy_timeout {
                return Err(StoreError::Locked);
            }
        }
        Ok(())
    }

    /// Evaluates the batch once; returns `false` if another process changed the run meanwhile.
    fn try_evaluate(
        &self,
        batch: &mut Batch,
        engine: &mut SyncedEngine,
    ) -> Result<bool, StoreError> {
        // A read transaction, so that the run does not change while it is read.
        let snapshot = self.connection.unchecked_transaction()?;
        let head = run_head(&snapshot, batch.run.as_str())?;
        batch.reset(head);
        let next_seq = head.map_or(0, |head| u64::try_from(head.next_seq).unwrap_or_default());
        let mut evaluation = Evaluation {
            connection: &snapshot,
            settings: &self.settings,
            next_seq,
            facts: HashSet::new(),
            new: Vec::new(),
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
        // If the loop stopped early, the events that were not evaluated stay in the batch.
        batch.entries.extend(entries);
        // The engine has now seen events that are not stored yet. `commit` notes its new position.
        engine.clear_position();
        done
    }

    /// Writes batches with one commit, and returns the records of each. If another process wrote to
    /// the run of a batch after `evaluate`, the result of that batch is `None`: nothing of the
    /// batch is written, and it has to be evaluated again.
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

/// What is needed while the events of a batch are evaluated.
struct Evaluation<'a> {
    connection: &'a Connection,
    settings: &'a StoreSettings,
    next_seq: u64,
    /// Payload kind and fact key of each event earlier in the batch.
    facts: HashSet<(&'static str, String)>,
    /// The places, among the entries of the batch, of the events that become new records.
    new: Vec<usize>,
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
        if is_new {
            self.new.push(batch.entries.len());
        }
        if is_new && batch.progress == Progress::Current {
            self.step(batch, event, engine)?;
            return done;
        }
        self.next_seq = self.next_seq.saturating_add(u64::from(is_new));
        // The engine was not asked for a message here. Without a decision point, a replay of the
        // stored run does not ask it either.
        event.prepared.decision_point = None;
        batch.entries.push(Entry::Event(event, None));
        done
    }

    /// Shows the run's stored records to the engine; returns `false` if another process changed the
    /// run meanwhile.
    fn start(&self, batch: &mut Batch, engine: &mut SyncedEngine) -> Result<bool, StoreError> {
        let head = batch.head.as_ref();
        let caught_up = catch_up(self.connection, engine, &batch.run, head, MAX_RECORDS_PER_STEP)?;
        let Some(folded) = caught_up else { return Ok(false) };
        let is_current = folded == head.map_or(0, |head| head.next_seq);
        batch.progress = if is_current { Progress::Current } else { Progress::Behind(folded) };
        Ok(true)
    }

    /// Shows a new event to the engine, as the record that the transaction will store, and keeps
    /// what the engine concludes.
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
        batch.step.withheld.append(&mut step.withheld);
        batch.step.faults.append(&mut step.faults);
        Ok(())
    }

    /// Whether the event is a duplicate of a stored record, or of an event earlier in the batch.
    fn is_stored(&mut self, batch: &Batch, event: &PreparedEvent) -> Result<bool, StoreError> {
        let before = self.new.iter().rev().filter_map(|at| match batch.entries.get(*at)? {
            Entry::Event(before, _) => Some(&before.prepared),
            Entry::Conclusion(_) => None,
        });
        let before = before
            .into_iter()
            .find(|it| append::is_compared_with(event.payload(), &it.record.payload));
        let run = batch.head.map(|head| head.id);
        let is_stored = append::is_stored(self.connection, run, event, before)?;
        let is_new = event.prepared.fact.as_ref().is_none_or(|fact| {
            self.facts.insert((event.payload().kind(), fact.as_str().to_owned()))
        });
        Ok(is_stored || !is_new)
    }
}
