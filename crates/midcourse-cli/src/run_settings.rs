//! The settings of a run: its deadline, its configuration, and whether a proxy delivers messages.
//!
//! Each use of `midcourse run` is called a launch and has an id. `midcourse run` determines the
//! settings once and saves them in the folder `launches/ID` ([`launch`]); its hooks and its proxy
//! load them by this id. Hooks that the user installed permanently, without `midcourse run`,
//! determine the settings anew at every event. When a run begins, its settings are recorded
//! ([`events`]), so that a replay can use them. A configuration file with an error is skipped with
//! a warning.

mod ancestors;
mod description;
mod events;
mod launch;
mod recorded_engine;

#[cfg(test)]
mod find_tests;

use std::path::Path;

use midcourse::{Budget, DataDir, DeliveryPolicy, Engine, Mode, Timestamp};

use crate::config::{self, Config, ConfigError, Layer, Overrides};

use ancestors::is_ancestor;

pub(crate) use launch::{
    LAUNCH_VARIABLE, LaunchFolder, LaunchId, remove_old_launches, remove_unused_launches,
};
pub(crate) use recorded_engine::RecordedEngine;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunSettings {
    /// The id of the launch. `None` if `midcourse run` did not start the agent, and in a replay.
    pub(crate) launch_id: Option<String>,
    pub(crate) deadline: Option<Timestamp>,
    /// The command line and the folder of the launch.
    pub(crate) launched: Launched,
    pub(crate) config: Config,
    /// The keys that configuration files or command-line options set, as TOML; empty if none is
    /// set. Parsing this text with [`Config::parse`] returns `config`.
    pub(crate) config_text: String,
    /// Whether a proxy delivers the messages to the agent, so that hooks only record events.
    pub(crate) proxy_delivers: bool,
    /// Problems with the settings. For each configuration file that was skipped, a warning says
    /// which file it is, why it was skipped and what to do. A warning may quote text from the file,
    /// so control characters must be escaped before it is printed.
    pub(crate) warnings: Vec<String>,
}

/// What `midcourse run` started, and where. Empty without `midcourse run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Launched {
    /// The command line, with secrets replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<String>,
}

impl RunSettings {
    /// The settings that apply if there is no configuration file, without a deadline.
    pub(crate) fn shipped() -> Self {
        Self {
            launch_id: None,
            deadline: None,
            launched: Launched::default(),
            config: Config::shipped(),
            config_text: String::new(),
            proxy_delivers: false,
            warnings: Vec::new(),
        }
    }

    /// The settings with which an event is processed. With a launch, these are its saved settings.
    /// Without one, they come from the configuration files for `cwd`, the agent's working directory.
    pub(crate) fn for_event(
        data_dir: Option<&DataDir>,
        launch: Option<&LaunchId>,
        cwd: Option<&Path>,
    ) -> Self {
        let found = || {
            // If the working directory is unknown, use an empty path. No project's file is found
            // for it, so only the user's own configuration file applies.
            let cwd = cwd.unwrap_or_else(|| Path::new(""));
            data_dir.map_or_else(Self::shipped, |data_dir| Self::find(data_dir, cwd))
        };
        let load = |id: &str| data_dir.map_or(Ok(None), |data_dir| Self::load(data_dir, id));
        match launch {
            None => found(),
            Some(LaunchId::Given(id)) => match load(id) {
                Ok(Some((settings, _))) => settings,
                Ok(None) => Self::shadow("there is no launch with this id".to_owned()),
                Err(error) => {
                    Self::shadow(format!("cannot read the settings of the launch: {error}"))
                }
            },
            // A project may set variables for hooks, and so must not be able to name the settings of
            // another launch, such as one that delivers no messages.
            Some(LaunchId::InEnvironment(id)) => match load(id) {
                Ok(Some((settings, process))) if is_ancestor(process) => settings,
                _ => {
                    let mut settings = found();
                    settings.warnings.push(format!(
                        "ignored {LAUNCH_VARIABLE}: it does not name the `midcourse run` that \
                         started this agent"
                    ));
                    settings
                }
            },
        }
    }

    /// Settings with which messages are recorded but not delivered. They are used if the saved
    /// settings of a launch cannot be loaded, because the user may have passed `--shadow` to
    /// `midcourse run`.
    fn shadow(problem: String) -> Self {
        let overrides = Overrides { mode: Some(Mode::Shadow), ..Overrides::default() };
        let warnings = vec![format!("messages are recorded and not delivered: {problem}")];
        Self { warnings, ..Self::shipped().with_overrides(overrides) }
    }

    /// Reads the user's configuration file and the project's, if the user approved that file. Keys
    /// in the project's file take precedence.
    pub(crate) fn find(data_dir: &DataDir, cwd: &Path) -> Self {
        let (layer, mut warnings) = config::find(data_dir, cwd);
        let settings = Self::from_layer(layer);
        warnings.extend(settings.warnings);
        Self { warnings, ..settings }
    }

