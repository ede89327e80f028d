//! The kinds of failures. The kind determines what a message calls a failure and what it suggests.

mod check_output;
mod classify;
mod json;
mod line;
mod names;
mod phrases;

use serde::{Deserialize, Serialize};

pub(crate) use classify::{FailedCall, ResultOf, failure_kind};

/// What went wrong in a failed call, as far as the result or the exit code says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A person, a sandbox, a server or the system refused the call.
    Permission,
    /// A file, page, record or other object does not exist.
    NotFound,
    /// A program is not installed, or not on the search path.
    MissingProgram,
    /// A library or module that a program needs is not installed.
    MissingPackage,
    /// The agent called a tool that does not exist.
    UnknownTool,
    /// A function, field, column, option or other name that the agent used does not exist.
    UnknownName,
    /// The tool or program rejected its arguments.
    BadArguments,
    /// The call took too long.
    Timeout,
    /// The network or a service is down, or limits requests.
    Outage,
    /// A test, compiler or other check found something wrong with what it checked.
    Check,
    /// What the agent wrote cannot be parsed.
    Syntax,
    /// An edit or patch does not fit the file.
    EditMismatch,
    /// Something is in the way: it exists already, is locked, in use, or has changed meanwhile.
    Conflict,
    /// Disk, memory or another resource is exhausted.
    Resource,
    /// Anything else, and any failure whose kind is uncertain.
    Other,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Permission,
        Self::NotFound,
        Self::MissingProgram,
        Self::MissingPackage,
        Self::UnknownTool,
        Self::UnknownName,
        Self::BadArguments,
        Self::Timeout,
        Self::Outage,
        Self::Check,
        Self::Syntax,
        Self::EditMismatch,
        Self::Conflict,
        Self::Resource,
        Self::Other,
    ];

    /// The name in stored data.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::MissingProgram => "missing_program",
            Self::MissingPackage => "missing_package",
            Self::UnknownTool => "unknown_tool",
            Self::UnknownName => "unknown_name",
            Self::BadArguments => "bad_arguments",
            Self::Timeout => "timeout",
            Self::Outage => "outage",
            Self::Check => "check",
            Self::Syntax => "syntax",
            Self::EditMismatch => "edit_mismatch",
            Self::Conflict => "conflict",
            Self::Resource => "resource",
            Self::Other => "other",
        }
    }
}
