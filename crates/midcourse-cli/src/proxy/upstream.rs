//! Upstreams, which are the servers of the model APIs: their base URLs, and the HTTP clients that
//! connect to them.
//!
//! If the user has set an HTTP proxy of their own (`HTTPS_PROXY` and related variables) or
//! certificate authorities (`SSL_CERT_FILE`, `SSL_CERT_DIR`, `NODE_EXTRA_CA_CERTS`) for the agent,
//! these clients use them too.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue};
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

use super::base_url::BaseUrl;
use super::http::remove_in_order;
use super::model_hosts::ModelHosts;
use super::resolver::Resolver;
use crate::handoff;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = BoxBody<Bytes, Failure>;
type Connector = HttpsConnector<TcpConnector>;

/// For each API that `midcourse proxy` offers: the environment variable with its base URL, its name
/// in the proxy's URLs, and its default base URL.
const BASE_URLS: [(&str, &str, &str); 3] = [
    ("ANTHROPIC_BASE_URL", "anthropic", "https://api.anthropic.com"),
    ("OPENAI_BASE_URL", "openai", "https://api.openai.com/v1"),
    ("GOOGLE_GEMINI_BASE_URL", "gemini", "https://generativelanguage.googleapis.com"),
];

/// The variable with the base URL of OpenAI's API, and its older name, which some clients prefer.
const BASE_URL_ALIAS: (&str, &str) = ("OPENAI_BASE_URL", "OPENAI_API_BASE");

/// Environment variables in which agents find the base URL of their model API.
const BASE_URL_VARIABLES: [&str; 8] = [
    "ANTHROPIC_API_BASE",
    "ANTHROPIC_BASE_URL",
    "COPILOT_PROVIDER_BASE_URL",
    "GEMINI_API_BASE",
    "GOOGLE_GEMINI_BASE_URL",
    "LLM_BASE_URL",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
];

/// The environment variable with additional certificate authorities for Node programs.
const NODE_AUTHORITIES: &str = "NODE_EXTRA_CA_CERTS";

/// How many headers a request or response may have. Servers take at least a hundred, and the default
/// of the HTTP library is no more than that.
pub(super) const MAX_HEADERS: usize = 1000;

/// Maximum size of all headers of an HTTP/2 request or response. The default of the HTTP library,
/// 16 kB, is less than servers accept.
pub(super) const MAX_HEADER_LIST_BYTES: u32 = 1024 * 1024;

/// Time between two pings on an HTTP/2 connection. If a ping gets no reply for this time, the
/// connection is closed.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long a TCP connection may be idle before keep-alive probes are sent.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);

/// The servers that the proxy forwards to, each with its name in the proxy's URLs.
#[derive(Debug, Clone)]
pub(crate) struct Upstreams(Vec<(String, BaseUrl)>);

/// A base URL in the environment that is replaced by the proxy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) variable: &'static str,
    /// The server, without a path.
    origin: BaseUrl,
    /// The path of the base URL as it was written, which the proxy's base URL repeats.
    path: String,
}

impl Redirect {
    /// The base URLs in the environment. The error says why one of them cannot be redirected.
    pub(crate) fn all(environment: impl Fn(&str) -> Option<String>) -> Result<Vec<Self>> {
        let set = BASE_URL_VARIABLES.into_iter().filter_map(|variable| {
            environment(variable).filter(|url| !url.is_empty()).map(|url| (variable, url))
        });
        let redirects = set.map(|(variable, text)| {
            let url =
                BaseUrl::parse(&text).with_context(|| format!("cannot redirect {variable}"))?;
            check(url.uri())?;
            let origin = url.origin()?;
            let rest = text.split_once("://").map_or("", |(_, rest)| rest);
            let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default().to_owned();
            Ok(Self { variable, origin, path })
        });
        redirects.collect()
    }

    /// Whether the server is a model host, whose connections can be decrypted instead of
    /// redirected.
    pub(crate) fn is_covered_by(&self, hosts: &ModelHosts) -> bool {
        let origin = self.origin.uri();
        let host = origin.host().unwrap_or_default();
        let port = origin.port_u16().unwrap_or(443);
        origin.scheme_str() == Some("https") && hosts.contain(host, port)
    }

    /// The base URL that sends requests to the proxy. It has the path of the original URL, because
    /// clients derive the paths of their requests from it. It also has the original credentials,
    /// because clients differ in how they use them.
    pub(crate) fn url(&self, address: SocketAddr, token: &str) -> String {
        let user = self.origin.user_info();
        format!("http://{user}{address}/{token}/{}{}", self.variable, self.path)
    }
}

