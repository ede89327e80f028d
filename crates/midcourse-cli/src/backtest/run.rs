//! The backtest of one run, event by event: what the engine would have said, and what the run had
//! spent until then.

use std::time::Duration;

use midcourse::{
    AgentMessage, DecisionPoint, Engine, Event, RunIdentity, RunOutcome, Timestamp,
    TrajectoryPayload,
};

use super::{BacktestReport, Stepper};

/// Time, tokens and tool calls of a run, or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Time in which the agent worked. The time that it waited for the user's next message is left
    /// out.
    pub(crate) time: Duration,
    pub(crate) tokens: u64,
    pub(crate) calls: u64,
}

impl Spent {
    /// What was spent after `earlier`, a state of the same run.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            time: self.time.saturating_sub(earlier.time),
            tokens: self.tokens.saturating_sub(earlier.tokens),
            calls: self.calls.saturating_sub(earlier.calls),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.time = self.time.saturating_add(other.time);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.calls = self.calls.saturating_add(other.calls);
    }
}

pub(crate) struct RunBacktest {
    stepper: Stepper<Engine>,
    identity: RunIdentity,
    source: String,
    folder: Option<String>,
    success: Option<bool>,
    started_at: Timestamp,
    latest: Timestamp,
    events: usize,
    time: Duration,
    spent_at_first_problem: Option<Spent>,
}

impl RunBacktest {
    /// `engine` must be new, because an engine keeps the state of the run that it was used for.
    pub(crate) fn new(identity: &RunIdentity, started_at: Timestamp, engine: Engine) -> Self {
        let mut run = Self {
            stepper: Stepper::new(engine),
            identity: identity.clone(),
            source: String::new(),
            folder: None,
            success: None,
            started_at,
            latest: started_at,
            events: 0,
            time: Duration::ZERO,
            spent_at_first_problem: None,
        };
        let start = TrajectoryPayload::RunStarted { identity: identity.clone() };
        run.stepper.step(0, started_at, start, None);
        run
    }

    /// Applies the next event of the run. What midcourse itself recorded, such as a delivered
    /// message, is left out: the backtest decides again.
    pub(crate) fn apply(&mut self, event: Event) {
        if event.payload.is_conclusion()
            || matches!(event.payload, TrajectoryPayload::RunStarted { .. })
        {
            return;
        }
        if self.source.is_empty() {
            event.source.host().clone_into(&mut self.source);
        }
        self.events += 1;
        self.step(self.events, event.at, event.payload, event.decision_point);
    }

    pub(super) fn step(
        &mut self,
        event: usize,
        at: Timestamp,
        payload: TrajectoryPayload,
        decision_point: Option<DecisionPoint>,
    ) {
        if !begins_after_a_pause(&payload) {
            self.time = self.time.saturating_add(at.since(self.latest));
        }
        self.latest = self.latest.max(at);
        match &payload {
            TrajectoryPayload::RunDescribed { folder: Some(folder), .. } => {
                self.folder = Some(folder.clone());
            }
            TrajectoryPayload::RunEnded { outcome: RunOutcome::Completed, .. } => {
                self.success = Some(true);
            }
            TrajectoryPayload::RunEnded { outcome: RunOutcome::Failed, .. } => {
                self.success = Some(false);
            }
            _ => {}
        }
        let has_problem = self.stepper.step(event, at, payload, decision_point);
        if has_problem && self.spent_at_first_problem.is_none() {
            self.spent_at_first_problem = Some(self.spent());
        }
    }

    fn spent(&self) -> Spent {
        let trajectory = self.stepper.engine.trajectory();
        let calls = trajectory.tool_call_count();
        Spent { time: self.time, tokens: trajectory.tokens(), calls }
    }

    pub(crate) fn finish(self) -> BacktestReport {
        let (spent, trajectory) = (self.spent(), self.stepper.engine.trajectory());
        BacktestReport {
            run_id: self.identity.run_id.to_string(),
            parent_run_id: self.identity.parent_run_id.map(|id| id.to_string()),
            folder: self.folder,
            started_at: self.started_at,
            calls: spent.calls,
            errors: trajectory.error_count(),
            source: self.source,
            success: self.success,
            events: self.events,
            skipped_events: 0,
            parse_error: None,
            duration: self.latest.since(self.started_at),
            ended_at: self.latest,
            spent,
            after_problem: self.spent_at_first_problem.map(|earlier| spent.since(earlier)),
            steps: self.stepper.steps,
        }
    }
}

/// Whether the agent did not work in the time before this event: it waited for the user, or it was
/// not running.
fn begins_after_a_pause(payload: &TrajectoryPayload) -> bool {
    match payload {
        TrajectoryPayload::Resumed => true,
        TrajectoryPayload::MessageAppended { message } => {
            matches!(message, AgentMessage::User { .. } | AgentMessage::Custom { .. })
        }
        _ => false,
    }
}
