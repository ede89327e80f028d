//! The recorder: what an agent's loop reports to, and what happens when the sink fails.
//!
//! It stamps events with their run, their source and the time. What comes before the run is known
//! is recorded under a provisional run, durably, and moves to the run when it begins. Events that
//! only stream (a half-written message, progress of a tool) have no payload and are not recorded.

use std::sync::Arc;

use midcourse_core::{GapReason, RunId, RunIdentity, Timestamp, TrajectoryPayload};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::clock::now;
use crate::event::{Event, Source};
use crate::sink::{Recorded, TrajectoryError, TrajectorySink};

/// What the recorder does with an event that the sink does not take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The event is dropped and counted, and the agent goes on. As soon as the sink works again,
    /// a record says how many are missing there.
    #[default]
    DropAndContinue,
    /// The caller gets the error, and decides.
    Escalate,
}

/// Runs that may be owed something at once; beyond it the oldest is given up.
const OWED_MAX: usize = 64;

/// Records the events of one run at a time.
pub struct TrajectoryRecorder {
    sink: Arc<dyn TrajectorySink>,
    source: Source,
    on_failure: OnFailure,
    // Held across each event, so that a run's events and gap markers keep their order.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    run: Option<RunIdentity>,
    provisional: Option<RunId>,
    /// What the runs are owed, the current one last.
    owed: Vec<Owed>,
}

/// What a run is still to be told.
#[derive(Clone)]
struct Owed {
    run: RunIdentity,
    /// Its first record, and the provisional run that it adopts.
    begins: Option<Option<RunId>>,
    rejected: u64,
    unwritten: u64,
    /// Makes a marker that is written twice one fact.
    key: Uuid,
}

impl Owed {
    fn new(run: RunIdentity) -> Self {
        Self { run, begins: None, rejected: 0, unwritten: 0, key: Uuid::now_v7() }
    }

    const fn is_nothing(&self) -> bool {
        self.begins.is_none() && self.rejected == 0 && self.unwritten == 0
    }
}

impl State {
    /// What is owed to a run.
    fn owed_to(&mut self, run: &RunIdentity) -> &mut Owed {
        let place = match self.owed.iter().position(|owed| owed.run.run_id == run.run_id) {
            Some(place) => place,
            None => {
                if self.owed.len() == OWED_MAX {
                    self.owed.remove(0);
                }
                self.owed.push(Owed::new(run.clone()));
                self.owed.len().saturating_sub(1)
            }
        };
        // It was found or pushed just now.
        #[expect(clippy::indexing_slicing, reason = "the place is of this list")]
        &mut self.owed[place]
    }
}

impl TrajectoryRecorder {
    /// Records into a sink what this source reports.
    pub fn new(sink: Arc<dyn TrajectorySink>, source: Source) -> Self {
        let on_failure = OnFailure::default();
        Self { sink, source, on_failure, state: Mutex::default() }
    }

    /// The same with another policy.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// A run begins: everything from here on, and everything that was held, belongs to it.
    pub async fn begin(&self, run: RunIdentity) -> Result<Option<Recorded>, TrajectoryError> {
        let mut state = self.state.lock().await;
        let held = state.provisional.take();
        state.run = Some(run.clone());
        state.owed_to(&run).begins = Some(held);
        match (self.settle(&mut state, now()).await, self.on_failure) {
            (Ok(recorded), _) => Ok(recorded),
            (Err(error), OnFailure::Escalate) => Err(error),
            (Err(_), OnFailure::DropAndContinue) => Ok(None),
        }
    }

