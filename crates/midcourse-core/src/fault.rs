//! Faults: what happens when code that was plugged in fails.
//!
//! One provider, classifier or detector that panics or errors is skipped and reported; the others
//! still work. This is the one place where panics are caught.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a provider or classifier may fail with.
pub type ProviderError = Box<dyn Error + Send + Sync>;

/// Something plugged in that failed and was skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} was skipped: {failure}")]
pub struct Fault {
    /// What failed.
    pub name: String,
    /// How.
    pub failure: Failure,
}

/// How something plugged in failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It panicked.
    #[error("it panicked: {0}")]
    Panic(String),
    /// It returned an error.
    #[error("{0}")]
    Error(String),
}

impl Failure {
    pub(crate) fn of(self, name: &str) -> Fault {
        Fault { name: name.to_owned(), failure: self }
    }
}

/// Runs what may fail or panic.
pub(crate) fn guard<T>(work: impl FnOnce() -> Result<T, ProviderError>) -> Result<T, Failure> {
    match guard_mut(work)? {
        Ok(value) => Ok(value),
        Err(error) => Err(Failure::Error(error.to_string())),
    }
}

/// Runs what may panic. What it may have left half-changed is the caller's to put right.
pub(crate) fn guard_mut<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let words = panic
            .downcast_ref::<&str>()
            .map(|words| (*words).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no reason given".to_owned());
        Failure::Panic(words)
    })
}
