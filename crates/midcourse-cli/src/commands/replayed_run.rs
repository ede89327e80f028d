//! Replays a recorded run through the engine, record by record. `midcourse replay` shows the
//! messages that follow; `midcourse report` takes the patterns from it.

use anyhow::Result;
use midcourse::{DecisionPoint, DeliveryPolicy, Engine, Source, Step, TrajectoryRecord};

use crate::config::Config;
use crate::run_settings::RecordedEngine;
use crate::terminal::warn;

/// The state of a replay.
pub(super) struct ReplayedRun {
    engine: RecordedEngine,
}

impl ReplayedRun {
    pub(super) fn new(policy: DeliveryPolicy, is_child: bool) -> Self {
        Self { engine: RecordedEngine::new(policy, is_child) }
    }

    /// A replay with this configuration in place of the recorded one. Deadlines and budgets stay
    /// those of the recorded run.
    pub(super) fn with_config(policy: DeliveryPolicy, is_child: bool, config: Config) -> Self {
        Self { engine: RecordedEngine::with_config(policy, is_child, config) }
    }

    pub(super) const fn engine(&self) -> &Engine {
        self.engine.get()
    }

    /// Applies one record. The caller leaves out records that the engine itself added, such as
    /// delivered messages, because the replay produces them again.
    pub(super) fn step(
        &mut self,
        record: &TrajectoryRecord,
        source: Option<&Source>,
        decision_point: Option<DecisionPoint>,
    ) -> Result<Step> {
        self.engine.follow(record, source)?.iter().for_each(|problem| warn(problem));
        Ok(self.engine.get_mut().step(record, decision_point))
    }
}
