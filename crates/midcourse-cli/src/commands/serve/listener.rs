//! Where the server listens, and its connections: plain HTTP on this machine, or TLS.
//!
//! Clients need not be friendly: the number of connections is limited, and so is the time for a
//! handshake and for the head of a request.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::private_file;
use super::rules::Transport;
use super::site::Peer;
use crate::terminal::warn;

const MAX_CONNECTIONS: usize = 1_024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Also the time for which an idle connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait before accepting connections again when the system has no free sockets.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How often the files of the certificate are read again.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Checks that nobody on the network can read tokens and runs.
pub(super) fn check(listen: SocketAddr, transport: Transport, hosts: &[String]) -> Result<()> {
    let is_loopback = listen.ip().to_canonical().is_loopback();
    if !is_loopback && transport == Transport::Plain {
        bail!(
            "cannot listen on {listen} with plain HTTP: others on the network could read tokens and \
             runs; add --tls-cert FILE --tls-key FILE, or --behind-tls-proxy if a proxy in front \
             terminates TLS, or listen on 127.0.0.1"
        );
    }
    for host in hosts {
        let is_name = !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b))
            && (host.starts_with('[') || !host.contains(':'));
        ensure!(
            is_name,
            "invalid name `{host}`; write it without scheme and port: runs.example.com"
        );
    }
    if hosts.is_empty() && transport == Transport::TlsProxy {
        bail!("--behind-tls-proxy needs the name that people use: add --host runs.example.com");
    }
    if hosts.is_empty() && listen.ip().is_unspecified() {
        bail!("{listen} has no name; add the one that people use: --host runs.example.com");
    }
    Ok(())
}

pub(super) fn bind(address: SocketAddr, option: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address}; choose another one with {option}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A certificate and its key, which are read again when they are renewed.
pub(super) struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
}

impl Certificate {
    pub(super) fn open(certificate: PathBuf, key: PathBuf) -> Result<Self> {
        let config = RwLock::new(Arc::new(tls_config(&certificate, &key)?));
        Ok(Self { certificate, key, config })
    }

    /// Reads the files again from time to time.
    pub(super) async fn renew(&self) {
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            match tls_config(&self.certificate, &self.key) {
                Ok(config) => {
                    *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                }
                // A renewal may be under way.
                Err(error) => warn(&format!("the previous certificate stays in use: {error:#}")),
            }
        }
    }

    fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

fn tls_config(certificate: &Path, key_file: &Path) -> Result<ServerConfig> {
    let place = || certificate.display().to_string();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read certificates (PEM) in {}", place()))?;
    ensure!(!chain.is_empty(), "there is no certificate (PEM) in {}", place());
    let key = PrivateKeyDer::from_pem_slice(private_file::read(key_file)?.as_bytes())
        .with_context(|| format!("cannot read a private key (PEM) in {}", key_file.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .with_context(|| format!("{} and {} do not fit", place(), key_file.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves connections until the program ends.
pub(super) async fn serve(
    listener: TcpListener,
    certificate: Option<Arc<Certificate>>,
    router: Router,
) -> Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await?;
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (router, certificate) = (router.clone(), certificate.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let Some(certificate) = certificate else {
                return converse(stream, peer, router).await;
            };
            let handshake = certificate.acceptor().accept(stream);
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
                converse(stream, peer, router).await;
            }
        });
    }
}

/// Answers the requests of one connection.
async fn converse<S>(stream: S, peer: SocketAddr, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer.ip()));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A connection that breaks is the client's business.
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_served_in_the_clear_beyond_this_machine() {
        let check = |listen: &str, transport, hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
            check(listen.parse().unwrap(), transport, &hosts).map_err(|error| error.to_string())
        };
        let named = &["runs.example"][..];
        assert_eq!(check("127.0.0.1:1", Transport::Plain, &[]), Ok(()));
        assert_eq!(check("[::1]:1", Transport::Plain, &[]), Ok(()));
        assert_eq!(check("10.0.0.1:1", Transport::Tls, &[]), Ok(()));
        assert_eq!(check("0.0.0.0:1", Transport::Tls, named), Ok(()));
        assert_eq!(check("0.0.0.0:1", Transport::TlsProxy, named), Ok(()));
        for (listen, transport, hosts, hint) in [
            ("0.0.0.0:1", Transport::Plain, named, "--tls-cert FILE"),
            ("10.0.0.1:1", Transport::Plain, &[], "--behind-tls-proxy"),
            ("[::]:1", Transport::Plain, named, "127.0.0.1"),
            ("0.0.0.0:1", Transport::Tls, &[], "--host"),
            ("127.0.0.1:1", Transport::TlsProxy, &[], "--host"),
            ("127.0.0.1:1", Transport::Tls, &["https://x.example"], "without scheme"),
            ("127.0.0.1:1", Transport::Tls, &["x.example:443"], "without scheme"),
        ] {
            let error = check(listen, transport, hosts).unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }
}