    /// Records what happened, now. Events that only stream have no payload: nothing is recorded.
    ///
    /// `None` is also what a dropped event gives, unless failures escalate.
    pub async fn record(
        &self,
        payload: impl Into<Option<TrajectoryPayload>>,
    ) -> Result<Option<Recorded>, TrajectoryError> {
        let Some(payload) = payload.into() else { return Ok(None) };
        let mut state = self.state.lock().await;
        let (run, at) = (self.run(&mut state), now());
        let settled = self.settle(&mut state, at).await;
        let done = match settled {
            Ok(_) => {
                let event = Event::new(run.clone(), self.source.clone(), at, payload);
                self.sink.record(event).await
            }
            Err(error) => Err(error),
        };
        match (done, self.on_failure) {
            (Ok(recorded), _) => Ok(Some(recorded)),
            (Err(error), OnFailure::Escalate) => Err(error),
            (Err(error), OnFailure::DropAndContinue) => {
                let owed = state.owed_to(&run);
                let lost = match error {
                    TrajectoryError::Rejected(_) => &mut owed.rejected,
                    TrajectoryError::Io(_) => &mut owed.unwritten,
                };
                *lost = lost.saturating_add(1);
                Ok(None)
            }
        }
    }

    /// Writes what is owed, if the sink works again: beginnings of runs, and markers for what was
    /// dropped.
    pub async fn flush(&self) -> Result<(), TrajectoryError> {
        let mut state = self.state.lock().await;
        self.settle(&mut state, now()).await.map(drop)
    }

    /// The run that is being recorded.
    pub async fn run_id(&self) -> Option<RunId> {
        self.state.lock().await.run.as_ref().map(|run| run.run_id.clone())
    }

    /// [`begin`](Self::begin) for callers without a runtime.
    pub fn begin_blocking(&self, run: RunIdentity) -> Result<Option<Recorded>, TrajectoryError> {
        pollster::block_on(self.begin(run))
    }

    /// [`record`](Self::record) for callers without a runtime.
    pub fn record_blocking(
        &self,
        payload: impl Into<Option<TrajectoryPayload>>,
    ) -> Result<Option<Recorded>, TrajectoryError> {
        pollster::block_on(self.record(payload))
    }

    /// [`flush`](Self::flush) for callers without a runtime.
    pub fn flush_blocking(&self) -> Result<(), TrajectoryError> {
        pollster::block_on(self.flush())
    }

    /// The run, or a provisional one until it is known.
    fn run(&self, state: &mut State) -> RunIdentity {
        match &state.run {
            Some(run) => run.clone(),
            None => {
                let held = state
                    .provisional
                    .get_or_insert_with(|| format!("provisional-{}", Uuid::now_v7()).into());
                RunIdentity::root(held.as_str())
            }
        }
    }

    /// Writes what is owed, run by run; returns the beginning of the last one that began.
    async fn settle(
        &self,
        state: &mut State,
        at: Timestamp,
    ) -> Result<Option<Recorded>, TrajectoryError> {
        let mut began = None;
        while let Some(owed) = state.owed.first_mut() {
            if let Some(adopts) = owed.begins.clone() {
                let started = TrajectoryPayload::RunStarted { identity: owed.run.clone() };
                let mut event = Event::new(owed.run.clone(), self.source.clone(), at, started);
                event.adopts = adopts;
                began = Some(self.sink.record(event).await?);
                owed.begins = None;
            }
            self.mark_gaps(owed, at).await?;
            if owed.is_nothing() {
                state.owed.remove(0);
            }
        }
        Ok(began)
    }

    async fn mark_gaps(&self, owed: &mut Owed, at: Timestamp) -> Result<(), TrajectoryError> {
        for reason in [GapReason::Rejected, GapReason::Io] {
            let lost = match reason {
                GapReason::Rejected => &mut owed.rejected,
                GapReason::Io | GapReason::Overload => &mut owed.unwritten,
            };
            if *lost > 0 {
                let gap = TrajectoryPayload::Gap { lost: *lost, reason };
                let fact = format!("gap:{}:{reason:?}:{lost}", owed.key);
                let event = Event::new(owed.run.clone(), self.source.clone(), at, gap);
                self.sink.record(event.with_fact(fact)).await?;
                *lost = 0;
            }
        }
        Ok(())
    }
}
