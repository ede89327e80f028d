//! A launch: what `midcourse run` was told, on its way to the hooks of the process it starts.
//!
//! Its terms lie in the home folder, where later launches clear up: an agent may go on in the
//! background when its command has returned. What travels is its id: to the hooks of that process on
//! their command line, to those that the user has installed in the
//! environment. A project can set variables for its hooks, so a variable says no more than which
//! terms; they are the user's, whoever names them. Whichever hook comes first, the run has one
//! deadline and one configuration.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use midcourse::{RunIdentity, Timestamp, TrajectoryPayload};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use midcourse::{DataDir, Event, Source, now};

/// The environment variable that says which launch a process is part of.
pub const LAUNCH_VARIABLE: &str = "MIDCOURSE_LAUNCH";

/// The file with the terms, in the folder of the launch.
const TERMS: &str = "terms.json";

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
    /// Whether there is a proxy, which speaks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_proxied: bool,
}

/// How long the folder of a launch is kept.
const KEPT_FOR: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// The folder of a launch.
#[derive(Debug)]
pub struct LaunchFolder(PathBuf);

impl LaunchFolder {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it, for its owner only.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.0.join(name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(file)?.write_all(bytes)
    }
}

/// Removes what launches of long ago have left: their ids tell when they were. It holds no secret,
/// so nothing depends on it.
fn clear_up(folder: &Path, now: Timestamp) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| Uuid::try_parse(name).ok());
        let begun = id.and_then(|id| id.get_timestamp()).map(|at| at.to_unix().0);
        let begun = begun.map(|seconds| Timestamp::from_unix_ms(seconds.saturating_mul(1_000)));
        if begun.is_some_and(|begun| now.since(begun) > KEPT_FOR) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Launch {
    /// The way by which the terms of a launch come to a run.
    pub const WAY: &'static str = "launch";

    /// A new launch.
    pub fn new(deadline: Option<Timestamp>, config: String) -> Self {
        Self { id: Uuid::now_v7().to_string(), deadline, config, is_proxied: false }
    }

    /// What stands for a launch where there was none: settings that were found.
    pub const fn found(config: String) -> Self {
        Self { id: String::new(), deadline: None, config, is_proxied: false }
    }

    /// Puts the terms where the hooks look for them.
    pub fn keep(&self, home: &DataDir) -> io::Result<LaunchFolder> {
        let folder = home.launch_folder(&self.id);
        home.create(&folder)?;
        if let Some(launches) = folder.parent() {
            clear_up(launches, now());
        }
        let kept = LaunchFolder(folder);
        kept.write(TERMS, &serde_json::to_vec(self)?)?;
        Ok(kept)
    }

    /// The terms of a launch, if there is such a launch.
    pub fn kept(home: &DataDir, id: &str) -> io::Result<Option<Self>> {
        // An id from the environment meets a path.
        if Uuid::try_parse(id).is_err() {
            return Ok(None);
        }
        match fs::read(home.launch_folder(id).join(TERMS)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Which fact it is that a run belongs to this launch.
    pub fn fact(&self) -> String {
        format!("launch:{}", self.id)
    }

    /// Lets a run know of the launch, once, where something begins in it: a run, a sitting, a
    /// prompt. The configuration and the deadline are facts like any other, so that a replay
    /// needs nothing but the records.
    pub fn announce(&self, facts: &mut Vec<Event>) {
        let Some(place) = facts.iter().position(Event::begins_something) else { return };
        let Some(opening) = facts.get(place) else { return };
        let (run, at) = (opening.run.clone(), opening.at);
        let source = Source::new(opening.source.host(), Self::WAY);
        // A run's first record says that it began.
        let begins = usize::from(matches!(opening.payload, TrajectoryPayload::RunStarted { .. }));
        let place = place.saturating_add(begins);
        let config =
            TrajectoryPayload::ConfigApplied { config: self.config.clone(), prompt_name: None };
        let event = |payload| self.event(&run, &source, at, payload);
        let mut terms = vec![event(config)];
        // An earlier launch may have left a deadline that is not this one's.
        let is_resumed = matches!(opening.payload, TrajectoryPayload::Resumed);
        if self.deadline.is_some() || is_resumed {
            let deadline = TrajectoryPayload::DeadlineSet { at_unix_ms: self.deadline };
            terms.push(event(deadline));
        }
        facts.splice(place..place, terms);
    }

    fn event(
        &self,
        run: &RunIdentity,
        source: &Source,
        at: Timestamp,
        payload: TrajectoryPayload,
    ) -> Event {
        let event = Event::new(run.clone(), source.clone(), at, payload);
        // What is found holds until something else is found.
        if self.id.is_empty() { event.deduped() } else { event.with_fact(self.fact()) }
    }
}

#[cfg(test)]
mod tests {
    use midcourse::{AgentMessage, RunIdentity, Timestamp, TrajectoryPayload};

    use super::{DataDir, Event, Launch, Source};

    fn kinds_with(launch: &Launch, payload: TrajectoryPayload) -> Vec<&'static str> {
        let source = Source::new("codex", "hook");
        let event = Event::new(RunIdentity::root("r"), source, Timestamp::default(), payload);
        let mut facts = vec![event];
        launch.announce(&mut facts);
        facts.iter().map(|event| event.payload.kind()).collect()
    }

    #[test]
    fn the_terms_are_there_for_as_long_as_the_launch() {
        let folder = tempfile::tempdir().unwrap();
        let home = DataDir::at(folder.path().join("home"));
        let launch = Launch::new(Some(Timestamp::from_unix_ms(7)), "mode = \"shadow\"\n".into());
        assert_eq!(Launch::kept(&home, &launch.id).unwrap(), None);
        let kept = launch.keep(&home).unwrap();
        assert_eq!(Launch::kept(&home, &launch.id).unwrap(), Some(launch.clone()));
        for other in ["", "x", "..", "../launches", "/etc", &Launch::new(None, String::new()).id] {
            assert_eq!(Launch::kept(&home, other).unwrap(), None, "{other}");
        }
        // An agent may go on in the background.
        drop(kept);
        assert_eq!(Launch::kept(&home, &launch.id).unwrap(), Some(launch.clone()));
        let launches = home.launch_folder("");
        super::clear_up(&launches, super::now().after(super::KEPT_FOR / 2));
        assert_eq!(Launch::kept(&home, &launch.id).unwrap(), Some(launch.clone()));
        super::clear_up(&launches, super::now().after(super::KEPT_FOR * 2));
        assert_eq!(Launch::kept(&home, &launch.id).unwrap(), None, "long ago");
    }

    #[cfg(unix)]
    #[test]
    fn the_terms_are_the_users_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let home = DataDir::at(folder.path().join("home"));
        let kept = Launch::new(None, String::new()).keep(&home).unwrap();
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.path()), 0o700);
        assert_eq!(mode(kept.path()), 0o700);
        assert_eq!(mode(&kept.path().join("terms.json")), 0o600);
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
        // Whoever asks for the host of a run that begins with them is told the right one.
        let source = Source::new("codex", "hook");
        let resumed = TrajectoryPayload::Resumed;
        let mut facts =
            vec![Event::new(RunIdentity::root("r"), source, Timestamp::default(), resumed)];
        launch.announce(&mut facts);
        assert_eq!(facts[0].source.as_str(), "codex/launch");
        let endless = Launch::new(None, String::new());
        let begun = TrajectoryPayload::RunStarted { identity: RunIdentity::root("r") };
        assert_eq!(kinds_with(&endless, begun), ["run_started", "config_applied"]);
        let resumed = kinds_with(&endless, TrajectoryPayload::Resumed);
        assert_eq!(
            resumed,
            ["config_applied", "deadline_set", "resumed"],
            "that of before is gone"
        );
    }
}
