//! A durable sink for programs that keep clark-agent's own recorder.
//!
//! clark-agent's recorder numbers its records itself; if a sink fails to store a record, no other
//! record gets its number. midcourse's store gives the records its own numbers (seqs), without
//! gaps. If records of a run were lost, this sink stores a gap marker before the next record of the
//! run: a record that says how many were lost.

use std::sync::Arc;

use async_trait::async_trait;
use clark_agent::{TrajectoryError as ClarkError, TrajectoryRecord as ClarkRecord};
use midcourse::{Channel, Event, Source, TrajectoryError, TrajectorySink};
use midcourse::{GapReason, RunId, RunIdentity, Timestamp, TrajectoryPayload};
use tokio::sync::Mutex;

use crate::calls::Calls;
use crate::convert;

/// The sink remembers the calls and losses of at most this many runs. If there are more, it forgets
/// the run whose latest record is the oldest.
const MAX_RUNS: usize = 64;

/// Stores the records of clark-agent's recorder in a sink of midcourse.
///
/// ```
/// # use std::sync::Arc;
/// use clark_agent::TrajectoryRecorder;
/// use midcourse_clark::DurableTrajectorySink;
/// # let store = Arc::new(midcourse::InMemoryTrajectorySink::new());
/// let recorder = TrajectoryRecorder::new(Arc::new(DurableTrajectorySink::new(store)));
/// ```
pub struct DurableTrajectorySink {
    sink: Arc<dyn TrajectorySink>,
    source: Source,
    // Locked while a record is stored, so that a run's records keep their order.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: Vec<RunState>,
    /// The generated id of a provisional run, which takes the records without a run id. The next
    /// root run that starts takes over its records.
    unnamed: Option<RunId>,
}

/// What the sink remembers about one run between two of its records.
struct RunState {
    run_id: RunId,
    calls: Calls,
    /// How many records the inner sink refused since the last gap marker.
    rejected: u64,
    /// How many records the inner sink failed to write since the last gap marker.
    unwritten: u64,
}

impl DurableTrajectorySink {
    /// Stores records in this sink.
    pub fn new(sink: Arc<dyn TrajectorySink>) -> Self {
        let source = Source::new("clark-agent", Channel::Library);
        Self { sink, source, state: Mutex::default() }
    }

    async fn take(&self, record: &ClarkRecord) -> Result<(), TrajectoryError> {
        let mut state = self.state.lock().await;
        let State { runs, unnamed } = &mut *state;
        let mut payload = convert::payload(&record.payload);
        // Only a root run can take over the records without a run id: they never come from a child.
        let begins = matches!(payload, TrajectoryPayload::RunStarted { .. })
            && record.parent_run_id.is_none();
        let ends = matches!(payload, TrajectoryPayload::RunEnded { .. });
        let run = run_of(record, &payload, unnamed);
        let known = known(runs, &run.run_id);
        known.calls.identify(&mut payload);

        let at = Timestamp::from_unix_ms(record.recorded_at_unix_ms);
        let mut event = Event::new(run.clone(), self.source.clone(), at, payload);
        event.schema_version = record.schema_version;
        if begins {
            event.adopts = unnamed.clone();
        }
        if let Err(error) = self.write(known, &run, event).await {
            let lost = match error {
                TrajectoryError::Rejected(_) => &mut known.rejected,
                TrajectoryError::Io(_) => &mut known.unwritten,
            };
            *lost = lost.saturating_add(1);
            return Err(error);
        }
        if begins || (ends && record.run_id.is_none()) {
            *unnamed = None;
        }
        Ok(())
    }

    /// Stores an event. If earlier events of the run were lost, stores a gap marker before it.
    async fn write(
        &self,
        known: &mut RunState,
        run: &RunIdentity,
        event: Event,
    ) -> Result<(), TrajectoryError> {
        for (lost, reason) in
            [(&mut known.rejected, GapReason::Rejected), (&mut known.unwritten, GapReason::Io)]
        {
            if *lost > 0 {
                let gap = TrajectoryPayload::Gap { lost: *lost, reason };
                let gap = Event::new(run.clone(), self.source.clone(), event.at, gap);
                self.sink.record(gap).await?;
                *lost = 0;
            }
        }
        self.sink.record(event).await.map(|_| ())
    }
}

/// The identity of the run to which a record belongs. A record without a run id belongs to the
/// provisional run `unnamed`, which is created if there is none.
fn run_of(
    record: &ClarkRecord,
    payload: &TrajectoryPayload,
    unnamed: &mut Option<RunId>,
) -> RunIdentity {
    if let TrajectoryPayload::RunStarted { identity } = payload {
        return identity.clone();
    }
    let run_id = record.run_id.as_ref().map(RunId::from).unwrap_or_else(|| {
        let fresh = || format!("provisional-{}", clark_agent::RunIdentity::root().run_id).into();
        unnamed.get_or_insert_with(fresh).clone()
    });
    RunIdentity {
        parent_run_id: record.parent_run_id.as_ref().map(RunId::from),
        depth: record.depth,
        ..RunIdentity::root(run_id.as_str())
    }
}

/// What the sink remembers about a run; a new, empty entry if the run is not in `runs`. Moves the
/// entry to the end of `runs`.
fn known<'a>(runs: &'a mut Vec<RunState>, run_id: &RunId) -> &'a mut RunState {
    let place = runs.iter().position(|known| known.run_id == *run_id);
    let known = match place {
        Some(place) => runs.remove(place),
        None => {
            RunState { run_id: run_id.clone(), calls: Calls::default(), rejected: 0, unwritten: 0 }
        }
    };
    if runs.len() >= MAX_RUNS {
        runs.remove(0);
    }
    runs.push_mut(known)
}

#[async_trait]
impl clark_agent::TrajectorySink for DurableTrajectorySink {
    async fn record(&self, record: ClarkRecord) -> Result<(), ClarkError> {
        self.take(&record).await.map_err(|error| match error {
            TrajectoryError::Rejected(why) => ClarkError::Rejected(why),
            TrajectoryError::Io(why) => ClarkError::Io(why),
        })
    }
}
