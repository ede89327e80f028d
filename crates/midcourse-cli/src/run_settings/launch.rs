//! The settings of a launch (one use of `midcourse run`), saved as `launches/ID/settings.json` in
//! the data directory.
//!
//! `midcourse run` saves them before it starts the agent. Hooks added by `midcourse run` get the
//! launch's id on their command line; hooks that the user installed get it in an environment
//! variable. A project may be able to set variables for hooks. So the variable contains only the id,
//! and it counts only if the process that saved the settings has started the agent. The folder of a
//! launch is kept after `midcourse run` has returned, because the agent may continue in the
//! background; later launches remove old folders.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use midcourse::{DataDir, Timestamp, now};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Launched, RunSettings};

/// The environment variable with the id of the launch. Hooks and other processes read from it which
/// `midcourse run` started the agent.
pub(crate) const LAUNCH_VARIABLE: &str = "MIDCOURSE_LAUNCH";

const FILE_NAME: &str = "settings.json";

/// The id of a launch, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LaunchId {
    /// From the command line, which a project cannot change.
    Given(String),
    /// From the environment variable, which a project may be able to set.
    InEnvironment(String),
}

impl LaunchId {
    pub(crate) fn in_environment() -> Option<Self> {
        let id = std::env::var(LAUNCH_VARIABLE).ok().filter(|id| !id.is_empty());
        id.map(Self::InEnvironment)
    }
}

/// How long the folder of a launch is kept.
const RETENTION: Duration = Duration::from_secs(60 * 24 * 60 * 60);

#[derive(Serialize, Deserialize)]
struct SettingsWire {
    launch_id: String,
    /// The process id of `midcourse run`.
    process: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    config: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    proxy_delivers: bool,
    #[serde(flatten)]
    launched: Launched,
}

impl RunSettings {
    /// Turns these settings into the settings of a new launch: creates an id for the launch and
    /// sets the deadline and whether a proxy delivers the messages.
    #[must_use]
    pub(crate) fn for_new_launch(self, deadline: Option<Timestamp>, proxy_delivers: bool) -> Self {
        let launch_id = Some(Uuid::now_v7().to_string());
        Self { launch_id, deadline, proxy_delivers, ..self }
    }

    /// Saves the settings in the folder of the launch, where hooks and the proxy load them.
    pub(crate) fn save(&self, data_dir: &DataDir) -> io::Result<LaunchFolder> {
        let launch_id = self.launch_id.clone().unwrap_or_default();
        let folder = data_dir.launch_folder(&launch_id);
        data_dir.create(&folder)?;
        if let Some(launches) = folder.parent() {
            remove_old(launches, now());
        }
        let folder = LaunchFolder(folder);
        let wire = SettingsWire {
            launch_id,
            process: std::process::id(),
            deadline: self.deadline,
            config: self.config_text.clone(),
            proxy_delivers: self.proxy_delivers,
            launched: self.launched.clone(),
        };
        folder.write(FILE_NAME, &serde_json::to_vec(&wire)?)?;
        Ok(folder)
    }

