//! The configuration file, `midcourse.toml`. It sets how runs are analysed, properties of tools,
//! budgets, which providers (writers of messages to the agent) are enabled, and how many messages
//! they may send.
//!
//! Keys that a file does not set keep their default values. A wrong key or value is an error that
//! shows its position and what is allowed there; nothing is ignored silently.
//! `docs/configuration.md` describes every key, and a test compares that page with this code.
//! [`crate::run_settings`] calls `find` to determine which files apply to a run.

mod error;
mod experiment;
mod file;
mod find;
mod layer;
mod overrides;
mod providers;
mod trust;
mod value;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use midcourse::{
    Budget, DeliveryPolicy, Engine, MessageSettings, Mode, Prompt, ProviderSettings, Redaction,
    TrajectoryAnalysisConfig,
};

pub(crate) use error::{ConfigError, InvalidConfig};
pub(crate) use experiment::Experiment;
pub(crate) use file::ProjectFile;
#[cfg(feature = "fleet")]
pub(crate) use find::users_ship;
pub(crate) use find::{find, users_prices, users_retention};
pub(crate) use layer::Layer;
pub(crate) use overrides::Overrides;
pub(crate) use trust::{Approval, Trusted};

/// The settings of one configuration file, or of several files merged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) budget: Budget,
    /// How much time a run has, counted from its start; `None` if there is no deadline.
    pub(crate) deadline: Option<Duration>,
    pub(crate) analysis: TrajectoryAnalysisConfig,
    pub(crate) messages: MessageLimits,
    pub(crate) providers: ProviderSettings,
    /// Hosts of model APIs in addition to those that midcourse knows.
    pub(crate) model_hosts: Vec<ModelHost>,
    /// Regular expressions of secrets in addition to those that midcourse knows. Each is valid.
    pub(crate) secret_patterns: Vec<String>,
    pub(crate) retention: Retention,
    pub(crate) ship: Ship,
    pub(crate) experiment: Experiment,
    /// Prices of models, in addition to those that midcourse ships with.
    pub(crate) prices: BTreeMap<String, Price>,
}

/// What a model API charges, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Price {
    pub(crate) input: f64,
    pub(crate) output: f64,
    pub(crate) cache_read: f64,
    pub(crate) cache_write: f64,
}

impl Price {
    /// The price of these tokens, in US dollars. `input` includes the tokens that were read from the
    /// prompt cache or written to it.
    pub(crate) fn of(self, input: u64, output: u64, cache_read: u64, cache_write: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "numbers of tokens are far below 2^53")]
        let cost = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        let uncached = input.saturating_sub(cache_read).saturating_sub(cache_write);
        cost(uncached, self.input)
            + cost(output, self.output)
            + cost(cache_read, self.cache_read)
            + cost(cache_write, self.cache_write)
    }
}

/// Limits on the age and total size of stored runs. Only the user's own file may set them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    pub(crate) max_age: Option<Duration>,
    /// In bytes.
    pub(crate) max_size: Option<u64>,
}

/// Where runs are shipped in the background. Only the user's own file may set it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ship {
    /// The address of a fleet, without a password.
    pub(crate) to: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) level: ShipLevel,
    /// The pause after each batch; `None` for the default.
    pub(crate) every: Option<Duration>,
}

/// How much of each run is shipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ShipLevel {
    #[default]
    Full,
    Metadata,
}

/// A host that offers a model API, so that `midcourse run` may decrypt the TLS connections to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelHost {
    /// In lower case.
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// Limits on messages to the agent, as far as the configuration sets them. If a limit is `None`,
/// the default for the host (such as Claude Code) applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MessageLimits {
    /// Minimum number of tool calls between the first and the second message about the same
    /// problem. Each later wait is twice as long as the one before.
    pub(crate) cooldown_calls: Option<NonZeroU32>,
    /// Maximum number of guidance messages at one decision point (a moment at which the agent can
    /// get messages).
    pub(crate) max_per_decision: Option<NonZeroU32>,
    /// Maximum number of messages in one run.
    pub(crate) max_deliveries: Option<NonZeroU32>,
    /// Maximum number of characters in all messages of one run.
    pub(crate) max_chars: Option<NonZeroU32>,
}

impl MessageLimits {
    /// Returns the limits for a run: those that the configuration sets, and `host`'s for the rest.
    fn over(self, host: DeliveryPolicy) -> DeliveryPolicy {
        let Self { cooldown_calls, max_per_decision, max_deliveries, max_chars } = self;
        let DeliveryPolicy { feedback, mut guidance, mut ledger, .. } = host;
        if let Some(pieces) = max_per_decision {
            guidance.max_per_decision = usize::try_from(pieces.get()).unwrap_or(usize::MAX);
        }
        ledger.cool_down_calls = cooldown_calls.unwrap_or(ledger.cool_down_calls);
        let number = |limit: NonZeroU32| u64::from(limit.get());
        let max_deliveries = max_deliveries.map(number).or(host.max_deliveries);
        let max_chars = max_chars.map(number).or(host.max_chars);
        DeliveryPolicy { feedback, guidance, ledger, max_deliveries, max_chars }
    }
}

impl Config {
    /// The configuration that applies if there is no configuration file.
    pub(crate) fn shipped() -> Self {
        Self {
            mode: Mode::default(),
            budget: Budget::default(),
            deadline: None,
            analysis: TrajectoryAnalysisConfig::shipped(),
            messages: MessageLimits::default(),
            providers: ProviderSettings::default(),
            model_hosts: Vec::new(),
            secret_patterns: Vec::new(),
            retention: Retention::default(),
            ship: Ship::default(),
            experiment: Experiment::default(),
            prices: BTreeMap::new(),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = file::read_named(path).map_err(|error| ConfigError::unreadable(path, error))?;
        Self::parse(&text).map_err(|problem| ConfigError::invalid(path, problem))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, InvalidConfig> {
        wire::read(text).map_err(|error| InvalidConfig::new(text, &error))
    }

    /// The redaction that this configuration asks for.
    pub(crate) fn redaction(&self) -> Redaction {
        let add = |redaction: Redaction, pattern: &String| {
            // The patterns were checked when the file was parsed.
            redaction.clone().with_pattern(pattern).unwrap_or(redaction)
        };
        self.secret_patterns.iter().fold(Redaction::default(), add)
    }

    /// Creates an engine with this configuration, for a run without a host. Message limits that the
    /// configuration does not set have their default values.
    pub(crate) fn engine(&self) -> Engine {
        self.engine_for(DeliveryPolicy::default())
    }

    /// Creates an engine with this configuration. `host` contains the message limits for the
    /// agent's host. A limit that the configuration sets takes precedence over the host's.
    pub(crate) fn engine_for(&self, host: DeliveryPolicy) -> Engine {
        let messages = MessageSettings {
            providers: self.providers.clone(),
            delivery: self.messages.over(host),
        };
        let mut analysis = self.analysis.clone();
        // The provider `drift_detector` writes messages about drift (work in other folders than at
        // the start). The analysis detects drift only if `watch_drift` is set, so set it here.
        analysis.watch_drift |= self.providers.drift_detector.enabled;
        let prompt = Prompt::new(messages.template(self.budget));
        let engine = Engine::new(prompt, analysis).with_mode(self.mode);
        engine.with_holdout(self.experiment.holdout)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::shipped()
    }
}
