//! Where requests go: the address of each API, and the client that reaches it.
//!
//! A proxy of the user's own (HTTPS_PROXY and its kin) and their own authorities (SSL_CERT_FILE,
//! SSL_CERT_DIR, NODE_EXTRA_CA_CERTS) are honoured, as the agent itself would.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Result;
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

use super::server::Body;
use super::{ADDRESSES, OLDER_NAME, parse_url};
use crate::handoff;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Connector = HttpsConnector<Dialer>;

/// The variable by which clients on Node know more authorities.
const MORE_AUTHORITIES: &str = "NODE_EXTRA_CA_CERTS";

/// How often a connection is asked whether it is alive.
const PINGS: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(60);

/// Where the requests of each API go.
#[derive(Debug, Clone)]
pub(crate) struct Upstreams(Vec<(&'static str, Uri)>);

impl Upstreams {
    /// What was given, else what the environment says, else the companies' own.
    pub(crate) fn find(
        given: &[String],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for (variable, api, default) in ADDRESSES {
            let is_set = |name: &str| environment(name).filter(|url| !url.is_empty());
            let (newer, older) = OLDER_NAME;
            let set = is_set(variable).or_else(|| is_set(older).filter(|_| variable == newer));
            let mut url = set.unwrap_or_else(|| default.to_owned());
            for given in given {
                match given.split_once('=') {
                    Some((name, exact)) if name == api => exact.clone_into(&mut url),
                    Some((name, _)) if ADDRESSES.iter().any(|(_, known, _)| *known == name) => {}
                    _ => url = root_of(given, api),
                }
            }
            let url = parse_url(&url)?;
            check(&url)?;
            found.push((api, url));
        }
        Ok(Self(found))
    }

    /// The addresses.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &Uri)> {
        self.0.iter().map(|(api, url)| (*api, url))
    }
}

/// Whether an address is that of one of our proxies.
pub(crate) fn is_proxy(url: &str) -> bool {
    url.contains(&format!("/{}", handoff::PATH_PREFIX))
}

/// Refuses where requests would come back to us, or cannot be sent as the user wants them sent.
fn check(url: &Uri) -> Result<()> {
    if is_proxy(url.path()) {
        anyhow::bail!("{url} is one of midcourse's proxies already");
    }
    let proxy = Matcher::from_env().intercept(url);
    if let Some(scheme) = proxy.as_ref().and_then(|proxy| proxy.uri().scheme_str())
        && scheme != "http"
    {
        anyhow::bail!(
            "the way to {url} leads through a {scheme} proxy, which midcourse cannot use"
        );
    }
    Ok(())
}

/// The address of an API on a server that has both: the clients of one name its version themselves.
fn root_of(server: &str, api: &str) -> String {
    let server = server.trim_end_matches('/');
    let root = server.strip_suffix("/v1").unwrap_or(server);
    if api == "openai" { format!("{root}/v1") } else { root.to_owned() }
}

/// One API's server.
pub(super) struct Upstream {
    pub(super) api: &'static str,
    base: Uri,
    pub(super) client: Client<Connector, Body>,
    /// For what is to become another protocol, which only the older HTTP can.
    pub(super) for_upgrades: Client<Connector, Body>,
}

impl Upstream {
    pub(super) fn new(api: &'static str, base: &Uri, tls: &Arc<ClientConfig>) -> Self {
        let dialer = Dialer::to(base);
        let tls = ClientConfig::clone(tls);
        let older = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let older = older.enable_http1().wrap_connector(dialer.clone());
        let both = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let both = both.enable_all_versions().wrap_connector(dialer);
        let client = |connector| {
            Client::builder(TokioExecutor::new())
                .http1_preserve_header_case(true)
                .pool_timer(TokioTimer::new())
                .timer(TokioTimer::new())
                // All requests share one connection there, and would wait for one that is dead.
                .http2_keep_alive_interval(PINGS)
                .http2_keep_alive_timeout(PINGS)
                .http2_keep_alive_while_idle(true)
                .build(connector)
        };
        Self { api, base: base.clone(), client: client(both), for_upgrades: client(older) }
    }

    /// The address of something that this server has.
    pub(super) fn address(&self, path_and_query: &str) -> Result<Uri, hyper::http::Error> {
        let mut parts = self.base.clone().into_parts();
        let base = self.base.path().trim_end_matches('/');
        let target = format!("{base}{path_and_query}");
        let root = if target.starts_with('/') { "" } else { "/" };
        parts.path_and_query = Some(format!("{root}{target}").parse()?);
        Ok(Uri::from_parts(parts)?)
    }
}

/// The authorities of the system and of the user.
pub(super) fn tls() -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is none; a server that needs it is refused, and it is said why.
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if let Some(file) = std::env::var_os(MORE_AUTHORITIES)
        && let Ok(more) = CertificateDer::pem_file_iter(file)
    {
        roots.add_parsable_certificates(more.flatten());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Reaches a server, by the user's proxy if there is one for it.
#[derive(Clone)]
pub(super) enum Dialer {
    Direct(HttpConnector),
    Through(Box<Tunnel<HttpConnector>>),
}

impl Dialer {
    fn to(base: &Uri) -> Self {
        let mut direct = HttpConnector::new();
        // What the address is for is the business of the layer above.
        direct.enforce_http(false);
        direct.set_nodelay(true);
        direct.set_keepalive(Some(IDLE));
        match Matcher::from_env().intercept(base) {
            None => Self::Direct(direct),
            Some(proxy) => {
                let tunnel = Tunnel::new(proxy.uri().clone(), direct);
                Self::Through(Box::new(match proxy.basic_auth() {
                    Some(credentials) => tunnel.with_auth(credentials.clone()),
                    None => tunnel,
                }))
            }
        }
    }
}

impl tower_service::Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self {
            Self::Direct(connector) => connector.poll_ready(context).map_err(Into::into),
            Self::Through(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        match self {
            Self::Direct(connector) => {
                let connecting = connector.call(address);
                Box::pin(async { Ok(connecting.await?) })
            }
            Self::Through(tunnel) => {
                let connecting = tunnel.call(address);
                Box::pin(async { Ok(connecting.await?) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Upstreams;

    fn found(given: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Vec<String>> {
        let given: Vec<String> = given.iter().map(|it| (*it).to_owned()).collect();
        let known = |name: &str| {
            let value = environment.iter().find(|(known, _)| *known == name);
            value.map(|(_, value)| (*value).to_owned())
        };
        let upstreams = Upstreams::find(&given, known)?;
        Ok(upstreams.all().map(|(api, url)| format!("{api} {url}")).collect())
    }

    #[test]
    fn requests_go_where_they_would_have_gone() {
        let own = ["anthropic https://api.anthropic.com/", "openai https://api.openai.com/v1"];
        assert_eq!(found(&[], &[("OPENAI_BASE_URL", "")]).unwrap(), own);
        let set = [("OPENAI_API_BASE", "http://old/v1"), ("ANTHROPIC_BASE_URL", "http://a/x/")];
        assert_eq!(found(&[], &set).unwrap(), ["anthropic http://a/x/", "openai http://old/v1"]);
        let newer = [("OPENAI_API_BASE", "http://old/v1"), ("OPENAI_BASE_URL", "http://new/v1")];
        assert_eq!(found(&[], &newer).unwrap()[1], "openai http://new/v1");
        for server in ["http://gate:4000", "http://gate:4000/", "http://gate:4000/v1"] {
            let both = ["anthropic http://gate:4000/", "openai http://gate:4000/v1"];
            assert_eq!(found(&[server], &set).unwrap(), both, "{server}");
        }
        let one = found(&["openai=http://only/v2"], &set).unwrap();
        assert_eq!(one, ["anthropic http://a/x/", "openai http://only/v2"]);
    }

    #[test]
    fn what_is_no_address_is_an_error() {
        for wrong in ["gate", "ftp://gate", "http://", "openai=", "http://gate/?x=1"] {
            let error = found(&[wrong], &[]).unwrap_err().to_string();
            assert!(error.contains("no address"), "{wrong}: {error}");
        }
    }
}
