//! Sinks: where events go, and what a sink promises.
//!
//! A sink turns each event into a record with a seq, or returns an error. It never decides what the
//! agent's loop does about an error: that is the recorder's job. A program with a storage of its own
//! implements [`RecordWriter`], one method, and wraps it in a [`SequencedSink`].

mod memory;
mod sequenced;
mod sequencer;

pub use memory::InMemoryTrajectorySink;
pub use sequenced::{RecordWriter, SequencedSink, Writing};

use std::future::Future;
use std::pin::Pin;

use midcourse_core::TrajectoryRecord;

use crate::dedupe::RecordStatus;
use crate::event::Event;

/// The stored record of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The record as stored. For a second report of an event, this is the record of the first one.
    pub record: TrajectoryRecord,
    /// Whether the event became a new record, or was a duplicate of a stored one.
    pub status: RecordStatus,
}

/// Why an event was not stored. The next event gets the seq that this one would have had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrajectoryError {
    /// The sink does not accept this event, for example because it is malformed.
    #[error("trajectory sink rejected record: {0}")]
    Rejected(String),
    /// The sink could not store the event, for example because the disk is full.
    #[error("trajectory sink i/o failure: {0}")]
    Io(String),
}

/// Returned by a sink that stores an event. It completes when the event is stored.
pub type Recording<'a> =
    Pin<Box<dyn Future<Output = Result<Recorded, TrajectoryError>> + Send + 'a>>;

/// Stores the events of runs, in order.
///
/// - The future completes when the record is as durable as the sink can make it, not before.
/// - Events of one run become records in the order in which their futures were first polled. Seqs
///   are 0, 1, 2, … in each run; an event that fails uses none.
/// - Reports of the same event become one record, whichever source they come from (see
///   [`RecordStatus`]).
/// - A run's parent has a record before the run has one.
/// - The future never blocks the polling thread, and needs no particular runtime.
pub trait TrajectorySink: Send + Sync {
    /// Stores one event. The future has to be polled until it completes.
    fn record(&self, event: Event) -> Recording<'_>;

    /// Stores one event and waits for it on this thread, for callers without a runtime.
    fn record_blocking(&self, event: Event) -> Result<Recorded, TrajectoryError> {
        pollster::block_on(self.record(event))
    }
}
