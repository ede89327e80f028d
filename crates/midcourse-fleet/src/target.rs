//! Where a fleet is and how to connect to it, with the conventions of Postgres' own programs: a URL or
//! a service entry, and a password from the environment or a password file.
//!
//! A password in the URL is refused, because command lines can be read by other users and end up in
//! histories and logs. Beyond this machine, connections use TLS and check the server's certificate.

mod pg_service;
mod pgpass;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::FleetError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the network may be silent before a connection counts as lost.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(60);

/// Finds only what Postgres itself has under unqualified names: in the schema `public` of older databases,
/// every role may create functions and operators, which a query of another role would then call. Ends
/// the session of a machine that has vanished, so that its locks do not stop others for hours.
const SESSION: &str = "SET search_path = pg_catalog, pg_temp; SET datestyle = 'ISO, YMD'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 6; \
    SET tcp_user_timeout = '120s'";

/// The address of a fleet, with its credentials. Displays without credentials.
#[derive(Clone)]
pub struct FleetTarget {
    config: Config,
    /// The file with the certificate authorities to trust; `None` for those of the system.
    root_certificates: Option<PathBuf>,
}

/// The parts of an address that Postgres' library in Rust does not know.
#[derive(Default)]
struct Extra {
    ssl_mode: Option<String>,
    root_certificates: Option<PathBuf>,
}

impl Extra {
    /// Takes a parameter if it is one of ours.
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.ssl_mode = Some(value.to_owned()),
            "sslrootcert" => self.root_certificates = Some(value.into()),
            // Settings of libpq that do not change where a connection leads or what it checks.
            "gssencmode" | "sslnegotiation" => {}
            _ => return false,
        }
        true
    }
}

impl FleetTarget {
    /// Whether a text is the address of a fleet, and not the path of a file.
    pub fn is_address(text: &str) -> bool {
        ["postgres://", "postgresql://", "service="].iter().any(|start| text.starts_with(start))
    }

    /// Parses `postgres://USER@HOST:PORT/DATABASE?…` or `service=NAME`, and finds the password.
    pub fn parse(text: &str) -> Result<Self, FleetError> {
        Self::parse_with(text, &|name| std::env::var_os(name))
    }

    fn parse_with(
        text: &str,
        variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, FleetError> {
        let mut extra = Extra::default();
        let mut config = match text.strip_prefix("service=") {
            Some(name) => pg_service::read(name, &mut extra, variable)?,
            None => from_url(text, &mut extra)?,
        };
        if !config.get_hostaddrs().is_empty() {
            return Err(FleetError::Target(
                "`hostaddr` is not supported; write the address as the host".to_owned(),
            ));
        }
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(FleetError::Target("the address names no database".to_owned()));
        }
        if config.get_user().is_none() {
            let user = variable("PGUSER").or_else(|| variable("USER"));
            let user = user.and_then(|user| user.into_string().ok());
            let user = user.ok_or_else(|| {
                FleetError::Target("the address names no user, and PGUSER is not set".to_owned())
            })?;
            config.user(&user);
        }
        if config.get_password().is_none() {
            let password = variable("PGPASSWORD").and_then(|password| password.into_string().ok());
            let password = match password.filter(|password| !password.is_empty()) {
                Some(password) => Some(password),
                None => pgpass::find(&config, variable)?,
            };
            if let Some(password) = password {
                config.password(password);
            }
        }
        let default = if is_local(&config) { "disable" } else { "verify-full" };
        let mode = match extra.ssl_mode.as_deref().unwrap_or(default) {
            "disable" => SslMode::Disable,
            "require" | "verify-ca" | "verify-full" => SslMode::Require,
            other => {
                return Err(FleetError::Target(format!(
                    "sslmode={other} is not supported; write verify-full, or disable for a \
                     connection without TLS"
                )));
            }
        };
        config
            .ssl_mode(mode)
            .application_name("midcourse")
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(NETWORK_TIMEOUT)
            .keepalives_idle(NETWORK_TIMEOUT);
        Ok(Self { config, root_certificates: extra.root_certificates })
    }

    /// Connects.
    pub fn connect(&self) -> Result<Client, FleetError> {
        let mut client = match self.config.get_ssl_mode() {
            SslMode::Disable => self.config.connect(NoTls)?,
            _ => self.config.connect(MakeRustlsConnect::new(self.tls()?))?,
        };
        client.batch_execute(SESSION)?;
        Ok(client)
    }

    fn tls(&self) -> Result<ClientConfig, FleetError> {
        let mut roots = RootCertStore::empty();
        match &self.root_certificates {
            Some(file) => {
                let unreadable = |error: &dyn fmt::Display| {
                    FleetError::Target(format!("cannot read {}: {error}", file.display()))
                };
                let found =
                    CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))?;
                for certificate in found {
                    let certificate = certificate.map_err(|error| unreadable(&error))?;
                    roots.add(certificate).map_err(|error| unreadable(&error))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        if roots.is_empty() {
            let place = self.root_certificates.as_ref().map(|file| file.display().to_string());
            let place = place.as_deref().unwrap_or("the files of this system");
            return Err(FleetError::Untrusted(format!(
                "there is no certificate of an authority in {place}"
            )));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| FleetError::Target(error.to_string()))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }

    /// A text that is the same for the same database, without credentials: for the name of a file.
    pub(crate) fn identity(&self) -> String {
        format!("{self} as {}", self.config.get_user().unwrap_or_default())
    }
}

/// Without the user, the password and the parameters.
impl fmt::Display for FleetTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let ports = self.config.get_ports();
        for (place, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(place).or_else(|| ports.first()).copied().unwrap_or(5432);
            if place > 0 {
                f.write_str(",")?;
            }
            match host {
                Host::Tcp(name) => write!(f, "{name}:{port}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{}:{port}", path.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for FleetTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetTarget({self})")
    }
}

fn from_url(text: &str, extra: &mut Extra) -> Result<Config, FleetError> {
    let invalid = |why: &str| FleetError::Target(format!("invalid address of a fleet: {why}"));
    if !FleetTarget::is_address(text) {
        return Err(invalid("it does not begin with postgres:// or service="));
    }
    if text.contains('#') {
        return Err(invalid(
            "only `verify --against` takes #PROJECT; elsewhere, name the project with --project or \
             --fleet-project",
        ));
    }
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let known: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .filter(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            !extra.take(key, &percent_decoded(value))
        })
        .collect();
    // The error of the parser may quote the address, in which there may be a password.
    let address = if known.is_empty() {
        address.to_owned()
    } else {
        format!("{address}?{}", known.join("&"))
    };
    let config: Config = address.parse().map_err(|_| match known.is_empty() {
        true => invalid("it cannot be read"),
        false => invalid("it has a parameter that is not known, or an invalid value"),
    })?;
    if config.get_password().is_some() {
        return Err(FleetError::Target(
            "the address has a password, which other users of this machine can see; set \
             PGPASSWORD, or use a password file or a service entry"
                .to_owned(),
        ));
    }
    Ok(config)
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether all hosts are this machine.
fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

#[cfg(test)]
mod tests;
