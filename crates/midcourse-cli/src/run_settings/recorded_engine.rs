//! The engine for a recorded run. Wherever the run contains a recorded configuration, the engine is
//! replaced by one with that configuration, and keeps its state. A replay may use another
//! configuration instead; only the budget of the recorded one then applies.

use midcourse::{
    Channel, CheckpointError, DeliveryPolicy, Engine, Source, TrajectoryPayload, TrajectoryRecord,
};

use super::RunSettings;
use crate::config::Config;

pub(crate) struct RecordedEngine {
    engine: Engine,
    /// The limits on messages.
    policy: DeliveryPolicy,
    /// Whether the run is that of a subagent, to which budgets do not apply.
    is_child: bool,
    /// The configuration that applies instead of the recorded one.
    replacement: Option<Config>,
}

impl RecordedEngine {
    pub(crate) fn new(policy: DeliveryPolicy, is_child: bool) -> Self {
        let engine = RunSettings::shipped().engine(policy, is_child);
        Self { engine, policy, is_child, replacement: None }
    }

    /// An engine with this configuration in place of the recorded one. The budget is not replaced: a
    /// recorded run had the budget that it had.
    pub(crate) fn with_config(policy: DeliveryPolicy, is_child: bool, config: Config) -> Self {
        let settings = replaced(&config, RunSettings::shipped());
        let engine = settings.engine(policy, is_child);
        Self { engine, policy, is_child, replacement: Some(config) }
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
        let recorded = RunSettings::from_text(config);
        let settings = match &self.replacement {
            Some(config) => replaced(config, recorded),
            None => recorded,
        };
        self.engine = settings.engine(self.policy, self.is_child);
        self.engine.restore(&checkpoint)?;
        Ok(settings.warnings)
    }
}

/// The recorded settings with another configuration, except for its budget.
fn replaced(config: &Config, recorded: RunSettings) -> RunSettings {
    let budget = recorded.config.budget;
    RunSettings { config: Config { budget, ..config.clone() }, ..recorded }
}

#[cfg(test)]
mod tests {
    use midcourse::{
        Channel, DecisionPoint, DeliveryPolicy, Source, Timestamp, TrajectoryPayload,
        TrajectoryRecord, parse_notation,
    };

    use super::RecordedEngine;
    use crate::config::Config;

    /// The causes of the messages in a run that repeats a failing command, with this recorded
    /// configuration.
    fn messages(recorded: &str, replacement: Option<&str>) -> Vec<String> {
        let policy = DeliveryPolicy::default();
        let mut engine = match replacement {
            Some(text) => RecordedEngine::with_config(policy, false, Config::parse(text).unwrap()),
            None => RecordedEngine::new(policy, false),
        };
        let config = recorded.to_owned();
        let payload = TrajectoryPayload::ConfigApplied { config, prompt_name: None };
        let record = TrajectoryRecord::new(0, Timestamp::default(), payload);
        let source = Source::new("x", Channel::Settings);
        assert!(engine.follow(&record, Some(&source)).unwrap().is_empty());
        let run = "user: go\n4x bash make !! error: no rule";
        let mut causes = Vec::new();
        for record in parse_notation(run).unwrap() {
            let step = engine.get_mut().step(&record, Some(DecisionPoint::PreToolSelection));
            let whys = step.deliveries.iter().filter_map(|delivery| delivery.why());
            causes.extend(whys.map(|why| why.cause.kind().to_owned()));
        }
        causes
    }

    #[test]
    fn a_replacement_configuration_takes_the_place_of_the_recorded_one() {
        let quiet = "[providers.course_correction]\nenabled = false\n";
        assert_eq!(messages("", None), ["repeated_error"]);
        assert_eq!(messages(quiet, None), [""; 0]);
        assert_eq!(messages(quiet, Some("")), ["repeated_error"]);
        assert_eq!(messages("", Some(quiet)), [""; 0]);
    }

    #[test]
    fn the_recorded_budget_stays() {
        let four_calls = "[budget]\ncalls = 4\n";
        let recorded = messages(four_calls, None);
        assert!(recorded.iter().any(|cause| cause == "budget"), "{recorded:?}");
        assert_eq!(messages(four_calls, Some("")), recorded);
        assert_eq!(messages("", Some(four_calls)), messages("", None));
    }
}
