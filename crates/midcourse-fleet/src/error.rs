//! What can go wrong between a machine and its fleet, each with a hint that says what to do.

use midcourse::{ChainError, StoreError};

/// Why something could not be done with a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The address of the fleet is wrong, or credentials cannot be read.
    #[error("{0}")]
    Target(String),
    /// The connection cannot be encrypted, or the server cannot show who it is.
    #[error("no trusted connection to the fleet's Postgres: {0}")]
    Untrusted(String),
    /// The server is short of disk space, memory or connections. Trying again later may help.
    #[error("the fleet's Postgres cannot accept data now: {0}")]
    Exhausted(String),
    /// No connection, or it was lost. Trying again later may help.
    #[error("cannot reach the fleet's Postgres: {0}")]
    Unreachable(String),
    /// Another user of the fleet is in the way. Trying again later may help.
    #[error("the fleet's Postgres is busy: {0}")]
    Busy(String),
    /// The server cannot store what was sent.
    #[error("the fleet's Postgres cannot store this run: {0}")]
    Data(String),
    /// A name that a role or a project cannot have, or a role that does not exist.
    #[error("{0}")]
    Name(String),
    /// The server refused the password, or wants one and none was found.
    #[error("the fleet's Postgres denied access: {0}")]
    Password(String),
    /// The role may not do this.
    #[error("the fleet's Postgres denied access: {0}")]
    Refused(String),
    /// The role may read several projects, and none was chosen.
    #[error("this role may read several projects: {0}")]
    Ambiguous(String),
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
                "check the address, the network and whether Postgres is running; what is not shipped \
                 yet stays in the store of this machine"
            }
            Self::Exhausted(_) => {
                "free disk space or connections of the Postgres server; nothing is lost, and the next \
                 try goes on where this one stopped"
            }
            Self::Untrusted(_) => {
                "the server needs TLS with a certificate for the host name in the address; \
                 `?sslrootcert=FILE` names the authority that signed it, and `?sslmode=disable` turns \
                 TLS off"
            }
            Self::Busy(_) => "nothing was changed; try again later",
            Self::Data(_) => {
                "run `midcourse verify` on the machine that recorded the run, and repair or delete it \
                 there; the other runs are shipped"
            }
            Self::Name(_) => {
                "project names have up to 64 of a-z, 0-9, `.`, `_` and `-`; roles are those of \
                 Postgres"
            }
            Self::Password(_) => {
                "check the user name; put the line HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass \
                 (mode 600), or set PGPASSWORD"
            }
            Self::Refused(_) => {
                "a writer may only ship, and a reader only read; the owner of the fleet gives access \
                 with `midcourse fleet grant`, and does the rest (`grant --create` needs a role that \
                 may create roles)"
            }
            Self::Ambiguous(_) => "choose one of them with `--fleet-project NAME`",
            Self::Schema(_) => {
                "the owner of the fleet runs `midcourse fleet init` once, and `midcourse fleet \
                 migrate` after an upgrade of midcourse"
            }
            Self::Server(_) => "look at the log of the Postgres server",
            Self::Store(error) => error.hint(),
            Self::AlreadyShipping => "nothing to do: the other process ships what is new",
            Self::Run(_) => {
                "list the runs again; if the run is there, `midcourse verify` on the machine that \
                 recorded it says more"
            }
        }
    }

    /// Whether the same may succeed later without a change by the user.
    pub const fn is_temporary(&self) -> bool {
        use FleetError::{Busy, Exhausted, Store, Unreachable};
        matches!(self, Unreachable(_) | Exhausted(_) | Busy(_) | Store(StoreError::Locked))
    }
}

/// SQLSTATE classes in which the server, and not the request, is at fault: no connection, a wrong state,
/// intervention of the operator.
const UNREACHABLE_CLASSES: [&str; 3] = ["08", "55", "57"];

/// SQLSTATE classes of a server that lacks resources, or whose system has an error.
const EXHAUSTED_CLASSES: [&str; 2] = ["53", "58"];

/// SQLSTATEs of a transaction that has to be repeated: a conflict with another one, a lock that was not
/// free in time, and a timeout.
const BUSY: [&str; 3] = ["40", "55P03", "57014"];

/// SQLSTATE classes in which a value is at fault: it is invalid, violates a constraint, or is too large.
const DATA_CLASSES: [&str; 3] = ["22", "23", "54"];

const NO_PASSWORD: &str = "it asks for a password, and neither PGPASSWORD nor a password file nor a \
     service entry has one for this user, host, port and database";

impl From<postgres::Error> for FleetError {
    fn from(error: postgres::Error) -> Self {
        if let Some(why) = distrust(&error) {
            return Self::Untrusted(why);
        }
        let Some(found) = error.as_db_error() else {
            let mut text = error.to_string();
            // The error of the library names its own cause separately.
            if let Some(cause) = std::error::Error::source(&error) {
                text = format!("{text}: {cause}");
            }
            return match text {
                text if text.contains("error serializing") => Self::Data(text),
                text if is_conversion(&text) => Self::Server(text),
                text if text.contains("password missing") => Self::Password(NO_PASSWORD.to_owned()),
                text => Self::Unreachable(text),
            };
        };
        let (code, text) = (found.code().code(), found.message().to_owned());
        let is_in = |starts: &[&str]| starts.iter().any(|start| code.starts_with(start));
        match code {
            _ if is_in(&BUSY) => Self::Busy(text),
            _ if is_in(&DATA_CLASSES) => Self::Data(format!("{text} (SQLSTATE {code})")),
            _ if is_in(&UNREACHABLE_CLASSES) => Self::Unreachable(text),
            _ if is_in(&EXHAUSTED_CLASSES) => Self::Exhausted(text),
            "42501" => Self::Refused(text),
            _ if code.starts_with("28") => Self::Password(text),
            "3F000" | "42P01" | "42883" | "42703" => {
                Self::Schema(format!("the database is not a fleet of this release: {text}"))
            }
            _ => Self::Server(format!("{text} (SQLSTATE {code})")),
        }
    }
}

/// Why TLS gave the connection up, if it did.
fn distrust(error: &postgres::Error) -> Option<String> {
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        let inner = found.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(tls) = inner.or_else(|| found.downcast_ref::<rustls::Error>()) {
            return Some(describe(tls));
        }
        if found.to_string() == "server does not support TLS" {
            return Some("the server does not offer TLS".to_owned());
        }
        cause = found.source();
    }
    None
}

fn describe(error: &rustls::Error) -> String {
    use rustls::{CertificateError as Bad, Error};
    match error {
        Error::InvalidCertificate(Bad::UnknownIssuer) => {
            "the server's certificate is not signed by an authority that this machine trusts"
                .to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            format!("the server's certificate is for another host: {error}")
        }
        other => other.to_string(),
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