impl Upstreams {
    /// Finds the URL of each API: from the options, else from the environment, else the vendor's
    /// own.
    pub(crate) fn find(
        options: &[String],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for (variable, api, default) in BASE_URLS {
            let set = |name: &str| environment(name).filter(|url| !url.is_empty());
            let (name, alias) = BASE_URL_ALIAS;
            let url = set(variable).or_else(|| set(alias).filter(|_| variable == name));
            let mut url = url.unwrap_or_else(|| default.to_owned());
            for option in options {
                match option.split_once('=') {
                    Some((name, exact)) if name == api => exact.clone_into(&mut url),
                    Some((name, _)) if BASE_URLS.iter().any(|(_, known, _)| *known == name) => {}
                    _ => url = api_root(option, api),
                }
            }
            let url = BaseUrl::parse(&url)?;
            check(url.uri())?;
            found.push((api.to_owned(), url));
        }
        Ok(Self(found))
    }

    /// The servers of redirected base URLs.
    pub(super) fn of_redirects(redirects: &[Redirect]) -> Self {
        Self(redirects.iter().map(|it| (it.variable.to_owned(), it.origin.clone())).collect())
    }

    /// Only the servers that the options name. The proxy's URLs contain the host of each: a client
    /// with a URL for another server gets an error, and its key does not go to the wrong server.
    pub(crate) fn named(options: &[String]) -> Result<Self> {
        anyhow::ensure!(!options.is_empty(), "name a server with --upstream");
        let is_named = |api: &str| {
            options.iter().any(|option| match option.split_once('=') {
                Some((name, _)) if BASE_URLS.iter().any(|(_, known, _)| *known == name) => {
                    name == api
                }
                _ => true,
            })
        };
        let named = Self::find(options, |_| None)?.0.into_iter().filter(|(api, _)| is_named(api));
        let with_host = |(api, url): (String, BaseUrl)| {
            let host = url.uri().authority().map_or("", |authority| authority.as_str());
            (format!("{api}-{host}"), url)
        };
        Ok(Self(named.map(with_host).collect()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &BaseUrl)> {
        self.0.iter().map(|(name, url)| (name.as_str(), url))
    }

    /// The environment variables, with their values, that make clients use the proxy.
    pub(crate) fn variables(
        &self,
        address: SocketAddr,
        token: &str,
    ) -> Vec<(&'static str, String)> {
        let variable = |name: &str| {
            let is_api = |api: &str| name.strip_prefix(api).is_some_and(is_end_of_api);
            BASE_URLS.into_iter().find(|(_, api, _)| is_api(api)).map(|(variable, _, _)| variable)
        };
        let url = |name: &str| format!("http://{address}/{token}/{name}");
        self.iter().filter_map(|(name, _)| Some((variable(name)?, url(name)))).collect()
    }
}

/// Whether a URL is the URL of a midcourse proxy.
fn is_proxy(url: &str) -> bool {
    let prefix = handoff::PATH_PREFIX;
    // The token is a path segment, or a password.
    url.contains(&format!("/{prefix}")) || url.contains(&format!(":{prefix}"))
}

/// Whether this process runs inside a `midcourse run` with a proxy.
pub(crate) fn is_inside_another() -> bool {
    let variables = BASE_URL_VARIABLES.into_iter().chain(["HTTPS_PROXY", "https_proxy"]);
    variables.filter_map(|name| std::env::var(name).ok()).any(|url| is_proxy(&url))
}

/// Whether the rest of an upstream's name, after that of its API, is empty or its host.
fn is_end_of_api(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('-')
}

/// Checks that the user's HTTP proxy settings let midcourse connect to model hosts, so that
/// connections to them can be decrypted.
pub(crate) fn check_interception() -> Result<()> {
    check(&Uri::from_static("https://api.openai.com"))
}

/// Rejects the URL of a midcourse proxy, because the proxy might then forward requests to itself.
/// Also rejects a server if the user's settings require a proxy for it whose URL is not `http://`.
fn check(url: &Uri) -> Result<()> {
    if is_proxy(url.path()) {
        anyhow::bail!("{url} is already a midcourse proxy; name the model server itself");
    }
    let proxy = Matcher::from_env().intercept(url);
    if let Some(scheme) = proxy.as_ref().and_then(|proxy| proxy.uri().scheme_str())
        && scheme != "http"
    {
        anyhow::bail!(
            "cannot reach {url} through a {scheme} proxy; use an http proxy, or except the host \
             with NO_PROXY"
        );
    }
    Ok(())
}

/// The base URL of one API on a server that offers all. OpenAI's base URL ends with the version
/// (`/v1`), the others do not.
fn api_root(server: &str, api: &str) -> String {
    let server = server.trim_end_matches('/');
    let root = server.strip_suffix("/v1").unwrap_or(server);
    if api == "openai" { format!("{root}/v1") } else { root.to_owned() }
}

pub(super) struct Upstream {
    /// The first path segment, after the token, of requests to this server.
    pub(super) name: String,
    base: Uri,
    /// Made from the credentials in the base URL.
    authorization: Option<HeaderValue>,
    pub(super) client: Client<Connector, Body>,
    /// For upgrades to another protocol (websockets), which work with HTTP/1.1 only.
    pub(super) http1_client: Client<Connector, Body>,
}

impl Upstream {
    pub(super) fn new(name: &str, base: &BaseUrl, tls: &Arc<ClientConfig>) -> Self {
        let (base, authorization) = (base.uri(), base.authorization());
        let tcp = TcpConnector::new(base);
        let tls = ClientConfig::clone(tls);
        let http1 = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let http1 = http1.enable_http1().wrap_connector(tcp.clone());
        let any = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let any = any.enable_all_versions().wrap_connector(tcp);
        let client = |connector| {
            Client::builder(TokioExecutor::new())
                .http1_preserve_header_case(true)
                .http1_max_headers(MAX_HEADERS)
                .pool_timer(TokioTimer::new())
                .timer(TokioTimer::new())
                // With HTTP/2, all requests share one connection. Pings detect when it is dead.
                .http2_keep_alive_interval(PING_INTERVAL)
                .http2_keep_alive_timeout(PING_INTERVAL)
                .http2_keep_alive_while_idle(true)
                .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
                .build(connector)
        };
        Self {
            name: name.to_owned(),
            base: base.clone(),
            authorization,
            client: client(any),
            http1_client: client(http1),
        }
    }

    /// The server's name and port, for log lines.
    pub(super) fn server(&self) -> &str {
        self.base.authority().map_or(self.name.as_str(), |authority| authority.as_str())
    }

    /// Makes the header `Host` name the server instead of the proxy, or removes it. Adds the
    /// credentials of the base URL if the client sends none. `is_http1` is true if the connection
    /// to the server certainly uses HTTP/1.1.
    pub(super) fn address(&self, headers: &mut HeaderMap, is_http1: bool) {
        // HTTP/2 has no header `Host`. If the HTTP library chooses HTTP/1.1 later, the library adds
        // the header at the end.
        if is_http1
            && headers.contains_key(HOST)
            && let Some(host) = self.host()
        {
            headers.insert(HOST, host);
        } else {
            remove_in_order(headers, |name| name == HOST);
        }
        if let Some(authorization) = &self.authorization
            && !headers.contains_key(AUTHORIZATION)
        {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
    }

    /// The value of the header `Host`: the host, and the port unless it is the scheme's default.
    fn host(&self) -> Option<HeaderValue> {
        let own = if self.is_plain() { 80 } else { 443 };
        let host = self.base.host()?;
        match self.base.port_u16().filter(|port| *port != own) {
            Some(port) => HeaderValue::try_from(format!("{host}:{port}")).ok(),
            None => HeaderValue::from_str(host).ok(),
        }
    }

    /// Whether the proxy connects to the server without TLS, which implies HTTP/1.1.
    pub(super) fn is_plain(&self) -> bool {
        self.base.scheme_str() == Some("http")
    }

    /// The URL of a path on this server, below its base URL.
    pub(super) fn url(&self, path_and_query: &str) -> Result<Uri, hyper::http::Error> {
        let mut parts = self.base.clone().into_parts();
        let base = self.base.path().trim_end_matches('/');
        let target = format!("{base}{path_and_query}");
        let root = if target.starts_with('/') { "" } else { "/" };
        parts.path_and_query = Some(format!("{root}{target}").parse()?);
        Ok(Uri::from_parts(parts)?)
    }
}

/// TLS configuration with the certificate authorities of the system and the user.
pub(super) fn tls() -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    // Skip certificates that cannot be read. If a server needs one of these certificates, the
    // connection to the server fails, and that error is logged.
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if let Some(file) = std::env::var_os(NODE_AUTHORITIES)
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

/// Opens TCP connections to a server, through the user's HTTP proxy if one is configured for it.
#[derive(Clone)]
pub(super) enum TcpConnector {
    Direct(HttpConnector<Resolver>),
    Tunnel(Box<Tunnel<HttpConnector<Resolver>>>),
}

impl TcpConnector {
    pub(super) fn new(base: &Uri) -> Self {
        let mut direct = HttpConnector::new_with_resolver(Resolver);
        // Accept https URLs too: the TLS layer on top of this connector handles them.
        direct.enforce_http(false);
        direct.set_nodelay(true);
        direct.set_keepalive(Some(KEEPALIVE_TIME));
        match Matcher::from_env().intercept(base) {
            None => Self::Direct(direct),
            Some(proxy) => {
                let tunnel = Tunnel::new(proxy.uri().clone(), direct);
                Self::Tunnel(Box::new(match proxy.basic_auth() {
                    Some(credentials) => tunnel.with_auth(credentials.clone()),
                    None => tunnel,
                }))
            }
        }
    }
}

impl tower_service::Service<Uri> for TcpConnector {
    type Response = TokioIo<TcpStream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self {
            Self::Direct(connector) => connector.poll_ready(context).map_err(Into::into),
            Self::Tunnel(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        match self {
            Self::Direct(connector) => {
                let connecting = connector.call(url);
                Box::pin(async { Ok(connecting.await?) })
            }
            Self::Tunnel(tunnel) => {
                let connecting = tunnel.call(url);
                Box::pin(async { Ok(connecting.await?) })
            }
        }
    }
}
