//! File formats of runs, parsed into events: one file per format.
//!
//! A format knows nothing of hosts, stores or configuration.

pub(crate) mod events;
pub(crate) mod records;
