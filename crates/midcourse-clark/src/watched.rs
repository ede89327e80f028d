//! A sink with an engine behind it: every record that is stored is seen, in the order it is stored.
//!
//! Between a run's recorder and the store. The engine sees the record as stored, also those that the
//! recorder writes by itself (a late beginning, a gap). What follows from a record is kept until the
//! run records it. Never blocks: the engine's work is short, and its lock is not held while waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use midcourse::{
    Event, RecordStatus, Recorded, Recording, Source, TrajectoryError, TrajectorySink,
};
use midcourse_core::{
    Asked, Changes, Deadline, DecisionPoint, Delivery, Engine, Fault, Feedback, GuidanceDelivered,
    Outcome, Timestamp, TrajectoryPayload,
};

use crate::guard::{guard, guard_all};

/// A sink, and the engine that sees what goes into it.
pub(crate) struct Watched {
    sink: Arc<dyn TrajectorySink>,
    view: Mutex<View>,
}

#[derive(Default)]
struct View {
    /// Gone once it has panicked: then everything is still recorded, and nothing is said.
    engine: Option<Engine>,
    due: Vec<TrajectoryPayload>,
    faults: Vec<Fault>,
}

impl Watched {
    pub(crate) fn new(sink: Arc<dyn TrajectorySink>, engine: Option<Engine>) -> Self {
        Self { sink, view: Mutex::new(View { engine, ..View::default() }) }
    }

    /// Takes the engine away, for the same run to go on with.
    pub(crate) fn hand_over(&self) -> Option<Engine> {
        self.view().engine.take()
    }

    /// What follows from the records so far and is not recorded yet.
    pub(crate) fn take_due(&self) -> Vec<TrajectoryPayload> {
        std::mem::take(&mut self.view().due)
    }

    /// What failed since this was last asked.
    pub(crate) fn take_faults(&self) -> Vec<Fault> {
        std::mem::take(&mut self.view().faults)
    }

    /// What is to be said after the latest call.
    pub(crate) fn feedback(&self, now: Timestamp) -> Vec<Feedback> {
        self.ask(|engine| engine.feedback(now))
    }

    /// What is to be said before the model chooses tools.
    pub(crate) fn guidance(&self, now: Timestamp) -> Vec<GuidanceDelivered> {
        self.ask(|engine| engine.guidance(DecisionPoint::PreToolSelection, now))
    }

    /// The fact that something is delivered, to be recorded.
    pub(crate) fn delivered(&self, delivery: Delivery) -> Option<TrajectoryPayload> {
        self.with_engine(|engine| Some(engine.delivered(delivery)))
    }

    fn ask<T>(&self, question: impl FnOnce(&Engine) -> Asked<T>) -> Vec<T> {
        let Asked { said, faults } = self.with_engine(|engine| question(engine));
        self.view().faults.extend(faults);
        said
    }

    /// Shows a record to the engine. `deadline` is the one that a run began with just now.
    fn see(&self, recorded: &Recorded, deadline: Option<Timestamp>) {
        let is_new = recorded.status == RecordStatus::New;
        let begins = matches!(recorded.record.payload, TrajectoryPayload::RunStarted { .. });
        if !is_new && !begins {
            return;
        }
        let (intake, known_deadline) = self.with_engine(|engine| {
            let is_news = is_new || engine.session().identity().is_none();
            let intake =
                if is_news { engine.take_in(&recorded.record) } else { Changes::default() };
            (intake, engine.session().deadline().map(Deadline::at))
        });
        let mut view = self.view();
        if begins && !is_new {
            view.due.push(TrajectoryPayload::Resumed);
            if deadline != known_deadline {
                view.due.push(TrajectoryPayload::DeadlineSet { at_unix_ms: deadline });
            }
        }
        let followed =
            intake.outcomes.into_iter().map(|Outcome { delivery_seq, verdict, after_calls }| {
                TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls }
            });
        view.due.extend(followed);
        view.faults.extend(intake.faults);
    }

    /// Works with the engine; without one, or if it panics, there is nothing.
    fn with_engine<T: Default>(&self, work: impl FnOnce(&mut Engine) -> T) -> T {
        let mut view = self.view();
        let Some(mut engine) = view.engine.take() else { return T::default() };
        let Some(answer) = guard(|| work(&mut engine)) else { return T::default() };
        view.engine = Some(engine);
        answer
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrajectorySink for Watched {
    fn record(&self, mut event: Event) -> Recording<'_> {
        Box::pin(async move {
            let deadline = match &event.payload {
                TrajectoryPayload::RunStarted { identity } => identity.deadline_unix_ms,
                _ => None,
            };
            if event.payload.is_opinion() {
                event.source = Source::new("midcourse", "engine");
            }
            let stored = guard_all(async { self.sink.record(event).await }).await;
            let panicked = || Err(TrajectoryError::Io("the sink panicked".to_owned()));
            let recorded = stored.unwrap_or_else(panicked)?;
            self.see(&recorded, deadline);
            Ok(recorded)
        })
    }
}
