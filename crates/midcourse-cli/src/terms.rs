//! The terms on which a run is watched: the launch it belongs to, and the configuration in force.

use std::path::Path;

use crate::config::{Config, InForce};
use crate::hosts::Host;
use crate::launch::Launch;
use midcourse::{Budget, DataDir, Engine, Event, Mode, TrajectoryPayload};

/// The terms on which a run is watched.
#[derive(Clone)]
pub(crate) struct Terms {
    launch: Option<Launch>,
    config: Config,
    /// What was left out of them, and why.
    remarks: Vec<String>,
}

impl Terms {
    /// What midcourse ships.
    pub(crate) fn shipped() -> Self {
        Self { launch: None, config: Config::shipped(), remarks: Vec::new() }
    }

    /// Those of a configuration that is on record, as they were read then.
    pub(crate) fn of_text(text: &str) -> Self {
        let InForce { config, remarks, .. } = InForce::of_text(text);
        Self { launch: None, config, remarks }
    }

    /// What was left out of them, and why.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Those in force for an agent that works in this folder: those of the launch that it belongs
    /// to, else those that are found. What is wrong with them is remarked, and the rest holds.
    pub(crate) fn in_force(
        home: Option<&DataDir>,
        launch: Option<&str>,
        folder: Option<&Path>,
    ) -> Self {
        let kept = launch.zip(home).map_or(Ok(None), |(id, home)| Launch::kept(home, id));
        match kept {
            Ok(Some(launch)) => {
                let InForce { config, remarks, .. } = InForce::of_text(&launch.config);
                Self { launch: Some(launch), config, remarks }
            }
            Ok(None) if launch.is_none() => Self::found(home, folder),
            Ok(None) => Self::silent("the launch that it belongs to is not known".to_owned()),
            Err(error) => Self::silent(format!("the terms of the launch cannot be read: {error}")),
        }
    }

    /// Those of a launch about which nothing is known: it may have been told to say nothing.
    fn silent(remark: String) -> Self {
        let config = Config { mode: Mode::Shadow, ..Config::shipped() };
        Self { launch: None, config, remarks: vec![remark] }
    }

    fn found(home: Option<&DataDir>, folder: Option<&Path>) -> Self {
        let Some(home) = home else { return Self::shipped() };
        // An empty path has no file in it, and none above it.
        let found = InForce::find(home, None, folder.unwrap_or_else(|| Path::new("")));
        let InForce { config, text, remarks } = found.unwrap_or_else(|error| InForce {
            remarks: vec![error.to_string()],
            ..InForce::shipped()
        });
        Self { launch: Some(Launch::found(text)), config, remarks }
    }

    /// Lets a run know of the terms where something begins in it; returns what there is to remark
    /// about them then, so that it is not remarked at every event.
    pub(crate) fn announce(&mut self, facts: &mut Vec<Event>) -> Vec<String> {
        let Some(begun) = facts.iter().find(|event| event.begins_something()) else {
            return Vec::new();
        };
        let is_resumed = matches!(begun.payload, TrajectoryPayload::Resumed);
        // What is found gives its time to a session that begins; who launches one has said when.
        let begins = matches!(begun.payload, TrajectoryPayload::RunStarted { .. })
            && begun.run.parent_run_id.is_none();
        let (begun, length) = (begun.at, self.config.deadline.filter(|_| begins));
        if let Some(launch) = &mut self.launch {
            launch.deadline = launch.deadline.or_else(|| Some(begun.after(length?)));
            // That nothing was set goes without saying, until there was a launch before.
            if !launch.id.is_empty() || !launch.config.is_empty() || is_resumed {
                launch.announce(facts);
            }
        }
        std::mem::take(&mut self.remarks)
    }

    /// The engine that watches a run of a host. What may be used up is the whole agent's affair,
    /// and is not told to its helpers.
    pub(crate) fn engine(&self, host: Option<Host>, is_child: bool) -> Engine {
        let delivery = host.map(|host| host.speaking().delivery).unwrap_or_default();
        if is_child {
            let config = Config { budget: Budget::default(), ..self.config.clone() };
            return config.engine_for(delivery);
        }
        self.config.engine_for(delivery)
    }

    /// Whether the tokens that are used matter.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.config.budget.tokens().is_some()
    }

    /// Whether the launch has a proxy, which speaks.
    pub(crate) fn is_proxied(&self) -> bool {
        self.launch.as_ref().is_some_and(|launch| launch.is_proxied)
    }

    /// Whether what is said reaches the agent.
    pub(crate) const fn mode(&self) -> Mode {
        self.config.mode
    }
}
