//! A durable sink for programs that keep clark-agent's own recorder.
//!
//! That recorder numbers its records and continues when the sink fails. The store assigns its own
//! seqs, and a gap marker records lost events as soon as the sink can write again.

use std::sync::Arc;

use async_trait::async_trait;
use clark_agent::{TrajectoryError as ClarkError, TrajectoryRecord as ClarkRecord};
use midcourse::{Channel, Event, Source, TrajectoryError, TrajectorySink};
use midcourse::{GapReason, RunId, RunIdentity, Timestamp, TrajectoryPayload};
use tokio::sync::Mutex;

use crate::calls::Calls;
use crate::convert;

/// The most runs that are tracked. If there are more, the oldest is forgotten.
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
    /// A provisional run for records without a run id, until a run starts.
    unnamed: Option<RunId>,
}

/// What is remembered about one run between its records.
struct RunState {
    run_id: RunId,
    calls: Calls,
    rejected: u64,
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
        // Records without a run id come from a root run, never from a child.
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

/// The identity of the run that a record is from.
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

/// What is remembered about a run; starts empty for a new run.
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
