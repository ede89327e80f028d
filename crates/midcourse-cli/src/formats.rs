//! Parsers for the text formats in which midcourse reads runs: one module per format.
//!
//! The parsers do not use the modules for hosts and configuration, and they do not open the store.

pub(crate) mod events;
pub(crate) mod otel;
pub(crate) mod records;
