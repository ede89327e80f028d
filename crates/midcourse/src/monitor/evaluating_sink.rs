//! A sink that stores each event in another sink and then shows the new record to the engine.
//!
//! The recorder writes everything through this sink. So the engine also sees the records that the
//! recorder adds by itself, such as a gap marker, which says how many events were lost.

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
    /// `None` if the engine could not be made, or was taken out; events are then only recorded.
    engine: Option<Engine>,
    /// What the engine concluded since [`take_step`](EvaluatingSink::take_step) was last called.
    step: Step,
    /// Set when the start of a run is reported that the sink already contains. The run is then
    /// continued, perhaps with another deadline than before.
    resumed: Option<DeadlineChange>,
}

/// The two deadlines of a stored run that is continued: the stored one, and the one given now.
pub(super) struct DeadlineChange {
    pub(super) stored: Option<Deadline>,
    pub(super) current: Option<midcourse_core::Timestamp>,
}

impl EvaluatingSink {
    pub(super) fn new(sink: Arc<dyn TrajectorySink>, engine: Option<Engine>) -> Self {
        Self { sink, state: Mutex::new(State { engine, ..State::default() }) }
    }

    /// Takes out what the engine concluded since the last call: patterns, messages for the agent,
    /// and what followed earlier messages.
    pub(super) fn take_step(&self) -> Step {
        std::mem::take(&mut self.lock().step)
    }

    /// Takes out the stored and the new deadline of the run if it is being continued; `None` if the
    /// run is new.
    pub(super) fn take_resumed(&self) -> Option<DeadlineChange> {
        self.lock().resumed.take()
    }

    /// Takes the engine out, so that a new recorder can continue the same run with it. After that,
    /// this sink stores events but shows them to no engine.
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
    /// Shows a new record to the engine. Returns the records that the engine wants to add: messages
    /// for the agent, and what followed earlier messages.
    ///
    /// A record that was stored before is not evaluated again. If it is the start of a run, the run
    /// is being continued, and its deadlines are kept in `resumed`.
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
        self.step.withheld.append(&mut step.withheld);
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

    /// Stores a record that the engine wants to add: a message for the agent, or what followed an
    /// earlier message. If the record cannot be stored, the agent gets no message.
    async fn record_conclusion(&self, run: &RunIdentity, conclusion: TrajectoryRecord) {
        let expected = conclusion.seq;
        let source = Source::new("midcourse", Channel::Engine);
        let event = Event::new(run.clone(), source, conclusion.at(), conclusion.payload);
        match self.record_guarded(event).await {
            Ok(recorded) if recorded.record.seq == expected => {}
            // Another process writes to this run too, so the record has another seq than the engine
            // gave it. The engine may then name wrong seqs as evidence for later messages.
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
