//! Settings of a store: durability, limits, redaction and timeouts.

use std::time::Duration;

use crate::data_dir::DataDir;
use crate::redact::{MarkerKey, Redaction};

/// The settings of a store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Whether a stored record survives a power cut. The default is `Durability::Full`: it does.
    pub durability: Durability,
    /// Texts longer than this many bytes are stored with their middle left out. The default is
    /// 1 MiB.
    pub body_limit: usize,
    /// Which secrets are redacted before anything is stored.
    pub redaction: Redaction,
    /// How long to wait for another process that has locked the store. The default is 5 seconds.
    pub busy_timeout: Duration,
}

impl StoreSettings {
    /// These settings for the store in a data directory: markers of redacted secrets get hashes
    /// with the key of this store. [`Store::open`](super::Store::open) and the functions that take
    /// a data directory do this by themselves.
    #[must_use]
    pub fn in_data_dir(mut self, data_dir: &DataDir) -> Self {
        let key = || MarkerKey::in_file(data_dir.redaction_key_file());
        self.redaction = self.redaction.with_default_key(key);
        self
    }
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

/// What a record survives, once the method that stored it has returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The record survives a kill, a crash of the operating system and a power cut.
    #[default]
    Full,
    /// The record survives a kill. A crash of the operating system or a power cut may lose the
    /// latest records; the records before them stay complete and in order.
    Normal,
}