    /// Reads the settings of a launch and the id of its process; `None` if there is no launch with
    /// this id.
    pub(super) fn load(data_dir: &DataDir, launch_id: &str) -> io::Result<Option<(Self, u32)>> {
        // The id becomes part of a path and may come from the environment, so check it.
        if Uuid::try_parse(launch_id).is_err() {
            return Ok(None);
        }
        let bytes = match fs::read(data_dir.launch_folder(launch_id).join(FILE_NAME)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let SettingsWire { launch_id, process, deadline, config, proxy_delivers, launched } =
            serde_json::from_slice(&bytes)?;
        let settings = Self {
            launch_id: Some(launch_id),
            deadline,
            proxy_delivers,
            launched,
            ..Self::from_text(&config)
        };
        Ok(Some((settings, process)))
    }
}

/// The folder in which a launch keeps its files. Only the user who owns it can read it.
#[derive(Debug)]
pub(crate) struct LaunchFolder(PathBuf);

impl LaunchFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a new file. `name` may be a path with folders, such as `hooks/hooks.json`; missing
    /// folders are created.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
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

/// Removes the folders of launches that are older than `RETENTION`. The name of a folder is a
/// version 7 UUID, which contains the time of its creation. Errors are ignored: nothing depends on
/// the removal.
fn remove_old(launches: &Path, now: Timestamp) {
    for entry in fs::read_dir(launches).into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| Uuid::try_parse(name).ok());
        let started = id.and_then(|id| id.get_timestamp()).map(|at| at.to_unix().0);
        let started = started.map(|seconds| Timestamp::from_unix_ms(seconds.saturating_mul(1_000)));
        if started.is_some_and(|started| now.since(started) > RETENTION) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the folders of launches that are too old to be in use. Errors are ignored, as in
/// [`remove_old`].
pub(crate) fn remove_old_launches(data_dir: &DataDir) {
    remove_old(&data_dir.launch_folder(""), now());
    // Fails, as it should, if there are other launches.
    let _ = fs::remove_dir(data_dir.launch_folder(""));
}

/// Removes the folders of all launches whose `midcourse run` has ended. Errors are ignored.
pub(crate) fn remove_unused_launches(data_dir: &DataDir) {
    let launches = data_dir.launch_folder("");
    for entry in fs::read_dir(&launches).into_iter().flatten().flatten() {
        let settings = fs::read(entry.path().join(FILE_NAME)).ok();
        let settings: Option<SettingsWire> =
            settings.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if !settings.is_some_and(|settings| is_running(settings.process)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let _ = fs::remove_dir(launches);
}

/// Whether there is a process with this id.
fn is_running(process: u32) -> bool {
    #[cfg(unix)]
    {
        let id = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
        id.is_some_and(|id| rustix::process::test_kill_process(id) != Err(rustix::io::Errno::SRCH))
    }
    #[cfg(not(unix))]
    {
        let _ = process;
        true
    }
}

#[cfg(test)]
mod tests {
    use midcourse::{DataDir, Timestamp, now};

    use super::{RETENTION, RunSettings, remove_old, remove_unused_launches};

    fn new_launch() -> RunSettings {
        let deadline = Some(Timestamp::from_unix_ms(7));
        RunSettings::from_text("mode = \"shadow\"\n").for_new_launch(deadline, true)
    }

    #[test]
    fn saved_settings_load_unchanged_until_they_are_old() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path().join("home"));
        let settings = new_launch();
        let id = settings.launch_id.clone().unwrap();
        let load = |id: &str| RunSettings::load(&data_dir, id).unwrap().map(|(loaded, _)| loaded);
        assert_eq!(load(&id), None);
        settings.save(&data_dir).unwrap();
        assert_eq!(load(&id), Some(settings.clone()));
        for other in ["", "x", "..", "../launches", "/etc", &new_launch().launch_id.unwrap()] {
            assert_eq!(load(other), None, "{other}");
        }
        let launches = data_dir.launch_folder("");
        remove_old(&launches, now().after(RETENTION / 2));
        assert_eq!(load(&id), Some(settings));
        remove_old(&launches, now().after(RETENTION * 2));
        assert_eq!(load(&id), None);
    }

    #[cfg(unix)]
    #[test]
    fn only_launches_whose_process_has_ended_are_unused() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path().join("home"));
        let running = new_launch().save(&data_dir).unwrap();
        let ended = new_launch().save(&data_dir).unwrap();
        let file = ended.path().join("settings.json");
        let text = std::fs::read_to_string(&file).unwrap();
        let own = format!("\"process\":{}", std::process::id());
        // The largest number that Linux gives to a process is 2^22.
        std::fs::write(&file, text.replace(&own, "\"process\":2000000000")).unwrap();
        remove_unused_launches(&data_dir);
        assert!(running.path().exists() && !ended.path().exists());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_folder() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path().join("home"));
        let saved = new_launch().save(&data_dir).unwrap();
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(data_dir.path()), 0o700);
        assert_eq!(mode(saved.path()), 0o700);
        assert_eq!(mode(&saved.path().join("settings.json")), 0o600);
    }
}
