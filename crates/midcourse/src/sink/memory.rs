//! A sink that keeps everything in memory: for tests, and for programs that read it out themselves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use midcourse_core::{RunId, TrajectoryRecord};

use super::sequencer::Sequencer;
use super::{Recording, TrajectorySink};
use crate::event::Event;

/// Keeps records in memory, in order, by run.
#[derive(Debug, Default)]
pub struct InMemoryTrajectorySink {
    runs: Mutex<Sequencer>,
}

impl InMemoryTrajectorySink {
    /// An empty sink.
    pub fn new() -> Self {
        Self::default()
    }

    /// The records of a run so far, in order.
    pub fn records(&self, run_id: &RunId) -> Vec<TrajectoryRecord> {
        self.lock().records(run_id)
    }

    /// All records so far, run by run.
    pub fn snapshot(&self) -> Vec<TrajectoryRecord> {
        self.lock().all()
    }

    /// The number of records of all runs.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Sequencer> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrajectorySink for InMemoryTrajectorySink {
    fn record(&self, event: Event) -> Recording<'_> {
        Box::pin(async move { Ok(self.lock().place(event)?.recorded) })
    }
}
