//! The configuration file, `midcourse.toml`: how runs are looked at, what is known about tools, what
//! a run may use up, who speaks and how much.
//!
//! What a file does not say is as shipped. What it says wrongly is an error with its place and what
//! is allowed there; nothing is ignored. Every key is described in `docs/configuration.md`, and
//! whose file counts.

mod error;
mod file;
mod in_force;
mod layer;
mod providers;
mod trust;
mod value;
mod wire;

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use midcourse::{
    Budget, DeliveryPolicy, Engine, MessageSettings, Mode, Prompt, ProviderSettings,
    TrajectoryAnalysisConfig,
};

pub use error::{ConfigError, InvalidConfig};
pub use file::ProjectFile;
pub use in_force::{Flags, InForce};
pub use trust::{Approval, TrustError, Trusted};

/// How midcourse watches and speaks.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Whether what is said reaches the agent.
    pub mode: Mode,
    /// What a run may use up.
    pub budget: Budget,
    /// The time that a run has from its start; whoever starts it makes a moment of it.
    pub deadline: Option<Duration>,
    /// How a run is looked at.
    pub analysis: TrajectoryAnalysisConfig,
    /// How much is said.
    pub speaking: SpeakingLimits,
    /// Who speaks.
    pub providers: ProviderSettings,
}

/// How much is said, where that is to be other than the host has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpeakingLimits {
    /// Calls between the first and the second word about one cause.
    pub cool_down_calls: Option<NonZeroU32>,
    /// The most pieces of guidance at one decision.
    pub max_per_decision: Option<NonZeroU32>,
    /// The most that is said in one run, in pieces.
    pub max_deliveries: Option<NonZeroU32>,
    /// The same in characters.
    pub max_chars: Option<NonZeroU32>,
}

impl SpeakingLimits {
    /// What a host has by itself, with what is said here instead.
    fn over(self, host: DeliveryPolicy) -> DeliveryPolicy {
        let Self { cool_down_calls, max_per_decision, max_deliveries, max_chars } = self;
        let DeliveryPolicy { feedback, mut guidance, mut ledger, .. } = host;
        if let Some(pieces) = max_per_decision {
            guidance.max_per_decision = usize::try_from(pieces.get()).unwrap_or(usize::MAX);
        }
        ledger.cool_down_calls = cool_down_calls.unwrap_or(ledger.cool_down_calls);
        let number = |limit: NonZeroU32| u64::from(limit.get());
        let max_deliveries = max_deliveries.map(number).or(host.max_deliveries);
        let max_chars = max_chars.map(number).or(host.max_chars);
        DeliveryPolicy { feedback, guidance, ledger, max_deliveries, max_chars }
    }
}

impl Config {
    /// What midcourse ships.
    pub fn shipped() -> Self {
        Self {
            mode: Mode::default(),
            budget: Budget::default(),
            deadline: None,
            analysis: TrajectoryAnalysisConfig::shipped(),
            speaking: SpeakingLimits::default(),
            providers: ProviderSettings::default(),
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = file::named(path).map_err(|error| ConfigError::unreadable(path, error))?;
        Self::parse(&text).map_err(|problem| ConfigError::invalid(path, problem))
    }

    /// Reads the text of a file.
    ///
    /// ```
    /// let config = crate::config::Config::parse("[analysis]\nstall_after = '45m'")?;
    /// assert_eq!(config.analysis.stall_after.as_secs(), 45 * 60);
    /// # Ok::<(), crate::config::InvalidConfig>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidConfig> {
        wire::read(text).map_err(|error| InvalidConfig::new(text, &error))
    }

    /// An engine that watches and speaks so, where no host has a say.
    pub fn engine(&self) -> Engine {
        self.engine_for(DeliveryPolicy::default())
    }

    /// An engine that watches and speaks so, and as much as the host has it where nothing is said
    /// here.
    pub fn engine_for(&self, host: DeliveryPolicy) -> Engine {
        let speaking = MessageSettings {
            providers: self.providers.clone(),
            delivery: self.speaking.over(host),
        };
        let mut analysis = self.analysis.clone();
        // Who is to speak of drift needs somebody who sees it.
        analysis.watch_drift |= self.providers.drift_detector.enabled;
        let prompt = Prompt::new(speaking.template(self.budget));
        Engine::new(prompt, analysis).with_mode(self.mode)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::shipped()
    }
}
