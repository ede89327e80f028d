//! A sink that keeps records in memory only: for tests, and for programs that need no record of a
//! run after they exit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use midcourse_core::{RunId, TrajectoryRecord};

use super::sequencer::Sequencer;
use super::{Recording, TrajectorySink};
use crate::event::Event;

/// Keeps all records in memory until it is dropped. Writes nothing to disk.
#[derive(Debug, Default)]
pub struct InMemoryTrajectorySink {
    runs: Mutex<Sequencer>,
}

impl InMemoryTrajectorySink {
    /// Creates a sink without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// The records of a run so far, in order.
    pub fn records(&self, run_id: &RunId) -> Vec<TrajectoryRecord> {
        self.lock().records(run_id)
    }

    /// All records so far: the runs sorted by their ids, and the records of each run in order.
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