    /// Reads only the configuration file that the user named on the command line. An invalid file
    /// is an error here, and not skipped.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        Layer::read(path).map(Self::from_layer)
    }

    /// The settings from a configuration that was recorded or saved as TOML. If the text is not
    /// valid in this release of midcourse, the result is the default configuration with a warning.
    pub(crate) fn from_text(text: &str) -> Self {
        if text.is_empty() {
            return Self::shipped();
        }
        match Layer::parse(text) {
            Ok(layer) => Self::from_layer(layer),
            Err(problem) => Self::skipping(&problem),
        }
    }

    fn from_layer(layer: Layer) -> Self {
        // Most users have no configuration file, so skip the parsing in this case.
        if layer.is_empty() {
            return Self::shipped();
        }
        let config_text = match layer.text() {
            Ok(text) => text,
            Err(error) => return Self::skipping(&error),
        };
        match Config::parse(&config_text) {
            Ok(config) => Self { config, config_text, ..Self::shipped() },
            Err(problem) => Self::skipping(&problem),
        }
    }

    fn skipping(problem: &dyn std::fmt::Display) -> Self {
        Self { warnings: vec![format!("skipped a configuration: {problem}")], ..Self::shipped() }
    }

    #[must_use]
    pub(crate) fn with_overrides(self, overrides: Overrides) -> Self {
        if overrides == Overrides::default() {
            return self;
        }
        // Parsing cannot fail here, because `config_text` is always a valid configuration.
        let layer = Layer::parse(&self.config_text).unwrap_or_default();
        let Self { config, config_text, warnings, .. } =
            Self::from_layer(layer.overlaid_with(overrides.layer()));
        Self { config, config_text, warnings: [self.warnings, warnings].concat(), ..self }
    }

    /// Creates the engine for a run. `host` contains the message limits for the agent's host. The
    /// engine for a subagent has no budget, because budgets apply only to the agent that the user
    /// started.
    pub(crate) fn engine(&self, host: DeliveryPolicy, is_subagent: bool) -> Engine {
        if is_subagent {
            let config = Config { budget: Budget::default(), ..self.config.clone() };
            return config.engine_for(host);
        }
        self.config.engine_for(host)
    }

    /// Whether there is a token budget, so that token usage has to be counted.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.config.budget.tokens().is_some()
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.config.mode
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::{LaunchId, Mode, Overrides, RunSettings};
    use crate::config::Config;

    #[test]
    fn text_that_is_no_configuration_becomes_a_warning() {
        let broken = RunSettings::from_text("mode = 'loud'");
        assert_eq!((&broken.config, broken.config_text.as_str()), (&Config::shipped(), ""));
        assert_eq!(broken.warnings.len(), 1);
        assert_eq!(RunSettings::from_text(""), RunSettings::shipped());
    }

    #[test]
    fn overrides_replace_keys_of_the_file() {
        let settings = RunSettings::from_text("[budget]\ncalls = 5\ntokens = 7\n");
        let calls = Overrides { calls: NonZeroU64::new(9), ..Overrides::default() };
        let settings = settings.with_overrides(calls);
        assert_eq!(settings.config_text, "[budget]\ncalls = 9\ntokens = 7\n");
        let unlimited = Overrides { calls: Some(NonZeroU64::MAX), ..Overrides::default() };
        assert_eq!(settings.with_overrides(unlimited).warnings, [""; 0]);
        let none = RunSettings::shipped().with_overrides(Overrides::default());
        assert_eq!(none, RunSettings::shipped());
    }

    #[test]
    fn an_unknown_launch_delivers_nothing_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = midcourse::DataDir::at(folder.path());
        let given = LaunchId::Given("unknown".to_owned());
        let settings = RunSettings::for_event(Some(&data_dir), Some(&given), None);
        assert_eq!(settings.mode(), Mode::Shadow);
        assert_eq!(settings.config_text, "mode = \"shadow\"\n");
        assert!(settings.warnings[0].contains("no launch with this id"), "{settings:?}");
    }

    #[test]
    fn a_variable_can_name_only_the_launch_that_started_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = midcourse::DataDir::at(folder.path());
        std::fs::write(data_dir.config_file(), "[budget]\ncalls = 5\n").unwrap();
        let launch = RunSettings::from_text("mode = \"shadow\"\n").for_new_launch(None, false);
        let id = launch.launch_id.clone().unwrap();
        let own = launch.save(&data_dir).unwrap();
        let named = |id: &str| {
            let launch = LaunchId::InEnvironment(id.to_owned());
            RunSettings::for_event(Some(&data_dir), Some(&launch), None)
        };
        assert_eq!(named(&id), launch, "this process started it");
        // As if another process had started it.
        let file = own.path().join("settings.json");
        let mut saved: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        saved["process"] = 4_194_304.into();
        std::fs::write(&file, saved.to_string()).unwrap();
        for id in [id.as_str(), "unknown", "x/../y"] {
            let settings = named(id);
            assert_eq!(
                (settings.mode(), settings.config_text.as_str()),
                (Mode::Live, "[budget]\ncalls = 5\n")
            );
            assert!(settings.warnings[0].starts_with("ignored MIDCOURSE_LAUNCH"), "{settings:?}");
        }
    }
}
