//! Sinks: where a trajectory goes, and what they promise.
//!
//! A sink gives each event its place in its run and returns the record, or an error; it never
//! decides what the agent's loop does about it. That is the recorder's.

mod memory;

pub use memory::InMemoryTrajectorySink;

use std::future::Future;
use std::pin::Pin;

use midcourse_core::TrajectoryRecord;

use crate::event::Event;
use crate::relation::Standing;

/// An event that is a record now, or was one already.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The record of the fact, as stored.
    pub record: TrajectoryRecord,
    /// Whether it is new.
    pub standing: Standing,
}

/// An event that did not become a record. It took no seq.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrajectoryError {
    /// The sink will not take this event.
    #[error("the trajectory sink rejected the event: {0}")]
    Rejected(String),
    /// The sink could not store it.
    #[error("the trajectory sink failed: {0}")]
    Io(String),
}

/// An event on its way into a sink.
pub type Recording<'a> =
    Pin<Box<dyn Future<Output = Result<Recorded, TrajectoryError>> + Send + 'a>>;

/// Stores the events of runs, in order.
///
/// - The future is done when the record is as durable as the sink can make it, and not before.
/// - Events of one run become records in the order in which their futures were first polled. Seqs
///   are 0, 1, 2, … in each run; an event that fails takes none.
/// - One fact is one record, whichever source reports it (see [`Standing`]).
/// - A run's parent has a record before the run has one.
/// - The future never blocks the thread that polls it, and needs no particular runtime.
pub trait TrajectorySink: Send + Sync {
    /// Stores one event.
    fn record(&self, event: Event) -> Recording<'_>;

    /// The same for callers without a runtime: returns when the event is stored.
    fn record_blocking(&self, event: Event) -> Result<Recorded, TrajectoryError> {
        pollster::block_on(self.record(event))
    }
}
