//! The configuration file, `midcourse.toml`: how runs are looked at, what is known about tools, who
//! speaks.
//!
//! What a file does not say is as shipped. What it says wrongly is an error with its place and what
//! is allowed there; nothing is ignored. Every key is described in `docs/configuration.md`.

mod error;
mod value;
mod wire;

use std::path::Path;

use midcourse_core::{Engine, Goals, Prompt, Speaking, TrajectoryAnalysisConfig};

pub use error::{ConfigError, InvalidConfig};

/// How midcourse watches and speaks.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How a run is looked at.
    pub analysis: TrajectoryAnalysisConfig,
    /// Who speaks, and how much.
    pub speaking: Speaking,
}

impl Config {
    /// What midcourse ships.
    pub fn shipped() -> Self {
        Self { analysis: TrajectoryAnalysisConfig::shipped(), speaking: Speaking::default() }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => {
                Self::parse(&text).map_err(|problem| ConfigError::Invalid { file, problem })
            }
            Err(error) => Err(ConfigError::Unreadable { file, error }),
        }
    }

    /// Reads the text of a file.
    ///
    /// ```
    /// let config = midcourse::Config::parse("[analysis]\nstall_after = '45m'")?;
    /// assert_eq!(config.analysis.stall_after.as_secs(), 45 * 60);
    /// # Ok::<(), midcourse::InvalidConfig>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidConfig> {
        wire::read(text).map_err(|error| InvalidConfig::new(text, &error))
    }

    /// An engine that watches and speaks so.
    pub fn engine(&self, goals: Goals) -> Engine {
        Engine::new(Prompt::new(self.speaking.template(goals)), self.analysis.clone())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::shipped()
    }
}
