//! Numbers the events of many runs, in memory, for the sinks that do not use the database.
//!
//! Several reports of the same event become one record. A parent run that has no record gets one
//! before its child run does. Events that arrive before the id of their run is known are in a
//! provisional run; its records move into the real run as soon as an event of the real run names
//! the provisional one.

use std::collections::HashMap;

use midcourse_core::{RunId, RunIdentity, TrajectoryPayload, TrajectoryRecord};
use serde::Deserialize as _;
use serde_json::Value;

use super::{Recorded, TrajectoryError};
use crate::dedupe::{Comparison, RecordStatus, compare, merge, other_end};
use crate::event::{Channel, Event, FactKey, Source};

/// Holds the records of all runs, and adds events to them.
#[derive(Debug, Default)]
pub(super) struct Sequencer {
    runs: HashMap<RunId, Vec<Entry>>,
}

/// A record, and what is needed to recognise another report of the same event.
#[derive(Debug, Clone)]
struct Entry {
    record: TrajectoryRecord,
    /// The payload of the first report, without the fields that later reports added.
    first_reported: TrajectoryPayload,
    fact: Option<FactKey>,
    source: Source,
}

/// The result of adding an event to its run.
pub(super) struct Placed {
    pub(super) recorded: Recorded,
    /// The new records in order: the start of a parent run that was missing, the records that moved
    /// in from a provisional run, and the record of the event itself.
    pub(super) new: Vec<TrajectoryRecord>,
    /// What is needed to take the change back: each changed run with the records that it had
    /// before, or with `None` if the run is new. If the list is empty, nothing changed except that
    /// the event may have become a new last record of its run, which is then removed.
    undo: Vec<(RunId, Option<Vec<Entry>>)>,
}

impl Sequencer {
    pub(super) fn records(&self, run_id: &RunId) -> Vec<TrajectoryRecord> {
        let entries = self.runs.get(run_id).into_iter().flatten();
        entries.map(|entry| entry.record.clone()).collect()
    }

