//! A sink that keeps everything in memory: for tests, and for programs that read it out themselves.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use midcourse_core::{RunId, RunIdentity, TrajectoryPayload, TrajectoryRecord};
use serde::Deserialize as _;
use serde_json::Value;

use super::{Recorded, Recording, TrajectoryError, TrajectorySink};
use crate::event::{Event, FactKey, Source};
use crate::relation::{Relation, Standing, fill, other_end, relate};

/// Keeps records in memory, in order, by run.
#[derive(Debug, Default)]
pub struct InMemoryTrajectorySink {
    runs: Mutex<HashMap<RunId, Vec<Held>>>,
}

#[derive(Debug, Clone)]
struct Held {
    record: TrajectoryRecord,
    /// The payload as it was told first.
    first_told: TrajectoryPayload,
    fact: Option<FactKey>,
    source: Source,
}

impl InMemoryTrajectorySink {
    /// An empty sink.
    pub fn new() -> Self {
        Self::default()
    }

    /// The records of a run so far, in order.
    pub fn records(&self, run_id: &RunId) -> Vec<TrajectoryRecord> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(run_id).into_iter().flatten().map(|held| held.record.clone()).collect()
    }

    /// All records so far, run by run.
    pub fn snapshot(&self) -> Vec<TrajectoryRecord> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids: Vec<_> = runs.keys().collect();
        ids.sort_unstable();
        ids.into_iter()
            .filter_map(|id| runs.get(id))
            .flatten()
            .map(|held| held.record.clone())
            .collect()
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).values().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&self, event: Event) -> Result<Recorded, TrajectoryError> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parent_id) = &event.run.parent_run_id
            && *parent_id != event.run.run_id
            && !runs.contains_key(parent_id)
        {
            let mut identity = RunIdentity::root(parent_id.as_str());
            identity.depth = event.run.depth.saturating_sub(1);
            identity.conversation_id = event.run.conversation_id.clone();
            let started = TrajectoryPayload::RunStarted { identity: identity.clone() };
            let source = Source::new("midcourse", "store");
            let parent = Event::new(identity, source, event.at, started);
            runs.entry(parent_id.clone()).or_default().push(held(parent, 0));
        }
        let adopted = event.adopts.as_ref().filter(|id| **id != event.run.run_id);
        let adopted = adopted.and_then(|id| runs.remove(id)).unwrap_or_default();
        let records = runs.entry(event.run.run_id.clone()).or_default();
        for mut held in adopted {
            let is_known = |known: &Held| {
                known.fact == held.fact && known.record.payload.kind() == held.record.payload.kind()
            };
            if held.fact.is_some() && records.iter().any(is_known) {
                continue;
            }
            held.record = held.record.in_run(&event.run);
            held.record.seq = place(records);
            records.push(held);
        }
        if let TrajectoryPayload::RunStarted { identity } = &event.payload
            && identity.run_id == event.run.run_id
        {
            for held in records.iter_mut().filter(|held| held.record.parent_run_id.is_none()) {
                held.record = held.record.clone().in_run(identity);
            }
        }
        let known = records.iter_mut().find(|held| {
            event.fact.is_some()
                && held.fact == event.fact
                && held.record.payload.kind() == event.payload.kind()
        });
        if let Some(known) = known {
            return merge(known, &event);
        }
        if let Some(known) = told_before(records, &event) {
            return Ok(Recorded { record: known.record.clone(), standing: Standing::Known });
        }
        let held = held(event, place(records));
        let record = held.record.clone();
        records.push(held);
        Ok(Recorded { record, standing: Standing::New })
    }
}

impl TrajectorySink for InMemoryTrajectorySink {
    fn record(&self, event: Event) -> Recording<'_> {
        Box::pin(async move { self.take(event) })
    }
}

fn place(records: &[Held]) -> u64 {
    u64::try_from(records.len()).unwrap_or(u64::MAX)
}

fn held(event: Event, seq: u64) -> Held {
    let first_told = event.payload.clone();
    let mut record = TrajectoryRecord::new(seq, event.at, event.payload).in_run(&event.run);
    record.schema_version = event.schema_version;
    Held { record, first_told, fact: event.fact, source: event.source }
}

/// The record that makes an event nothing new although it is no record of its fact.
fn told_before<'a>(records: &'a [Held], event: &Event) -> Option<&'a Held> {
    let ended = other_end(&event.payload).filter(|_| event.fact.is_some()).and_then(|kind| {
        let is_it = |held: &&Held| held.fact == event.fact && held.record.payload.kind() == kind;
        records.iter().find(is_it)
    });
    ended.or_else(|| {
        let latest = records.iter().rev().find(|held| !held.record.payload.is_opinion())?;
        let is_echo =
            event.may_echo && latest.source == event.source && latest.first_told == event.payload;
        is_echo.then_some(latest)
    })
}

fn merge(known: &mut Held, event: &Event) -> Result<Recorded, TrajectoryError> {
    let same_source = known.source == event.source;
    let told = if same_source { &known.first_told } else { &known.record.payload };
    let (mut old, new) = (value(told)?, value(&event.payload)?);
    let standing = match relate(&old, &new, same_source) {
        Relation::Same => Standing::Known,
        Relation::Diverges => Standing::Diverged,
        Relation::Fills(fills) => {
            fill(&mut old, &fills);
            known.record.payload = TrajectoryPayload::deserialize(&old)
                .map_err(|error| TrajectoryError::Rejected(error.to_string()))?;
            Standing::Filled
        }
    };
    Ok(Recorded { record: known.record.clone(), standing })
}

fn value(payload: &TrajectoryPayload) -> Result<Value, TrajectoryError> {
    serde_json::to_value(payload).map_err(|error| TrajectoryError::Rejected(error.to_string()))
}
