//! Replays a recorded run through the engine, record by record. `midcourse replay` shows the
//! messages that follow; `midcourse report` takes the patterns from it.

use anyhow::Result;
use midcourse::{
    Channel, DecisionPoint, DeliveryPolicy, Engine, Source, Step, TrajectoryPayload,
    TrajectoryRecord,
};

use crate::run_settings::RunSettings;
use crate::terminal::warn;

/// The state of a replay. Wherever the run contains a recorded configuration, the engine is
/// replaced by one with that configuration.
pub(super) struct ReplayedRun {
    engine: Engine,
    /// The limits on messages.
    policy: DeliveryPolicy,
    /// Whether the run is that of a subagent, to which budgets do not apply.
    is_child: bool,
}

impl ReplayedRun {
    pub(super) fn new(policy: DeliveryPolicy, is_child: bool) -> Self {
        Self { engine: RunSettings::shipped().engine(policy, is_child), policy, is_child }
    }

    pub(super) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Applies one record. The caller leaves out records that the engine itself added, such as
    /// delivered messages, because the replay produces them again.
    pub(super) fn step(
        &mut self,
        record: &TrajectoryRecord,
        source: Option<&Source>,
        decision_point: Option<DecisionPoint>,
    ) -> Result<Step> {
        // A `ConfigApplied` record may come from another program and contain a configuration that
        // midcourse does not understand. The channel `Settings` marks the records of midcourse.
        let is_ours = source.is_some_and(|source| source.channel() == Channel::Settings);
        if let (TrajectoryPayload::ConfigApplied { config, .. }, true) = (&record.payload, is_ours)
        {
            // Create an engine with this configuration and give it the state of the old engine.
            let checkpoint = self.engine.checkpoint()?;
            let settings = RunSettings::from_text(config);
            settings.warnings.iter().for_each(|problem| warn(problem));
            self.engine = settings.engine(self.policy, self.is_child);
            self.engine.restore(&checkpoint)?;
        }
        Ok(self.engine.step(record, decision_point))
    }
}
