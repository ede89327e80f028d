//! Settings of a store: durability, limits, redaction and timeouts.

use std::time::Duration;

use crate::redact::Redaction;

/// The settings of a store. The defaults are the safe ones.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// What is guaranteed about a record when the store returns it.
    pub durability: Durability,
    /// Texts longer than this many bytes are stored with their middle left out.
    pub body_limit: usize,
    /// Which secrets are redacted before anything is stored.
    pub redaction: Redaction,
    /// How long to wait for another process that has locked the store.
    pub busy_timeout: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            body_limit: 1024 * 1024,
            redaction: Redaction::default(),
            busy_timeout: Duration::from_secs(5),
        }
    }
}

/// What is guaranteed about a record when the store returns it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The record survives a kill, a crash of the operating system and a power cut.
    #[default]
    Full,
    /// The record survives a kill. A crash of the operating system or a power cut may lose the
    /// latest records, but never reorders or tears the ones before.
    Normal,
}
