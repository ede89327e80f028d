//! What can go wrong between a machine and its fleet, each with a hint that says what to do.

use midcourse::{ChainError, StoreError};

/// Why something could not be done with a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The address of the fleet is wrong, or credentials cannot be read.
    #[error("{0}")]
    Target(String),
    /// No connection, or it was lost. Trying again later may help.
    #[error("cannot reach the fleet's Postgres: {0}")]
    Unreachable(String),
    /// The server refused the password, or the role may not do this.
    #[error("the fleet's Postgres refuses: {0}")]
    Refused(String),
    /// There is no schema of midcourse in the database, or one of another release.
    #[error("{0}")]
    Schema(String),
    /// The server answered in an unexpected way.
    #[error("the fleet's Postgres failed: {0}")]
    Server(String),
    /// The store on this machine could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process is shipping this store to the same project.
    #[error("another process is shipping this store already")]
    AlreadyShipping,
    /// A run cannot be read as a whole.
    #[error("{0}")]
    Run(String),
}

impl FleetError {
    /// What the user can do about the error.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Target(_) => {
                "write postgres://USER@HOST/DATABASE or service=NAME; the password comes from \
                 PGPASSWORD, a password file or the service entry"
            }
            Self::Unreachable(_) => {
                "check the address, the network and whether Postgres is running; nothing is lost, \
                 and the next try goes on where this one stopped"
            }
            Self::Refused(_) => {
                "check the user name and the password; the owner of the fleet gives access with \
                 `midcourse fleet grant`"
            }
            Self::Schema(_) => {
                "the owner of the fleet runs `midcourse fleet init` once, and `midcourse fleet \
                 migrate` after an upgrade of midcourse"
            }
            Self::Server(_) => "look at the log of the Postgres server",
            Self::Store(error) => error.hint(),
            Self::AlreadyShipping => "nothing to do: the other process ships what is new",
            Self::Run(_) => "`midcourse verify` checks the runs of a store",
        }
    }

    /// Whether the same may succeed later without a change by the user.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Store(StoreError::Locked))
    }
}

/// SQLSTATE classes in which the server, and not the request, is at fault: no connection, no
/// resources, a lock, intervention of the operator, a system error; and a transaction that has to be repeated.
const TEMPORARY_CLASSES: [&str; 6] = ["08", "53", "55", "57", "58", "40"];

impl From<postgres::Error> for FleetError {
    fn from(error: postgres::Error) -> Self {
        let Some(found) = error.as_db_error() else {
            let mut text = error.to_string();
            // The error of the library names its own cause separately.
            if let Some(cause) = std::error::Error::source(&error) {
                text = format!("{text}: {cause}");
            }
            return match is_conversion(&text) {
                true => Self::Server(text),
                false => Self::Unreachable(text),
            };
        };
        let (code, text) = (found.code().code(), found.message().to_owned());
        match code {
            _ if TEMPORARY_CLASSES.iter().any(|class| code.starts_with(class)) => {
                Self::Unreachable(text)
            }
            "42501" => Self::Refused(text),
            _ if code.starts_with("28") => Self::Refused(text),
            "3F000" | "42P01" | "42883" | "42703" => {
                Self::Schema(format!("the database is not a fleet of this release: {text}"))
            }
            _ => Self::Server(format!("{text} (SQLSTATE {code})")),
        }
    }
}

/// Whether the error is about a value and not about the connection.
fn is_conversion(text: &str) -> bool {
    ["error serializing", "error deserializing", "invalid column", "unexpected number of rows"]
        .iter()
        .any(|start| text.contains(start))
}

impl From<ChainError> for FleetError {
    fn from(error: ChainError) -> Self {
        match error {
            ChainError::Store(error) => Self::Store(error),
            other => Self::Run(other.to_string()),
        }
    }
}
