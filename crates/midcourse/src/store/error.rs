//! What can go wrong with the store, and what to do about it.

use rusqlite::ErrorCode;

use crate::sink::TrajectoryError;

/// SQLite's code for a file of shared memory that could not be made longer.
const NO_ROOM_TO_SHARE: i32 = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

/// The store could not do what it was asked. Nothing it acknowledged before is lost by this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else holds the store for too long.
    #[error("the store is locked by another process")]
    Locked,
    /// There is no room left.
    #[error("the disk is full")]
    Full,
    /// The folder or the file cannot be written or opened.
    #[error("the store cannot be written: {0}")]
    Unwritable(String),
    /// What is on the disk is not what was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A newer release has written here.
    #[error("the store has schema {found}, this release of midcourse knows schemas up to {known}")]
    Newer {
        /// The schema of the store.
        found: u32,
        /// The newest one this release knows.
        known: u32,
    },
    /// The event cannot be stored as it is.
    #[error("the event cannot be stored: {0}")]
    Rejected(String),
    /// The disk failed, or something else did.
    #[error("the store failed: {0}")]
    Io(String),
}

impl StoreError {
    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Locked => {
                "try again; if it stays locked, a program with an open transaction on store.db \
                 (a database browser, a backup) has to be closed"
            }
            Self::Full => "free some space, or remove old runs with `midcourse prune`",
            Self::Unwritable(_) => {
                "check who owns the folder, or set MIDCOURSE_HOME to one you can write"
            }
            Self::Damaged(_) => {
                "`midcourse verify` says which runs are whole, and `midcourse export` still reads \
                 them; then move the whole folder aside and a new one is begun"
            }
            Self::Newer { .. } => {
                "install the newer midcourse; until then events wait in the spill folder"
            }
            Self::Rejected(_) => "it is too large or malformed; the run goes on without it",
            Self::Io(_) => "look at the disk's health and at the system log",
        }
    }
}

/// A value that is not what was written there.
const fn is_conversion(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
    };
    matches!(
        error,
        FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | Utf8Error(..)
    )
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        if error.sqlite_error().is_some_and(|found| found.extended_code == NO_ROOM_TO_SHARE) {
            return Self::Full;
        }
        if is_conversion(&error) {
            return Self::Damaged(text);
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::Unwritable(text)
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(text),
            Some(ErrorCode::TooBig) => Self::Rejected(text),
            _ => Self::Io(text),
        }
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
        match error.kind() {
            StorageFull => Self::Full,
            PermissionDenied | ReadOnlyFilesystem => Self::Unwritable(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

impl From<StoreError> for TrajectoryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(why) => Self::Rejected(why),
            other => Self::Io(format!("{other}: {}", other.hint())),
        }
    }
}
