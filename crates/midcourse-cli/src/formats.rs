//! File formats of runs, parsed into events: one file per format.
//!
//! A format does not depend on hosts, stores or configuration.

pub(crate) mod events;
pub(crate) mod records;