    /// All records, run by run in the order of their ids.
    pub(super) fn all(&self) -> Vec<TrajectoryRecord> {
        let mut ids: Vec<_> = self.runs.keys().collect();
        ids.sort_unstable();
        ids.into_iter().flat_map(|id| self.records(id)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.runs.values().map(Vec::len).sum()
    }

    /// Gives an event the next seq and adds it to its run. If the same event was reported before,
    /// adds no record, but merges fields that the existing record lacks into it.
    pub(super) fn place(&mut self, event: Event) -> Result<Placed, TrajectoryError> {
        let (mut new, mut undo) = (Vec::new(), Vec::new());
        self.ensure_parent(&event, &mut new, &mut undo);
        let run_id = event.run.run_id.clone();
        let changes_others = event.adopts.is_some()
            || matches!(event.payload, TrajectoryPayload::RunStarted { .. })
            || event.fact.is_some();
        if changes_others {
            undo.push((run_id.clone(), self.runs.get(&run_id).cloned()));
        }
        self.adopt(&event, &mut new, &mut undo);
        let entries = self.runs.entry(run_id).or_default();
        if let TrajectoryPayload::RunStarted { identity } = &event.payload
            && identity.run_id == event.run.run_id
        {
            for entry in entries.iter_mut().filter(|entry| entry.record.parent_run_id.is_none()) {
                entry.record = entry.record.clone().in_run(identity);
            }
        }
        let same_fact = entries.iter_mut().find(|entry| {
            event.fact.is_some()
                && entry.fact == event.fact
                && entry.record.payload.kind() == event.payload.kind()
        });
        let recorded = if let Some(entry) = same_fact {
            report(entry, &event)?
        } else if let Some(entry) = earlier_entry(entries, &event) {
            Recorded { record: entry.record.clone(), status: RecordStatus::Duplicate }
        } else {
            let entry = Entry::new(event, next_seq(entries));
            let record = entry.record.clone();
            entries.push(entry);
            new.push(record.clone());
            Recorded { record, status: RecordStatus::New }
        };
        Ok(Placed { recorded, new, undo })
    }

    /// Takes back the changes of an event that could not be written.
    pub(super) fn undo(&mut self, placed: Placed) {
        if placed.undo.is_empty() {
            let run_id = placed.recorded.record.run_id;
            if let (Some(run_id), RecordStatus::New) = (run_id, placed.recorded.status)
                && let Some(entries) = self.runs.get_mut(&run_id)
            {
                entries.pop();
            }
            return;
        }
        for (run_id, before) in placed.undo.into_iter().rev() {
            match before {
                Some(entries) => drop(self.runs.insert(run_id, entries)),
                None => drop(self.runs.remove(&run_id)),
            }
        }
    }

    fn ensure_parent(
        &mut self,
        event: &Event,
        new: &mut Vec<TrajectoryRecord>,
        undo: &mut Vec<(RunId, Option<Vec<Entry>>)>,
    ) {
        let Some(parent_id) = &event.run.parent_run_id else { return };
        if *parent_id == event.run.run_id || self.runs.contains_key(parent_id) {
            return;
        }
        let mut identity = RunIdentity::root(parent_id.as_str());
        identity.depth = event.run.depth.saturating_sub(1);
        identity.conversation_id = event.run.conversation_id.clone();
        let started = TrajectoryPayload::RunStarted { identity: identity.clone() };
        let source = Source::new("midcourse", Channel::Store);
        let entry = Entry::new(Event::new(identity, source, event.at, started), 0);
        undo.push((parent_id.clone(), None));
        undo.push((event.run.run_id.clone(), self.runs.get(&event.run.run_id).cloned()));
        new.push(entry.record.clone());
        self.runs.insert(parent_id.clone(), vec![entry]);
    }

    /// If the event names a provisional run, moves the records of that run into the event's run.
    fn adopt(
        &mut self,
        event: &Event,
        new: &mut Vec<TrajectoryRecord>,
        undo: &mut Vec<(RunId, Option<Vec<Entry>>)>,
    ) {
        let provisional = event.adopts.as_ref().filter(|id| **id != event.run.run_id);
        let Some((id, adopted)) = provisional.and_then(|id| self.runs.remove_entry(id)) else {
            return;
        };
        undo.push((id, Some(adopted.clone())));
        let entries = self.runs.entry(event.run.run_id.clone()).or_default();
        for mut entry in adopted {
            let is_same_fact = |other: &Entry| {
                other.fact == entry.fact
                    && other.record.payload.kind() == entry.record.payload.kind()
            };
            if entry.fact.is_some() && entries.iter().any(is_same_fact) {
                continue;
            }
            entry.record = entry.record.in_run(&event.run);
            entry.record.seq = next_seq(entries);
            new.push(entry.record.clone());
            entries.push(entry);
        }
    }
}

impl Entry {
    fn new(event: Event, seq: u64) -> Self {
        let first_reported = event.payload.clone();
        let mut record = TrajectoryRecord::new(seq, event.at, event.payload).in_run(&event.run);
        record.schema_version = event.schema_version;
        Self { record, first_reported, fact: event.fact, source: event.source }
    }
}

fn next_seq(entries: &[Entry]) -> u64 {
    u64::try_from(entries.len()).unwrap_or(u64::MAX)
}

/// Finds the record that this event duplicates if no record has both the fact key and the payload
/// kind of the event. For the result of a tool call that is the denial of this call, and vice
/// versa. For an event that sets `dedupe_consecutive`, it is also the record directly before, if
/// that is equal and from the same source.
fn earlier_entry<'a>(entries: &'a [Entry], event: &Event) -> Option<&'a Entry> {
    let ended = other_end(&event.payload).filter(|_| event.fact.is_some()).and_then(|kind| {
        let is_end =
            |entry: &&Entry| entry.fact == event.fact && entry.record.payload.kind() == kind;
        entries.iter().find(is_end)
    });
    ended.or_else(|| {
        let latest = entries.iter().rev().find(|entry| !entry.record.payload.is_conclusion())?;
        let is_equal = event.dedupe_consecutive
            && latest.source == event.source
            && latest.first_reported == event.payload;
        is_equal.then_some(latest)
    })
}

/// Compares a further report of an event with the existing record, and adds fields that the record
/// lacks.
fn report(entry: &mut Entry, event: &Event) -> Result<Recorded, TrajectoryError> {
    let same_source = entry.source == event.source;
    let stored = if same_source { &entry.first_reported } else { &entry.record.payload };
    let (mut value, reported) = (to_value(stored)?, to_value(&event.payload)?);
    let status = match compare(&value, &reported, same_source) {
        Comparison::Same => RecordStatus::Duplicate,
        Comparison::Conflicts => RecordStatus::Conflict,
        Comparison::Adds(added) => {
            merge(&mut value, &added);
            entry.record.payload = TrajectoryPayload::deserialize(&value)
                .map_err(|error| TrajectoryError::Rejected(error.to_string()))?;
            RecordStatus::Merged
        }
    };
    Ok(Recorded { record: entry.record.clone(), status })
}

fn to_value(payload: &TrajectoryPayload) -> Result<Value, TrajectoryError> {
    serde_json::to_value(payload).map_err(|error| TrajectoryError::Rejected(error.to_string()))
}
