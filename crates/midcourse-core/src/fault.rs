//! Faults: errors and panics of detectors, classifiers and providers.
//!
//! A detector, classifier or provider that fails is skipped and reported, and the others still run.
//! No other module catches panics.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The error that a provider or classifier may return.
pub type ProviderError = Box<dyn Error + Send + Sync>;

/// A detector, classifier or provider that failed and was skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} was skipped: {failure}")]
pub struct Fault {
    /// Name of the detector or provider.
    pub name: String,
    /// How it failed.
    pub failure: Failure,
}

/// How a detector, classifier or provider failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It panicked, with this message.
    #[error("it panicked: {0}")]
    Panic(String),
    /// It returned an error, with this message.
    #[error("{0}")]
    Error(String),
}

impl Failure {
    pub(crate) fn of(self, name: &str) -> Fault {
        Fault { name: name.to_owned(), failure: self }
    }
}

/// Runs a method of a provider or classifier and turns an error or a panic into a `Failure`.
pub(crate) fn guard<T>(work: impl FnOnce() -> Result<T, ProviderError>) -> Result<T, Failure> {
    match guard_mut(work)? {
        Ok(value) => Ok(value),
        Err(error) => Err(Failure::Error(error.to_string())),
    }
}

/// Runs code and turns a panic into a `Failure`. After a panic, the caller has to reset whatever
/// the code may have left half-changed.
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
