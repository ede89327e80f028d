//! Formats: how runs look in files, read into events.
//!
//! One file per format. A format knows nothing of hosts, stores or settings.

pub mod events;
pub mod records;
