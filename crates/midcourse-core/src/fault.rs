//! Faults: errors and panics of detectors, classifiers and providers.
//!
//! A detector, classifier or provider that fails is skipped and reported, and the others still run.
//! This is the only module of the crate that catches panics.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The error that a provider or classifier may return.
pub type ProviderError = Box<dyn Error + Send + Sync>;

/// A detector, classifier or provider that failed and was skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} was skipped: {failure}")]
pub struct Fault {
    /// Name of the detector or provider that was skipped. A failure of a classifier is reported
    /// under the name of the provider that called it.
    pub name: String,
    /// Whether the code panicked or returned an error, with its message.
    pub failure: Failure,
}

/// How a detector, classifier or provider failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The code panicked, with this message.
    #[error("it panicked: {0}")]
    Panic(String),
    /// The code returned an error, with this message.
    #[error("{0}")]
    Error(String),
}

impl Failure {
    pub(crate) fn of(self, name: &str) -> Fault {
        Fault { name: name.to_owned(), failure: self }
    }
}

/// Calls `work`, which runs a method of a provider, and turns an error or a panic into a `Failure`.
pub(crate) fn guard<T>(work: impl FnOnce() -> Result<T, ProviderError>) -> Result<T, Failure> {
    match guard_mut(work)? {
        Ok(value) => Ok(value),
        Err(error) => Err(Failure::Error(error.to_string())),
    }
}

/// Calls `work` and turns a panic into a `Failure`. A panic may leave the values that `work` was
/// changing in an inconsistent state, so the caller has to reset them.
pub(crate) fn guard_mut<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Failure::Panic(message)
    })
}
