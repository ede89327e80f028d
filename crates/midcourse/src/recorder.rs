//! The recorder turns what an agent's loop reports into events and stores them in a sink.
//!
//! The recorder adds the run, the source and the time to each event. Events that arrive before the
//! run is known are stored under a temporary id, as a provisional run; when the real run begins,
//! they move into it. Streaming events (a half-written message, a tool's progress) have no payload
//! and are not stored. If the sink fails to store an event, the event is dropped or the caller gets
//! an error. When the sink works again, the recorder stores a gap marker: a record that says how
//! many events were lost.

use std::sync::Arc;

use midcourse_core::{DecisionPoint, GapReason, RunId, RunIdentity, Timestamp, TrajectoryPayload};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::clock::now;
use crate::event::{Event, Source};
use crate::sink::{Recorded, TrajectoryError, TrajectorySink};

/// What the recorder does with an event that the sink failed to store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Drops the event, logs a warning and lets the agent continue. As soon as the sink works
    /// again, the recorder stores a gap marker, a record that says how many events are missing.
    #[default]
    DropAndContinue,
    /// Returns the error to the caller.
    Escalate,
}

/// What the recorder did with an event.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "short-lived: boxing would cost an allocation per event"
)]
pub enum RecordOutcome {
    /// The event is stored.
    Recorded(Recorded),
    /// There was nothing to store: a streaming event, such as a tool's progress, has no payload.
    Skipped,
    /// The sink failed to store the event, with this error. Once the sink works again, the recorder
    /// stores a gap marker, a record that says how many events are missing.
    Dropped(TrajectoryError),
}

impl RecordOutcome {
    /// The stored record, if the event was stored.
    pub fn recorded(self) -> Option<Recorded> {
        match self {
            Self::Recorded(recorded) => Some(recorded),
            Self::Skipped | Self::Dropped(_) => None,
        }
    }

    /// Why the event was dropped; `None` if the event was stored or skipped.
    pub const fn dropped(&self) -> Option<&TrajectoryError> {
        match self {
            Self::Dropped(error) => Some(error),
            Self::Recorded(_) | Self::Skipped => None,
        }
    }
}

/// While the sink fails, the recorder remembers for each run what is still to be stored: the start
/// of the run and its gap markers. It remembers at most this many runs. If there are more, it
/// forgets the oldest, whose start and gap markers are then never stored.
const MAX_OUTSTANDING_RUNS: usize = 64;

/// Stores the events of an agent's loop in a sink, and counts the events that the sink fails to
/// store. A recorder records one run at a time.
pub struct TrajectoryRecorder {
    sink: Arc<dyn TrajectorySink>,
    source: Source,
    on_failure: OnFailure,
    // Locked while an event is recorded, so that a run's events and gap markers keep their order.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    run: Option<RunIdentity>,
    provisional: Option<RunId>,
    /// What the sink has not stored yet, run by run.
    outstanding: Vec<Outstanding>,
}

/// What is still to be stored about one run: its start, and gap markers for its lost events.
#[derive(Clone)]
struct Outstanding {
    run: RunIdentity,
    /// `Some` if the start of the run is not stored yet. The inner value is the id of the
    /// provisional run whose records move into this run, if events arrived before this run began.
    start: Option<Option<RunId>>,
    /// The number of events that were lost because the sink did not accept them.
    rejected: u64,
    /// The number of events that were lost because the sink could not write.
    failed: u64,
    /// Part of the gap markers' fact key, by which a sink recognises duplicates. A sink may return
    /// an error although it has stored a marker; the marker is then written again, but is not
    /// stored twice.
    key: Uuid,
}

impl Outstanding {
    fn new(run: RunIdentity) -> Self {
        Self { run, start: None, rejected: 0, failed: 0, key: Uuid::now_v7() }
    }

    const fn is_empty(&self) -> bool {
        self.start.is_none() && self.rejected == 0 && self.failed == 0
    }
}

impl State {
    fn outstanding_of(&mut self, run: &RunIdentity) -> &mut Outstanding {
        let known = self.outstanding.iter().position(|other| other.run.run_id == run.run_id);
        let index = known.unwrap_or_else(|| {
            if self.outstanding.len() == MAX_OUTSTANDING_RUNS {
                self.outstanding.remove(0);
            }
            self.outstanding.push(Outstanding::new(run.clone()));
            self.outstanding.len().saturating_sub(1)
        });
        #[expect(clippy::indexing_slicing, reason = "the index was found or pushed just now")]
        &mut self.outstanding[index]
    }
}

impl TrajectoryRecorder {
    /// Creates a recorder. `source`, which says where the events come from, is stored with each
    /// event. Events that the sink fails to store are dropped, unless `on_failure` is called.
    pub fn new(sink: Arc<dyn TrajectorySink>, source: Source) -> Self {
        let on_failure = OnFailure::default();
        Self { sink, source, on_failure, state: Mutex::default() }
    }

    /// Sets what happens to events that the sink failed to store. By default they are dropped.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Begins a run. Later events belong to this run, and so do events that were recorded before
    /// any run began.
    pub async fn begin(&self, run: RunIdentity) -> Result<RecordOutcome, TrajectoryError> {
        let mut state = self.state.lock().await;
        let provisional = state.provisional.take();
        state.run = Some(run.clone());
        state.outstanding_of(&run).start = Some(provisional);
        match self.write_outstanding(&mut state, now()).await {
            Ok(started) => Ok(started.map_or(RecordOutcome::Skipped, RecordOutcome::Recorded)),
            Err(error) => self.failed(&run, error),
        }
    }

