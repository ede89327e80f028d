//! How a store keeps what it is given.

use std::time::Duration;

use crate::redact::Redaction;

/// The settings of a store; the default is the safe one.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// What an acknowledgement means.
    pub durability: Durability,
    /// Texts longer than this many bytes keep their head and tail only.
    pub body_limit: usize,
    /// Which secrets are taken out before anything is stored.
    pub redaction: Redaction,
    /// How long a locked store is waited for.
    pub patience: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            body_limit: 1024 * 1024,
            redaction: Redaction::default(),
            patience: Duration::from_secs(5),
        }
    }
}

/// What an acknowledgement means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The record survives a kill, a crash of the system and a power cut.
    #[default]
    Full,
    /// The record survives a kill. A crash of the system or a power cut may lose the latest
    /// records, never the order or the wholeness of those before.
    Normal,
}
