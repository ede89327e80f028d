//! What stands for the proxy where this program was built without it.

use std::process::Command;

use crate::hosts::Host;
use crate::launch::Launch;
use anyhow::Result;
use midcourse::DataDir;

/// There is none.
pub(super) enum Proxied {}

pub(super) const fn is_wanted(_: Option<Host>) -> bool {
    false
}

impl Proxied {
    pub(super) fn prepare(_: &DataDir) -> Result<Self> {
        anyhow::bail!("this program was built without its proxy; leave --proxy out")
    }

    pub(super) const fn start(&self, _: &Launch) -> Result<()> {
        match *self {}
    }

    pub(super) const fn put_into(&self, _: &mut Command) {
        match *self {}
    }

    pub(super) const fn stop(self) -> bool {
        match self {}
    }
}