    /// Stores a payload as an event at the current time. `None` stands for a streaming event, such
    /// as a half-written message, and is not stored.
    pub async fn record(
        &self,
        payload: impl Into<Option<TrajectoryPayload>>,
    ) -> Result<RecordOutcome, TrajectoryError> {
        self.record_at(payload, None).await
    }

    /// Stores a payload as [`record`](Self::record) does, and with it the decision point: the
    /// moment at which a message about the event can still be shown to the agent. `None` if it is
    /// too late for a message.
    pub async fn record_at(
        &self,
        payload: impl Into<Option<TrajectoryPayload>>,
        decision_point: Option<DecisionPoint>,
    ) -> Result<RecordOutcome, TrajectoryError> {
        let Some(payload) = payload.into() else { return Ok(RecordOutcome::Skipped) };
        let mut state = self.state.lock().await;
        let (run, at) = (state.current_run(), now());
        let mut event = Event::new(run, self.source.clone(), at, payload);
        event.decision_point = decision_point;
        self.write(&mut state, event).await
    }

    async fn write(
        &self,
        state: &mut State,
        event: Event,
    ) -> Result<RecordOutcome, TrajectoryError> {
        let run = event.run.clone();
        let written = match self.write_outstanding(state, event.at).await {
            Ok(_) => self.sink.record(event).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(recorded) => Ok(RecordOutcome::Recorded(recorded)),
            Err(error) => {
                if self.on_failure == OnFailure::DropAndContinue {
                    let outstanding = state.outstanding_of(&run);
                    let count = match error {
                        TrajectoryError::Rejected(_) => &mut outstanding.rejected,
                        TrajectoryError::Io(_) => &mut outstanding.failed,
                    };
                    *count = count.saturating_add(1);
                }
                self.failed(&run, error)
            }
        }
    }

    fn failed(
        &self,
        run: &RunIdentity,
        error: TrajectoryError,
    ) -> Result<RecordOutcome, TrajectoryError> {
        match self.on_failure {
            OnFailure::Escalate => Err(error),
            OnFailure::DropAndContinue => {
                tracing::warn!(run_id = %run.run_id, %error, "event dropped; the run continues");
                Ok(RecordOutcome::Dropped(error))
            }
        }
    }

    /// Tries again to write the starts of runs and the gap markers that the sink failed to store.
    pub async fn flush(&self) -> Result<(), TrajectoryError> {
        let mut state = self.state.lock().await;
        self.write_outstanding(&mut state, now()).await.map(drop)
    }

    /// The id of the current run; `None` before the first run begins.
    pub async fn run_id(&self) -> Option<RunId> {
        self.state.lock().await.run.as_ref().map(|run| run.run_id.clone())
    }

    /// The blocking version of [`begin`](Self::begin), for callers without an async runtime.
    pub fn begin_blocking(&self, run: RunIdentity) -> Result<RecordOutcome, TrajectoryError> {
        pollster::block_on(self.begin(run))
    }

    /// The blocking version of [`record`](Self::record), for callers without an async runtime.
    pub fn record_blocking(
        &self,
        payload: impl Into<Option<TrajectoryPayload>>,
    ) -> Result<RecordOutcome, TrajectoryError> {
        pollster::block_on(self.record(payload))
    }

    /// The blocking version of [`flush`](Self::flush), for callers without an async runtime.
    pub fn flush_blocking(&self) -> Result<(), TrajectoryError> {
        pollster::block_on(self.flush())
    }

    /// Writes the starts of runs and the gap markers that the sink has not stored yet, oldest run
    /// first, and stops at the first error. Returns the record of the last start that was written.
    async fn write_outstanding(
        &self,
        state: &mut State,
        at: Timestamp,
    ) -> Result<Option<Recorded>, TrajectoryError> {
        let mut started = None;
        while let Some(outstanding) = state.outstanding.first_mut() {
            if let Some(adopts) = outstanding.start.clone() {
                let run = outstanding.run.clone();
                let payload = TrajectoryPayload::RunStarted { identity: run.clone() };
                let mut event = Event::new(run, self.source.clone(), at, payload);
                event.adopts = adopts;
                started = Some(self.sink.record(event).await?);
                outstanding.start = None;
            }
            self.mark_gaps(outstanding, at).await?;
            if outstanding.is_empty() {
                state.outstanding.remove(0);
            }
        }
        Ok(started)
    }

    async fn mark_gaps(
        &self,
        outstanding: &mut Outstanding,
        at: Timestamp,
    ) -> Result<(), TrajectoryError> {
        for reason in [GapReason::Rejected, GapReason::Io] {
            let lost = match reason {
                GapReason::Rejected => &mut outstanding.rejected,
                GapReason::Io | GapReason::Overload | GapReason::Damage => &mut outstanding.failed,
            };
            if *lost > 0 {
                let gap = TrajectoryPayload::Gap { lost: *lost, reason };
                let fact = format!("gap:{}:{reason:?}:{lost}", outstanding.key);
                let event = Event::new(outstanding.run.clone(), self.source.clone(), at, gap);
                self.sink.record(event.with_fact(fact)).await?;
                *lost = 0;
            }
        }
        Ok(())
    }
}

impl State {
    /// The current run. Before the first run begins, this is a provisional run with a new id, whose
    /// records move into the first run when it begins.
    fn current_run(&mut self) -> RunIdentity {
        match &self.run {
            Some(run) => run.clone(),
            None => {
                let new = || format!("provisional-{}", Uuid::now_v7()).into();
                RunIdentity::root(self.provisional.get_or_insert_with(new).as_str())
            }
        }
    }
}
