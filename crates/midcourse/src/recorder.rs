//! The recorder: what an agent's loop reports to, and what happens when the sink fails.
//!
//! It stamps events with their run, their source and the time. Events that arrive before the run is
//! known are stored under a provisional run, durably, and move into the run when it begins. Streaming
//! events (a half-written message, a tool's progress) have no payload and are skipped.

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
    /// Drops the event, logs a warning and lets the agent continue. As soon as the sink works again,
    /// a gap marker records how many events are missing.
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
    /// The event has no payload, so there is nothing to store.
    Skipped,
    /// The sink failed to store the event. A gap marker records the loss once the sink works again.
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

    /// Why the event was dropped, if it was.
    pub const fn dropped(&self) -> Option<&TrajectoryError> {
        match self {
            Self::Dropped(error) => Some(error),
            Self::Recorded(_) | Self::Skipped => None,
        }
    }
}

/// The most runs whose outstanding records are remembered until the sink works again. If there are
/// more, those of the oldest run are given up.
const MAX_OUTSTANDING_RUNS: usize = 64;

/// Stores the events of a program in a sink, and notes those that the sink fails to store. Records
/// one run at a time.
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
    /// The starts of runs and gap markers that the sink has not stored yet. Those of the current
    /// run are last.
    outstanding: Vec<Outstanding>,
}

/// The start and the gap markers of one run that are still to be written.
#[derive(Clone)]
struct Outstanding {
    run: RunIdentity,
    /// `Some` if the start of the run is not stored yet. The inner value is the provisional run
    /// whose records move into this run, if there is one.
    start: Option<Option<RunId>>,
    /// How many events were dropped because the sink rejected them, and because it failed.
    rejected: u64,
    failed: u64,
    /// The fact key of the gap marker. If the marker is written twice, the sink recognises the
    /// second one by this key.
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
    /// Creates a recorder that stores the events of this source in a sink.
    pub fn new(sink: Arc<dyn TrajectorySink>, source: Source) -> Self {
        let on_failure = OnFailure::default();
        Self { sink, source, on_failure, state: Mutex::default() }
    }

    /// Sets what happens to events that the sink failed to store.
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

    /// Records a payload with the current time. A streaming event has no payload and is skipped.
    pub async fn record(
        &self,
        payload: impl Into<Option<TrajectoryPayload>>,
    ) -> Result<RecordOutcome, TrajectoryError> {
        self.record_at(payload, None).await
    }

    /// Like [`record`](Self::record), for an event at a decision point: a moment at which a message
    /// about the event can still be given to the agent.
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

    /// Like [`begin`](Self::begin), but waits on this thread, for callers without an async runtime.
    pub fn begin_blocking(&self, run: RunIdentity) -> Result<RecordOutcome, TrajectoryError> {
        pollster::block_on(self.begin(run))
    }

    /// Like [`record`](Self::record), but waits on this thread, for callers without an async
    /// runtime.
    pub fn record_blocking(
        &self,
        payload: impl Into<Option<TrajectoryPayload>>,
    ) -> Result<RecordOutcome, TrajectoryError> {
        pollster::block_on(self.record(payload))
    }

    /// Like [`flush`](Self::flush), but waits on this thread, for callers without an async runtime.
    pub fn flush_blocking(&self) -> Result<(), TrajectoryError> {
        pollster::block_on(self.flush())
    }

    /// Writes the starts of runs and gap markers that are outstanding, oldest run first. Returns
    /// the record of the last start that was written.
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
                GapReason::Io | GapReason::Overload => &mut outstanding.failed,
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
    /// The current run. Before the first run begins, this is a provisional run, which that run
    /// adopts.
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
