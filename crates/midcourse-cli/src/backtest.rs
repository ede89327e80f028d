//! Replays finished runs through the engine, to find out which messages midcourse would have
//! delivered to the agent, and when.
//!
//! The engine gets the events one by one, as in a live run, and may deliver messages at the decision
//! points of the events. Nothing is stored. `backtest` passes the events of a run to a
//! [`RunBacktest`] as they are read from a file or the store; `eval` uses [`step_events`].

mod run;

use std::borrow::BorrowMut;
use std::time::Duration;

use midcourse::{
    DecisionPoint, Delivery, Engine, RunIdentity, Step, Timestamp, TrajectoryPayload,
    TrajectoryRecord,
};

pub(crate) use run::{RunBacktest, Spent};

use crate::formats::events::ParsedRun;

/// What the engine returned for one record of a run, such as patterns and messages. There is no
/// `BacktestStep` for a record for which the engine returned nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BacktestStep {
    /// Position in the run of the event that the record belongs to, counted from 1.
    pub(crate) event: usize,
    /// How many tool calls of the run had ended once the engine had processed the record.
    pub(crate) call: u64,
    /// Sequence number of the record.
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) step: Step,
}

/// A message that the engine would have delivered if it had watched the run live.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BacktestDelivery<'a> {
    /// Position of the event after which the message would have been delivered, counted from 1.
    pub(crate) event: usize,
    /// How many of the run's tool calls had ended before the message.
    pub(crate) call: u64,
    pub(crate) at: Timestamp,
    pub(crate) delivery: &'a Delivery,
}

impl<'a> BacktestDelivery<'a> {
    /// The name of the problem or limit that the message is about, such as `doom_loop`. For a
    /// message that has no such name, the name of the provider that wrote the message.
    pub(crate) fn cause_name(self) -> &'a str {
        self.delivery.why().map_or_else(|| self.delivery.provider(), |why| why.cause.kind())
    }
}

pub(crate) fn deliveries(steps: &[BacktestStep]) -> impl Iterator<Item = BacktestDelivery<'_>> {
    steps.iter().flat_map(|&BacktestStep { event, call, at, ref step, .. }| {
        let with_position = move |delivery| BacktestDelivery { event, call, at, delivery };
        step.deliveries.iter().map(with_position)
    })
}

/// The result of replaying one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BacktestReport {
    pub(crate) run_id: String,
    /// The run that started this one, if it is the run of a subagent.
    pub(crate) parent_run_id: Option<String>,
    /// The dataset or agent that the run comes from.
    pub(crate) source: String,
    /// The folder in which the agent worked, if the file says so.
    pub(crate) folder: Option<String>,
    pub(crate) started_at: Timestamp,
    /// Whether the agent solved its task; `None` if the file does not say.
    pub(crate) success: Option<bool>,
    pub(crate) events: usize,
    /// Number of events that were left out because they could not be parsed.
    pub(crate) skipped_events: usize,
    /// Why parsing stopped before the end of the line that contains the run; `None` if the whole
    /// line was parsed.
    pub(crate) parse_error: Option<String>,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) duration: Duration,
    pub(crate) ended_at: Timestamp,
    /// What the whole run took.
    pub(crate) spent: Spent,
    /// What came after the first message about a problem; `None` if there was none.
    pub(crate) after_problem: Option<Spent>,
    pub(crate) steps: Vec<BacktestStep>,
}

impl BacktestReport {
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = BacktestDelivery<'_>> {
        deliveries(&self.steps)
    }

    pub(crate) fn first_delivery(&self) -> Option<BacktestDelivery<'_>> {
        self.deliveries().next()
    }

    /// The first message that is not about a limit of the run, such as its deadline.
    pub(crate) fn first_problem(&self) -> Option<BacktestDelivery<'_>> {
        self.deliveries().find(|message| is_about_problem(message.delivery))
    }

    /// How many tool calls, and how much time, came between the first delivered message and the end
    /// of the run; `None` if no message was delivered.
    pub(crate) fn after_first_delivery(&self) -> Option<(u64, Duration)> {
        let first = self.first_delivery()?;
        Some((self.calls.saturating_sub(first.call), self.ended_at.since(first.at)))
    }
}

fn is_about_problem(delivery: &Delivery) -> bool {
    delivery.why().is_some_and(|why| !why.cause.is_limit())
}

/// Replays a run that was parsed from one line. `engine` must be new, because an engine keeps the
/// state of the run that it was used for.
pub(crate) fn backtest(run: ParsedRun, engine: Engine) -> BacktestReport {
    let (skipped_events, parse_error) = (run.skipped_events, run.parse_error.clone());
    let (source, success) = (run.source.clone(), run.success);
    let mut replay = RunBacktest::new(&run.identity, run.started_at, engine);
    let event_count = run.events.len();
    for event in run.events {
        let last = event.payloads.len().saturating_sub(1);
        for (index, payload) in event.payloads.into_iter().enumerate() {
            let point = (index == last).then_some(DecisionPoint::PreToolSelection);
            replay.step(event.position, event.at, payload, point);
        }
    }
    BacktestReport {
        source: source.unwrap_or_else(|| "events".to_owned()),
        success,
        events: event_count,
        skipped_events,
        parse_error,
        ..replay.finish()
    }
}

/// Passes the events of a run to an engine, which must be new. Each item of `events` is the
/// position of an event in the run, counted from 1, and the payloads of the event's records with
/// their times. The engine may deliver messages only after the last record of each event.
pub(crate) fn step_events<P>(
    engine: &mut Engine,
    identity: &RunIdentity,
    started_at: Timestamp,
    events: impl IntoIterator<Item = (usize, P)>,
) -> Vec<BacktestStep>
where
    P: IntoIterator<Item = (Timestamp, TrajectoryPayload)>,
{
    let mut stepper = Stepper::new(engine);
    let start = TrajectoryPayload::RunStarted { identity: identity.clone() };
    stepper.step(0, started_at, start, None);
    for (event, payloads) in events {
        let mut payloads = payloads.into_iter().peekable();
        while let Some((at, payload)) = payloads.next() {
            let is_last = payloads.peek().is_none();
            let decision_point = is_last.then_some(DecisionPoint::PreToolSelection);
            stepper.step(event, at, payload, decision_point);
        }
    }
    stepper.steps
}

/// Numbers the records of a run and passes them to an engine.
struct Stepper<E> {
    engine: E,
    next_seq: u64,
    steps: Vec<BacktestStep>,
}

impl<E: BorrowMut<Engine>> Stepper<E> {
    const fn new(engine: E) -> Self {
        Self { engine, next_seq: 0, steps: Vec::new() }
    }

    /// Passes on one record. `event` is the position of its event in the run, counted from 1.
    /// Returns whether a message about a problem was delivered.
    fn step(
        &mut self,
        event: usize,
        at: Timestamp,
        payload: TrajectoryPayload,
        decision_point: Option<DecisionPoint>,
    ) -> bool {
        let seq = self.next_seq;
        let engine = self.engine.borrow_mut();
        let step = engine.step(&TrajectoryRecord::new(seq, at, payload), decision_point);
        // The engine may add records to the run, for example that it delivered a message. These get
        // the next sequence numbers, so the next payload is numbered after them.
        let last = step.records.last().map_or(seq, |record| record.seq);
        self.next_seq = last.saturating_add(1);
        let has_problem = step.deliveries.iter().any(is_about_problem);
        if step != Step::default() {
            let call = engine.trajectory().tool_call_count();
            self.steps.push(BacktestStep { event, call, seq, at, step });
        }
        has_problem
    }
}

#[cfg(test)]
mod tests;
