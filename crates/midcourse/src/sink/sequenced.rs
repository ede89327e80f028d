//! A sink for programs that store records in their own way. The sink numbers the records and
//! recognises duplicates, so the program only has to write records.

use std::future::Future;
use std::pin::Pin;

use midcourse_core::TrajectoryRecord;
use tokio::sync::Mutex;

use super::sequencer::Sequencer;
use super::{Recording, TrajectoryError, TrajectorySink};
use crate::event::Event;

/// The future that `RecordWriter::write` returns. It completes when the record is written.
pub type Writing<'a> = Pin<Box<dyn Future<Output = Result<(), TrajectoryError>> + Send + 'a>>;

/// Writes records to a program's own storage. Each record already has its seq (its position in the
/// run).
pub trait RecordWriter: Send + Sync {
    /// Writes one record. Records of a run arrive in the order of their seqs, one at a time. After
    /// an error, the next event gets the seq of the record that failed.
    fn write<'a>(&'a self, record: &'a TrajectoryRecord) -> Writing<'a>;
}

/// A sink that numbers events, recognises duplicates, and passes new records to a [`RecordWriter`].
/// If a run names a parent run that has no record, the sink first makes a record for the parent.
///
/// Every record is kept in memory to recognise duplicates. If a second source reports the same
/// event with more fields, the sink adds these fields to the record in memory, but does not pass
/// them to the writer.
pub struct SequencedSink<W> {
    writer: W,
    // Locked while a record is written, so that seqs are written in order.
    runs: Mutex<Sequencer>,
}

impl<W: RecordWriter> SequencedSink<W> {
    /// Creates a sink that passes new records to `writer`.
    pub fn new(writer: W) -> Self {
        Self { writer, runs: Mutex::default() }
    }

    /// The writer that was passed to [`new`](Self::new).
    pub const fn writer(&self) -> &W {
        &self.writer
    }
}

impl<W: RecordWriter> TrajectorySink for SequencedSink<W> {
    fn record(&self, event: Event) -> Recording<'_> {
        Box::pin(async move {
            let mut runs = self.runs.lock().await;
            let placed = runs.place(event)?;
            for record in &placed.new {
                if let Err(error) = self.writer.write(record).await {
                    runs.undo(placed);
                    return Err(error);
                }
            }
            Ok(placed.recorded)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use midcourse_core::{RunIdentity, Timestamp, TrajectoryPayload, TrajectoryRecord};

    use super::{RecordWriter, SequencedSink, Writing};
    use crate::event::{Channel, Event, Source};
    use crate::sink::{TrajectoryError, TrajectorySink as _};

    /// Writes records to a list. The next `failures` writes fail.
    #[derive(Default)]
    struct List {
        written: Mutex<Vec<(String, u64)>>,
        failures: Mutex<u32>,
    }

    impl RecordWriter for List {
        fn write<'a>(&'a self, record: &'a TrajectoryRecord) -> Writing<'a> {
            Box::pin(async move {
                let mut failures = self.failures.lock().unwrap();
                if *failures > 0 {
                    *failures -= 1;
                    return Err(TrajectoryError::Io("full".to_owned()));
                }
                let run = record.run_id.as_ref().unwrap().to_string();
                self.written.lock().unwrap().push((run, record.seq));
                Ok(())
            })
        }
    }

    fn turn(run: RunIdentity) -> Event {
        let source = Source::new("test", Channel::Library);
        Event::new(run, source, Timestamp::default(), TrajectoryPayload::TurnStarted)
    }

    #[test]
    fn a_failed_write_uses_no_seq() {
        let sink = SequencedSink::new(List::default());
        sink.record_blocking(turn(RunIdentity::root("r"))).unwrap();
        *sink.writer().failures.lock().unwrap() = 1;
        sink.record_blocking(turn(RunIdentity::root("r"))).unwrap_err();
        let recorded = sink.record_blocking(turn(RunIdentity::root("r"))).unwrap();
        assert_eq!(recorded.record.seq, 1);
        let written = sink.writer().written.lock().unwrap().clone();
        assert_eq!(written, [("r".to_owned(), 0), ("r".to_owned(), 1)]);
    }

    #[test]
    fn a_missing_parent_is_written_first_and_taken_back_with_its_child() {
        let sink = SequencedSink::new(List::default());
        let child = || turn(RunIdentity::child_of(&RunIdentity::root("p"), "p.c"));
        *sink.writer().failures.lock().unwrap() = 1;
        sink.record_blocking(child()).unwrap_err();
        sink.record_blocking(child()).unwrap();
        let written = sink.writer().written.lock().unwrap().clone();
        assert_eq!(written, [("p".to_owned(), 0), ("p.c".to_owned(), 0)]);
    }
}
