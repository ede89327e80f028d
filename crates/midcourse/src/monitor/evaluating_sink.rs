//! A sink with an engine behind it: every new record is evaluated in the order in which it is stored.
//!
//! This sink wraps the real one, so the engine also sees the records that the recorder writes by
//! itself, such as a late start of the run or a gap marker.

use std::future::{Future as _, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use midcourse_core::{
    Deadline, DecisionPoint, Engine, Mode, RunIdentity, Step, TrajectoryPayload, TrajectoryRecord,
};

use crate::dedupe::RecordStatus;
use crate::event::{Channel, Event, Source};
use crate::sink::{Recorded, Recording, TrajectoryError, TrajectorySink};

pub(super) struct EvaluatingSink {
    sink: Arc<dyn TrajectorySink>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` if making the engine failed; events are then only recorded.
    engine: Option<Engine>,
    /// What the engine concluded since [`take_step`](EvaluatingSink::take_step) was last called.
    step: Step,
    /// Set if the run was stored before; it then has the deadline that was stored and the one given
    /// now.
    resumed: Option<DeadlineChange>,
}

/// The deadlines of a stored run that is continued: as stored, and as given now.
pub(super) struct DeadlineChange {
    pub(super) stored: Option<Deadline>,
    pub(super) current: Option<midcourse_core::Timestamp>,
}

impl EvaluatingSink {
    pub(super) fn new(sink: Arc<dyn TrajectorySink>, engine: Option<Engine>) -> Self {
        Self { sink, state: Mutex::new(State { engine, ..State::default() }) }
    }

    /// What the engine concluded since this was last called.
    pub(super) fn take_step(&self) -> Step {
        std::mem::take(&mut self.lock().step)
    }

    /// The stored and the new deadline, if the latest start of the run continued a stored run.
    pub(super) fn take_resumed(&self) -> Option<DeadlineChange> {
        self.lock().resumed.take()
    }

    /// Takes the engine out, to continue the same run with a new recorder. This sink then only
    /// records.
    pub(super) fn take_engine(&self) -> Option<Engine> {
        self.lock().engine.take()
    }

    pub(super) fn turn_count(&self) -> u64 {
        self.lock().engine.as_ref().map_or(0, |engine| engine.trajectory().turn_count())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Evaluates a record that the sink has stored; returns what the engine concluded.
    fn evaluate(
        &mut self,
        record: &TrajectoryRecord,
        status: RecordStatus,
        decision_point: Option<DecisionPoint>,
        deadline: Option<midcourse_core::Timestamp>,
    ) -> Vec<TrajectoryRecord> {
        let starts = matches!(record.payload, TrajectoryPayload::RunStarted { .. });
        let Some(engine) = &mut self.engine else { return Vec::new() };
        if status != RecordStatus::New {
            if starts {
                if engine.session().identity().is_none() {
                    engine.fold(record);
                }
                let stored = engine.session().deadline();
                self.resumed = Some(DeadlineChange { stored, current: deadline });
            }
            return Vec::new();
        }
        let mut step = engine.step(record, decision_point);
        for fault in &step.faults {
            tracing::warn!(%fault, "a provider or detector failed and was skipped");
        }
        if engine.mode() == Mode::Shadow {
            step.deliveries.clear();
        }
        let conclusions = std::mem::take(&mut step.records);
        self.step.patterns.append(&mut step.patterns);
        self.step.outcomes.append(&mut step.outcomes);
        self.step.deliveries.append(&mut step.deliveries);
        self.step.faults.append(&mut step.faults);
        conclusions
    }
}

impl TrajectorySink for EvaluatingSink {
    fn record(&self, event: Event) -> Recording<'_> {
        Box::pin(async move {
            let (run, decision_point) = (event.run.clone(), event.decision_point);
            let deadline = match &event.payload {
                TrajectoryPayload::RunStarted { identity } => identity.deadline_unix_ms,
                _ => None,
            };
            let recorded = self.record_guarded(event).await?;
            let conclusions =
                self.lock().evaluate(&recorded.record, recorded.status, decision_point, deadline);
            for conclusion in conclusions {
                self.record_conclusion(&run, conclusion).await;
            }
            Ok(recorded)
        })
    }
}

impl EvaluatingSink {
    /// Stores an event. A panic of the sink becomes an error, so that it cannot reach the agent.
    async fn record_guarded(&self, event: Event) -> Result<Recorded, TrajectoryError> {
        let mut recording = pin!(async { self.sink.record(event).await });
        poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| recording.as_mut().poll(context)));
            let panicked = |_| Poll::Ready(Err(TrajectoryError::Io("the sink panicked".into())));
            polled.unwrap_or_else(panicked)
        })
        .await
    }

    /// Stores a delivery or an outcome that the engine concluded. If a delivery cannot be stored,
    /// its message is withheld from the agent.
    async fn record_conclusion(&self, run: &RunIdentity, conclusion: TrajectoryRecord) {
        let expected = conclusion.seq;
        let source = Source::new("midcourse", Channel::Engine);
        let event = Event::new(run.clone(), source, conclusion.at(), conclusion.payload);
        match self.record_guarded(event).await {
            Ok(recorded) if recorded.record.seq == expected => {}
            // Another process has written to this run too. The record numbers that later messages
            // cite may then be slightly wrong.
            Ok(recorded) => {
                let seq = recorded.record.seq;
                tracing::warn!(expected, seq, "another process writes to this run");
            }
            Err(error) => {
                tracing::warn!(run_id = %run.run_id, %error, "a message is withheld: its delivery could not be recorded");
                self.lock().step.deliveries.clear();
            }
        }
    }
}
