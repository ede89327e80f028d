//! The engine for a recorded run. Wherever the run contains a recorded configuration, the engine is
//! replaced by one with that configuration, and keeps its state.

use midcourse::{
    Channel, CheckpointError, DeliveryPolicy, Engine, Source, TrajectoryPayload, TrajectoryRecord,
};

use super::RunSettings;

pub(crate) struct RecordedEngine {
    engine: Engine,
    /// The limits on messages.
    policy: DeliveryPolicy,
    /// Whether the run is that of a subagent, to which budgets do not apply.
    is_child: bool,
}

impl RecordedEngine {
    pub(crate) fn new(policy: DeliveryPolicy, is_child: bool) -> Self {
        Self { engine: RunSettings::shipped().engine(policy, is_child), policy, is_child }
    }

    pub(crate) const fn get(&self) -> &Engine {
        &self.engine
    }

    pub(crate) const fn get_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Applies the configuration that a record contains, if it contains one. Call this before the
    /// engine gets the record. Returns problems with the configuration.
    pub(crate) fn follow(
        &mut self,
        record: &TrajectoryRecord,
        source: Option<&Source>,
    ) -> Result<Vec<String>, CheckpointError> {
        // A `ConfigApplied` record may come from another program and contain a configuration that
        // midcourse does not understand. The channel `Settings` marks the records of midcourse.
        let is_ours = source.is_some_and(|source| source.channel() == Channel::Settings);
        let TrajectoryPayload::ConfigApplied { config, .. } = &record.payload else {
            return Ok(Vec::new());
        };
        if !is_ours {
            return Ok(Vec::new());
        }
        let checkpoint = self.engine.checkpoint()?;
        let settings = RunSettings::from_text(config);
        self.engine = settings.engine(self.policy, self.is_child);
        self.engine.restore(&checkpoint)?;
        Ok(settings.warnings)
    }
}
