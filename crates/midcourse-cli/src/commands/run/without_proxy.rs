//! Replaces the module `proxied` in builds that cannot start a proxy: without the feature `proxy`,
//! and on systems other than Unix. It has the same functions.

use std::process::Command;

use anyhow::Result;
use midcourse::DataDir;

use super::program::Agent;
use super::{ProxyChoice, Recording};
use crate::run_settings::RunSettings;

/// The decision never to use a proxy.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) note: Option<String>,
}

impl Plan {
    pub(super) fn decide(
        choice: Option<ProxyChoice>,
        _: Option<Agent>,
        _: &str,
        _: &DataDir,
        _: &RunSettings,
    ) -> Result<Self> {
        match choice {
            None | Some(ProxyChoice::Off) => Ok(Self::default()),
            Some(_) => anyhow::bail!("this build of midcourse has no proxy; leave out --proxy"),
        }
    }

    #[expect(clippy::unused_self, reason = "the other build needs it")]
    pub(super) const fn is_empty(&self) -> bool {
        true
    }
}

/// Has no values, because this build cannot start a proxy.
pub(super) enum Proxied {}

impl Proxied {
    pub(super) fn start(_: Plan, _: &Recording, _: &str, _: bool) -> Result<Self> {
        anyhow::bail!("this build of midcourse has no proxy")
    }

    pub(super) const fn set_variables(&self, _: &mut Command) {
        match *self {}
    }

    pub(super) const fn report(&self) -> Option<String> {
        match *self {}
    }

    pub(super) const fn stop(&self) -> bool {
        match *self {}
    }
}
