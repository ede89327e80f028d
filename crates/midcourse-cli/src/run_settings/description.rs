//! Records what a run is about: its folder, the command that started it, the model and the version of
//! the host.

use std::ffi::OsString;
use std::path::Path;

use midcourse::{Channel, Event, Redaction, Source, TrajectoryPayload};

use super::{Launched, RunSettings};
use crate::hosts::About;
use crate::shell::shell_quote;

/// Maximum number of bytes of a command line that are kept. It may contain a whole prompt.
const MAX_COMMAND_BYTES: usize = 1_000;

impl Launched {
    /// The command line and the folder of a launch, with secrets replaced.
    pub(crate) fn new(words: &[OsString], folder: Option<&Path>, redaction: &Redaction) -> Self {
        let words: Vec<String> =
            words.iter().map(|word| shell_quote(&word.to_string_lossy())).collect();
        let command = words.join(" ");
        let kept = 0..command.floor_char_boundary(MAX_COMMAND_BYTES);
        let command = match redaction.redact_part(&command, kept.clone()) {
            Some(redacted) => redacted.text,
            None => command.get(kept).unwrap_or_default().to_owned(),
        };
        Self { command: Some(command), folder: folder.map(|folder| folder.display().to_string()) }
    }
}

impl RunSettings {
    /// Adds an event with what is known about the run: at the beginning of a run or of a prompt, its
    /// folder and command; and whenever the host says so, its model and version.
    pub(crate) fn describe(&self, events: &mut Vec<Event>, cwd: Option<&Path>, about: About) {
        let opening = events.iter().find(|event| event.begins_something());
        let Some(event) = opening.or(events.last()) else { return };
        let (mut folder, mut command) = (None, None);
        if opening.is_some() {
            let cwd = cwd.map(|cwd| cwd.display().to_string());
            folder = cwd.or_else(|| self.launched.folder.clone());
            // The command starts the agent. The agent starts its subagents.
            let is_root = event.run.parent_run_id.is_none();
            command = self.launched.command.clone().filter(|_| is_root);
        }
        let About { model, host_version } = about;
        if [&folder, &command, &model, &host_version].into_iter().all(Option::is_none) {
            return;
        }
        let described = TrajectoryPayload::RunDescribed {
            folder,
            command,
            host_version,
            model,
            exit_code: None,
        };
        let source = Source::new(event.source.host(), Channel::Settings);
        let described = Event::new(event.run.clone(), source, event.at, described);
        let key = content_key(&described.payload);
        // The first record of a run must be its start, so this comes last.
        events.push(described.with_fact(key));
    }
}

/// A key for what the event says, so that the store keeps it once.
fn content_key(payload: &TrajectoryPayload) -> String {
    let text = serde_json::to_string(payload).unwrap_or_default();
    format!("about:{}", blake3::hash(text.as_bytes()).to_hex().get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use midcourse::{
        AgentMessage, Channel, Event, Redaction, RunIdentity, Source, Timestamp, TrajectoryPayload,
    };

    use super::{About, Launched, RunSettings};

    fn described(settings: &RunSettings, payload: TrajectoryPayload, about: About) -> Vec<Event> {
        let source = Source::new("codex", Channel::Hook);
        let event = Event::new(RunIdentity::root("r"), source, Timestamp::default(), payload);
        let mut events = vec![event];
        settings.describe(&mut events, Some(Path::new("/project")), about);
        events.split_off(1)
    }

    fn prompt() -> TrajectoryPayload {
        TrajectoryPayload::MessageAppended { message: AgentMessage::user("go") }
    }

    #[test]
    fn folder_and_command_are_recorded_where_a_prompt_begins() {
        let redaction = Redaction::default();
        let words =
            ["claude".into(), "-p".into(), "use ghp_0123456789abcdefghijABCDEFGHIJ012345".into()];
        let launched = Launched::new(&words, Some(Path::new("/elsewhere")), &redaction);
        let settings = RunSettings { launched, ..RunSettings::shipped() };
        let events = described(&settings, prompt(), About::default());
        let [Event { payload: TrajectoryPayload::RunDescribed { folder, command, .. }, .. }] =
            events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert_eq!(folder.as_deref(), Some("/project"), "the agent's folder, not that of `run`");
        let command = command.as_deref().unwrap();
        assert!(command.starts_with("claude -p 'use [") && !command.contains("ghp_"), "{command}");
        assert!(described(&settings, TrajectoryPayload::TurnStarted, About::default()).is_empty());
    }

    #[test]
    fn the_model_is_recorded_once() {
        let about = || About { model: Some("m".to_owned()), host_version: None };
        let settings = RunSettings::shipped();
        let first = described(&settings, TrajectoryPayload::TurnStarted, about());
        let second = described(&settings, TrajectoryPayload::TurnStarted, about());
        assert_eq!(first[0].fact, second[0].fact);
        assert!(matches!(
            &first[0].payload,
            TrajectoryPayload::RunDescribed { model: Some(model), folder: None, .. } if model == "m"
        ));
    }
}
