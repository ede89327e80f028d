//! What would have been said about a run that is over, and when.
//!
//! The run is fed to the engine event by event, as if it were live, and the engine is asked after
//! every event. Nothing is stored. Foreign runs and labelled scenarios both go through [`feed`].

use std::cell::Cell;
use std::time::Duration;

use midcourse::{
    DecisionPoint, Delivery, Engine, RunIdentity, Timestamp, TrajectoryPayload, TrajectoryRecord,
};

use crate::formats::events::ForeignRun;

/// Something that would have been said.
#[derive(Debug, Clone, PartialEq)]
pub struct Spoken {
    /// The event after which, by its place in the run's list, from 1.
    pub event: usize,
    /// Tool calls that were over by then.
    pub call: u64,
    /// The record after which.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Where.
    pub point: DecisionPoint,
    /// What, and why.
    pub delivery: Delivery,
}

impl Spoken {
    /// What it is about: the kind of its cause, such as `doom_loop`; who said it, if it has none.
    pub fn about(&self) -> &str {
        self.delivery.why().map_or_else(|| self.delivery.provider(), |why| why.cause.kind())
    }
}

/// What a backtest of one run gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The run.
    pub run_id: String,
    /// Where it comes from.
    pub source: String,
    /// Whether it did what it was to do.
    pub success: Option<bool>,
    /// Events that were read.
    pub events: usize,
    /// Events that could not be read.
    pub unread: usize,
    /// What is wrong with its line, if it is torn.
    pub torn: Option<String>,
    /// Tool calls.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// How long it took.
    pub length: Duration,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What would have been said, in order.
    pub spoken: Vec<Spoken>,
}

impl Verdict {
    /// Calls and time that were spent after the first word.
    pub fn after_first_word(&self) -> Option<(u64, Duration)> {
        let first = self.spoken.first()?;
        Some((self.calls.saturating_sub(first.call), self.ended_at.since(first.at)))
    }
}

/// Feeds a foreign run to an engine that has seen nothing yet.
pub fn backtest(run: ForeignRun, engine: &mut Engine) -> Verdict {
    let ForeignRun { identity, source, success, started, events, unread, torn } = run;
    let ended_at = events.iter().map(|event| event.at).fold(started, Timestamp::max);
    let count = events.len();
    let facts = events
        .into_iter()
        .map(|event| (event.position, event.facts.into_iter().map(move |fact| (event.at, fact))));
    let spoken = feed(engine, &identity, started, facts);
    let trajectory = engine.trajectory();
    Verdict {
        run_id: identity.run_id.to_string(),
        source: source.unwrap_or_else(|| "events".to_owned()),
        success,
        events: count,
        unread,
        torn,
        calls: trajectory.tool_call_count(),
        errors: trajectory.error_count(),
        length: ended_at.since(started),
        ended_at,
        spoken,
    }
}

/// Feeds a run to an engine that has seen nothing yet, and asks it after every event. An event is
/// its place in the run, from 1, and its facts with their times.
pub(crate) fn feed<F>(
    engine: &mut Engine,
    identity: &RunIdentity,
    started: Timestamp,
    events: impl IntoIterator<Item = (usize, F)>,
) -> Vec<Spoken>
where
    F: IntoIterator<Item = (Timestamp, TrajectoryPayload)>,
{
    let next_seq = Cell::new(0_u64);
    let place = || next_seq.replace(next_seq.get().saturating_add(1));
    // Whose records they are is told once, at the beginning: nothing is stored.
    let record =
        |(at, payload): (Timestamp, TrajectoryPayload)| TrajectoryRecord::new(place(), at, payload);
    let begins = TrajectoryPayload::RunStarted { identity: identity.clone() };
    engine.take_in(&record((started, begins)));
    let mut spoken = Vec::new();
    for (event, facts) in events {
        let mut records = facts.into_iter().map(record).peekable();
        while let Some(record) = records.next() {
            if records.peek().is_some() {
                engine.take_in(&record);
                continue;
            }
            let step = engine.step(&record, Some(DecisionPoint::PreToolSelection));
            next_seq.set(next_seq.get().saturating_add(step.records.len() as u64));
            let call = engine.trajectory().tool_call_count();
            spoken.extend(step.deliveries.into_iter().map(|delivery| Spoken {
                event,
                call,
                seq: record.seq,
                at: record.at(),
                point: delivery.decision_point(),
                delivery,
            }));
        }
    }
    spoken
}
