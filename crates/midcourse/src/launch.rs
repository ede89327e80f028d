//! A launch: what `midcourse run` was told, on its way to the hooks of the process it starts.
//!
//! It travels in the environment, so the hooks that a user has installed hear the same as those
//! that are there for this process only: whichever comes first, the run has one deadline and one
//! configuration.

use midcourse_core::{RunIdentity, Timestamp, TrajectoryPayload};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::{Event, Source};

/// The environment variable that a launch travels in.
pub const LAUNCH_VARIABLE: &str = "MIDCOURSE_LAUNCH";

/// What holds for every run of a process that was started under watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Which launch.
    pub id: String,
    /// When its runs have to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The configuration in force, as the text of a file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
}

impl Launch {
    /// The host in whose name the terms of a launch are recorded.
    pub const SOURCE: &'static str = "midcourse";

    /// A new launch.
    pub fn new(deadline: Option<Timestamp>, config: String) -> Self {
        Self { id: Uuid::now_v7().to_string(), deadline, config }
    }

    /// What stands for a launch where there was none: settings that were found. The same settings
    /// are the same, whoever finds them.
    pub fn found(config: &str) -> Self {
        let id = blake3::hash(config.as_bytes()).to_hex();
        Self {
            id: id.get(..16).unwrap_or(&id).to_owned(),
            deadline: None,
            config: config.to_owned(),
        }
    }

    /// The launch that this process is part of. A variable that cannot be read is an error with
    /// its reason: somebody else's doing, since `run` wrote it.
    pub fn in_environment() -> Result<Option<Self>, String> {
        match std::env::var(LAUNCH_VARIABLE) {
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(format!("{LAUNCH_VARIABLE}: {error}")),
            Ok(text) => Self::read(&text).map(Some),
        }
    }

    /// The launch that a variable holds.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("{LAUNCH_VARIABLE}: {error}"))
    }

    /// What the variable holds.
    pub fn write(&self) -> String {
        // Text and numbers always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Which fact it is that a run belongs to this launch.
    pub fn fact(&self) -> String {
        format!("launch:{}", self.id)
    }

    /// Lets a run know of the launch, once, where something begins in it: a run, a sitting, a
    /// prompt. The configuration and the deadline are facts like any other, so that a replay
    /// needs nothing but the records.
    pub fn announce(&self, facts: &mut Vec<Event>) {
        let Some(opening) = facts.first().filter(|event| event.begins_something()) else {
            return;
        };
        let (run, at) = (opening.run.clone(), opening.at);
        // A run's first record says that it began.
        let behind = usize::from(matches!(opening.payload, TrajectoryPayload::RunStarted { .. }));
        let config =
            TrajectoryPayload::ConfigApplied { config: self.config.clone(), prompt_name: None };
        let mut terms = vec![self.event(&run, at, config)];
        if let Some(deadline) = self.deadline {
            let deadline = TrajectoryPayload::DeadlineSet { at_unix_ms: Some(deadline) };
            terms.push(self.event(&run, at, deadline));
        }
        facts.splice(behind..behind, terms);
    }

    fn event(&self, run: &RunIdentity, at: Timestamp, payload: TrajectoryPayload) -> Event {
        Event::new(run.clone(), Source::new(Self::SOURCE, "run"), at, payload)
            .with_fact(self.fact())
    }
}

#[cfg(test)]
mod tests {
    use midcourse_core::{AgentMessage, RunIdentity, Timestamp, TrajectoryPayload};

    use super::{Event, Launch, Source};

    fn kinds_with(launch: &Launch, payload: TrajectoryPayload) -> Vec<&'static str> {
        let source = Source::new("codex", "hook");
        let event = Event::new(RunIdentity::root("r"), source, Timestamp::default(), payload);
        let mut facts = vec![event];
        launch.announce(&mut facts);
        facts.iter().map(|event| event.payload.kind()).collect()
    }

    #[test]
    fn a_launch_survives_its_journey() {
        let launch = Launch::new(Some(Timestamp::from_unix_ms(7)), "mode = \"shadow\"\n".into());
        assert_eq!(Launch::read(&launch.write()), Ok(launch));
        let plain = Launch::new(None, String::new());
        assert_eq!(Launch::read(&plain.write()), Ok(plain));
        assert!(Launch::read("yes").unwrap_err().starts_with("MIDCOURSE_LAUNCH: "));
    }

    #[test]
    fn it_is_announced_where_something_begins() {
        let launch = Launch::new(Some(Timestamp::from_unix_ms(7)), String::new());
        let begun = TrajectoryPayload::RunStarted { identity: RunIdentity::root("r") };
        assert_eq!(kinds_with(&launch, begun), ["run_started", "config_applied", "deadline_set"]);
        let resumed = kinds_with(&launch, TrajectoryPayload::Resumed);
        assert_eq!(resumed, ["config_applied", "deadline_set", "resumed"]);
        let word = |message| TrajectoryPayload::MessageAppended { message };
        let asked = kinds_with(&launch, word(AgentMessage::user("go")));
        assert_eq!(asked, ["config_applied", "deadline_set", "message_appended"]);
        assert_eq!(kinds_with(&launch, word(AgentMessage::assistant("ok"))), ["message_appended"]);
        assert_eq!(kinds_with(&launch, TrajectoryPayload::TurnStarted), ["turn_started"]);
    }
}
