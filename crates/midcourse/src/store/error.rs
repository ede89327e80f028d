//! Errors of the store, each with a hint that tells the user what to do.

use rusqlite::ErrorCode;

use crate::sink::TrajectoryError;

/// The error code with which SQLite reports that it cannot extend its shared-memory file. This
/// means that the disk is full.
const SHARED_MEMORY_FULL: i32 = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

/// The error code with which SQLite reports that a file ends before the page that it reads.
const SHORT_READ: i32 = rusqlite::ffi::SQLITE_IOERR_SHORT_READ;

/// Why an operation on the store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process had the store locked until the timeout was over.
    #[error("the store is locked by another process")]
    Locked,
    /// Another process has the store open, so the store cannot be replaced.
    #[error("another process has the store open")]
    InUse,
    /// The disk has no space left.
    #[error("the disk is full")]
    Full,
    /// The folder or the file cannot be opened for writing.
    #[error("the store cannot be written: {0}")]
    Unwritable(String),
    /// The file's content is not what midcourse wrote.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A repair found no run that can be saved.
    #[error("no run can be saved: store.db has none that is whole, or is not a midcourse store")]
    NothingToSave,
    /// A newer release has upgraded the store to a schema that this release cannot read.
    #[error("the store has schema {found}; this release of midcourse reads schemas up to {known}")]
    Newer {
        /// The store's schema version.
        found: u32,
        /// The newest schema version that this release reads.
        known: u32,
    },
    /// The store was created by a development build that predates the first release.
    #[error(
        "the store was made by an earlier, unreleased build of midcourse, which this one cannot read"
    )]
    EarlierBuild,
    /// The file is a database of another program.
    #[error("{0} is an SQLite database of another program, not a midcourse store")]
    Foreign(String),
    /// The event is malformed and cannot be stored.
    #[error("the event cannot be stored: {0}")]
    Rejected(String),
    /// The disk or the operating system failed.
    #[error("the store failed: {0}")]
    Io(String),
}

impl StoreError {
    /// What the user can do about the error.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Locked => {
                "try again; if it stays locked, close the program that has an open transaction on \
                 store.db (a database browser, a backup)"
            }
            Self::InUse => {
                "stop `midcourse tail --follow`, the proxy, agents under `midcourse run` and database \
                 browsers, and try again; nothing was changed"
            }
            Self::Full => "free some space, or remove old runs with `midcourse prune`",
            Self::Unwritable(_) => {
                "check who owns the folder, or set MIDCOURSE_HOME to one that you can write to"
            }
            Self::Damaged(_) => {
                "`midcourse verify` lists the damage, `midcourse repair` saves what is whole, and \
                 `midcourse restore` reads a backup"
            }
            Self::NothingToSave => {
                "nothing was changed; `midcourse restore` reads a backup, or move the file away and \
                 midcourse creates a new store"
            }
            Self::Newer { .. } => {
                "install the newer midcourse; until then events are kept in the spill folder"
            }
            Self::Foreign(_) => {
                "nothing was changed; move the file away, or set MIDCOURSE_HOME to another folder"
            }
            Self::EarlierBuild => {
                "move the folder away, or set MIDCOURSE_HOME to another one; a new store is created"
            }
            Self::Rejected(_) => {
                "the event is too large or malformed; the run continues without it"
            }
            Self::Io(_) => "check the disk and the system log",
        }
    }
}

/// Whether the error means that a column has a value of the wrong type.
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
        if error.sqlite_error().is_some_and(|found| found.extended_code == SHARED_MEMORY_FULL) {
            return Self::Full;
        }
        if error.sqlite_error().is_some_and(|found| found.extended_code == SHORT_READ) {
            return Self::Damaged("the file is shorter than it should be".to_owned());
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
