//! Replaces the module `proxied` in builds without the feature `proxy`. It has the same functions,
//! but no proxy can be started.

use std::process::Command;

use anyhow::Result;
use midcourse::DataDir;

use crate::hosts::Host;

/// An enum without variants, so no value of it can exist: `prepare` always fails.
pub(super) enum Proxied {}

pub(super) const fn is_default(_: Option<Host>) -> bool {
    false
}

impl Proxied {
    pub(super) fn prepare(_: &DataDir) -> Result<Self> {
        anyhow::bail!("this build of midcourse has no proxy; leave out --proxy")
    }

    pub(super) const fn start(&self, _: &str) -> Result<()> {
        match *self {}
    }

    pub(super) const fn set_variables(&self, _: &mut Command) {
        match *self {}
    }

    pub(super) const fn stop(self) -> bool {
        match self {}
    }
}
