//! Sinks store events. This file says what every sink promises.
//!
//! A sink turns each event into a record with a seq (its position in the run), or returns an error.
//! The recorder, not the sink, decides what happens after an error. A program that wants to store
//! records in its own way implements [`RecordWriter`], which has one method, and wraps its writer
//! in a [`SequencedSink`].

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
    /// The record as stored. If the same event was reported before, this is the record that the
    /// first report created, with the fields that later reports added.
    pub record: TrajectoryRecord,
    /// Whether the event became a new record, or was a duplicate of a stored one.
    pub status: RecordStatus,
}

/// Why an event was not stored. The event got no seq (position in its run), so the next event of
/// the run gets the seq that this one would have had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrajectoryError {
    /// The sink does not accept this event, for example because it is malformed.
    #[error("trajectory sink rejected record: {0}")]
    Rejected(String),
    /// The sink could not store the event, for example because the disk is full.
    #[error("trajectory sink i/o failure: {0}")]
    Io(String),
}

/// The future that `TrajectorySink::record` returns. It completes when the event is stored or the
/// sink has failed to store it.
pub type Recording<'a> =
    Pin<Box<dyn Future<Output = Result<Recorded, TrajectoryError>> + Send + 'a>>;

/// Stores the events of runs, in order. Every implementation promises:
///
/// - The future of `record` completes only when the record is as durable as the sink can make it.
/// - Events of one run become records in the order in which their futures were first polled. The
///   records of a run have the seqs 0, 1, 2, …; no seq is left out for an event that fails.
/// - Reports of the same event become one record, whichever source they come from (see
///   [`RecordStatus`]).
/// - If a run has a parent run, the parent gets its first record before the run does.
/// - The future of `record` never blocks the thread that polls it, and needs no particular async
///   runtime.
pub trait TrajectorySink: Send + Sync {
    /// Stores one event. Poll the future until it completes: if it is dropped earlier, the event
    /// may be lost.
    fn record(&self, event: Event) -> Recording<'_>;

    /// Stores one event and blocks this thread until it is stored, for callers without an async
    /// runtime.
    fn record_blocking(&self, event: Event) -> Result<Recorded, TrajectoryError> {
        pollster::block_on(self.record(event))
    }
}
