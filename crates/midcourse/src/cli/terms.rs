//! The terms on which a run is watched: the launch it belongs to, and the configuration in force.

use std::path::Path;

use midcourse::{Config, Event, Home, Host, InvalidConfig, Launch};
use midcourse_core::{Engine, Mode};

/// The terms on which a run is watched.
pub(super) struct Terms {
    launch: Option<Launch>,
    config: Config,
}

impl Terms {
    /// What midcourse ships.
    pub(super) fn shipped() -> Self {
        Self { launch: None, config: Config::shipped() }
    }

    /// Those of a configuration that is on record.
    pub(super) fn of_text(text: &str) -> Result<Self, InvalidConfig> {
        Ok(Self { launch: None, config: Config::parse(text)? })
    }

    /// Those in force for an agent that works in this folder. What is wrong with them is
    /// remarked, and the rest holds.
    pub(super) fn in_force(
        _home: Option<&Home>,
        _folder: Option<&Path>,
        remarks: &mut Vec<String>,
    ) -> Self {
        let launch = Launch::in_environment().unwrap_or_else(|error| {
            remarks.push(error);
            None
        });
        let config = launch.as_ref().map_or_else(Config::shipped, |launch| {
            Config::parse(&launch.config).unwrap_or_default()
        });
        Self { launch, config }
    }

    /// Lets a run know of the terms where something begins in it.
    pub(super) fn announce(&self, facts: &mut Vec<Event>) {
        if let Some(launch) = &self.launch {
            launch.announce(facts);
        }
    }

    /// The engine that watches a run of a host.
    pub(super) fn engine(&self, host: Option<Host>, _is_child: bool) -> Engine {
        let delivery = host.map(|host| host.speaking().delivery).unwrap_or_default();
        self.config.engine_for(delivery)
    }

    /// Whether the tokens that are used matter.
    pub(super) const fn counts_tokens(&self) -> bool {
        true
    }

    /// Whether what is said reaches the agent.
    pub(super) const fn mode(&self) -> Mode {
        self.config.mode
    }
}
