//! Opens (decrypts) a TLS connection to a model host: midcourse is the server for the client, and
//! the client for the model host.
//!
//! midcourse connects to the model host first, and offers the client the protocol that the model
//! host chose. Each connection of a client has one connection to the model host, never a pool, so
//! that what one side does to its connection also happens to the other side's. A connection that
//! cannot be decrypted becomes a blind tunnel: its bytes are copied unread.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::{http1 as http1_client, http2 as http2_client};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::server::{Acceptor, ClientHello};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake, TlsConnector, client};
use xxhash_rust::xxh3::xxh3_64;

use super::authority::Authority;
use super::connect::Target;
use super::long_target::{LongTarget, Upstream414};
use super::model_hosts::ModelHosts;
use super::notices::Notice;
use super::server::Server;
use super::tunnel::BUFFER_LEN;
use super::upstream::{Body, Failure, MAX_HEADER_LIST_BYTES, MAX_HEADERS};

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Size of HTTP/2 flow-control windows, in bytes, so that long responses are not slowed down.
const WINDOW: u32 = 4 * 1024 * 1024;

/// What is needed to open (decrypt) connections.
pub(super) struct Interception {
    authority: Authority,
    hosts: ModelHosts,
    tls: Arc<ClientConfig>,
    /// Hosts that get blind tunnels, because the connection to the host could not be opened.
    not_opened: Mutex<HashSet<String>>,
    /// Clients that refused midcourse's certificate for a host. They get blind tunnels to this host.
    refused: Mutex<HashSet<Visit>>,
    /// Clients whose request to a host has come through, so that they accept midcourse's certificate
    /// for it.
    accepted: Mutex<HashSet<Visit>>,
    is_off: AtomicBool,
}

impl Interception {
    pub(super) fn new(authority: Authority, hosts: ModelHosts, tls: Arc<ClientConfig>) -> Self {
        Self {
            authority,
            hosts,
            tls,
            not_opened: Mutex::default(),
            refused: Mutex::default(),
            accepted: Mutex::default(),
            is_off: AtomicBool::new(false),
        }
    }

    /// From now on, no connection is decrypted.
    pub(super) fn switch_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    pub(super) fn opens(&self, target: &Target) -> bool {
        let not_opened = self.not_opened.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_off.load(Ordering::Relaxed)
            && self.hosts.contain(&target.host, target.port)
            && !not_opened.contains(&target.host)
    }

    fn stop_opening(&self, host: &str) {
        let mut not_opened = self.not_opened.lock().unwrap_or_else(PoisonError::into_inner);
        not_opened.insert(host.to_owned());
    }

    /// Notes that a request of this client to this host came through.
    pub(super) fn accept(&self, visit: &Visit) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if !accepted.contains(visit) {
            accepted.insert(visit.clone());
        }
    }

    fn is_accepted(&self, visit: &Visit) -> bool {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).contains(visit)
    }

    fn is_refused(&self, visit: &Visit) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(visit)
    }

    fn refuse(&self, visit: Visit) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(visit);
    }
}

/// A client and the host that it connects to. Programs that the agent starts use the same proxy, and
/// may trust other certificates than the agent. So clients are told apart by how they begin TLS: a
/// digest of the ciphers, signature schemes and protocols that they offer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Visit {
    host: String,
    client: u64,
}

impl Visit {
    fn of(hello: &ClientHello<'_>, host: &str) -> Self {
        let mut offer = Vec::new();
        offer.extend(hello.cipher_suites().iter().flat_map(|it| u16::from(*it).to_be_bytes()));
        offer.extend(hello.signature_schemes().iter().flat_map(|it| u16::from(*it).to_be_bytes()));
        offer.extend(hello.alpn().into_iter().flatten().flatten());
        Self { host: host.to_owned(), client: xxh3_64(&offer) }
    }
}

// The error is an `io::Error` because the compiler cannot prove that a boxed error is `Send` here.
type Forwarded = Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

/// An open connection to a model host.
pub(super) struct Opened {
    pub(super) target: Target,
    pub(super) visit: Visit,
    pub(super) upstream_414: Upstream414,
    sender: Sender,
}

enum Sender {
    Http1(tokio::sync::Mutex<http1_client::SendRequest<Body>>),
    Http2(http2_client::SendRequest<Body>),
}

impl Opened {
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Failure> {
        match &self.sender {
            Sender::Http1(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Sender::Http2(sender) => {
                let mut sender = sender.clone();
                *request.version_mut() = hyper::Version::HTTP_2;
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }
}

/// Serves a client that asked for a connection to `target` and was told that it has one.
pub(super) async fn serve(
    server: Arc<Server>,
    client: Upgraded,
    upstream: TcpStream,
    target: Target,
) {
    let Some(interception) = server.interception().filter(|it| it.opens(&target)) else {
        return tunnel(TokioIo::new(client), upstream, Vec::new()).await;
    };
    let client = Tee { io: TokioIo::new(client), copy: Some(Vec::new()) };
    // An error means that the client does not speak TLS or has disconnected. Nothing is lost by
    // closing the connection, because model hosts expect TLS.
    let accepted = LazyConfigAcceptor::new(Acceptor::default(), client);
    let accepted = tokio::time::timeout(server.timeouts().idle, accepted).await;
    let Ok(Ok(mut start)) = accepted else { return };
    let hello = start.io.copy.take().unwrap_or_default();
    let visit = Visit::of(&start.client_hello(), &target.host);
    if interception.is_refused(&visit) {
        return tunnel(start.io, upstream, hello).await;
    }
    let upstream =
        match open_upstream(interception, Offer::of(&start), upstream, target.clone()).await {
            Ok(upstream) => upstream,
            Err(why) => {
                interception.stop_opening(&target.host);
                server.log(&format!("connections to {target} are not opened: {why}"));
                let host = target.host.clone();
                server.notices().send_once(Notice::NotOpened { host, why: why.to_string() });
                // The failed attempt has used up the first connection, so the client's first bytes
                // go to a new one.
                let Ok(upstream) = target.dial().await else { return };
                return tunnel(start.io, upstream, hello).await;
            }
        };
    let alpn = upstream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let config = match interception.authority.server_config(&target.host, alpn.as_deref()) {
        Ok(config) => Arc::new(config),
        Err(error) => return server.log(&format!("no certificate for {target}: {error:#}")),
    };
    match start.into_stream(config).await {
        Ok(client) => {
            let opening = Opening { target, visit, alpn };
            serve_http(&server, interception, client, upstream, opening).await;
        }
        Err(error) => {
            let is_refusal = is_refusal(&error);
            // A client that disconnects without a TLS alert may have changed its mind, or may not
            // trust the certificate. If a request to this host has come through before, it does
            // trust it.
            if is_refusal || !interception.is_accepted(&visit) {
                refused(&server, interception, visit, is_refusal);
            }
        }
    }
}

/// What a client says when it begins TLS.
struct Offer {
    server_name: Option<String>,
    /// The protocols that both the client and midcourse speak.
    protocols: Vec<Vec<u8>>,
}

impl Offer {
    fn of<IO: AsyncRead + AsyncWrite + Unpin>(start: &StartHandshake<IO>) -> Self {
        let hello = start.client_hello();
        let offered = hello.alpn().into_iter().flatten();
        let protocols = offered.filter(|protocol| [HTTP2, HTTP1].contains(protocol));
        Self {
            server_name: hello.server_name().map(str::to_owned),
            protocols: protocols.map(<[u8]>::to_vec).collect(),
        }
    }
}

/// Connects to the model host as the client would: with its protocols, and without a client
/// certificate.
async fn open_upstream(
    interception: &Interception,
    offer: Offer,
    upstream: TcpStream,
    target: Target,
) -> Result<client::TlsStream<TcpStream>, Failure> {
    if !offer.server_name.is_some_and(|name| name.eq_ignore_ascii_case(&target.host)) {
        return Err("the client asks for another host name".into());
    }
    let wanted = Arc::new(WantedClientCertificate::default());
    let mut config = ClientConfig::clone(&interception.tls);
    config.alpn_protocols = offer.protocols;
    config.client_auth_cert_resolver = Arc::clone(&wanted) as Arc<dyn ResolvesClientCert>;
    let name = ServerName::try_from(target.host)?;
    let upstream = TlsConnector::from(Arc::new(config)).connect(name, upstream).await?;
    if wanted.0.load(Ordering::Relaxed) {
        return Err("it asks for a client certificate".into());
    }
    Ok(upstream)
}

/// A connection whose TLS has begun on both sides.
struct Opening {
    target: Target,
    visit: Visit,
    /// The protocol that the model host chose.
    alpn: Option<Vec<u8>>,
}

async fn serve_http<IO>(
    server: &Arc<Server>,
    interception: &Interception,
    client: TlsStream<IO>,
    upstream: client::TlsStream<TcpStream>,
    opening: Opening,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Opening { target, visit, alpn } = opening;
    let is_http2 = alpn.as_deref() == Some(HTTP2);
    let Ok((sender, upstream)) = handshake(upstream, is_http2).await else { return };
    let upstream_414 = Upstream414::default();
    let opened = Arc::new(Opened { target, visit: visit.clone(), sender, upstream_414 });
    let service = {
        let (server, opened) = (Arc::clone(server), Arc::clone(&opened));
        service_fn(move |request| {
            let (server, opened) = (Arc::clone(&server), Arc::clone(&opened));
            let forwarded: Forwarded = Box::pin(async move {
                server.forward_opened(&opened, request).await.map_err(io::Error::other)
            });
            forwarded
        })
    };
    // When the model host closes its connection, the client's connection is closed too.
    if is_http2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(MAX_HEADER_LIST_BYTES)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(client), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = &mut connection => {}
            _ = upstream => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    } else {
        let client = LongTarget::new(client, opened.upstream_414.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(server.timeouts().idle)
            .max_headers(MAX_HEADERS)
            .preserve_header_case(true)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(client), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = &mut connection => {}
            _ = upstream => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
    // Clients that check the certificate after the handshake hang up without a request.
    if !interception.is_accepted(&visit) {
        refused(server, interception, visit, false);
    }
}

/// Begins HTTP on the connection to the model host. The returned task ends with the connection.
async fn handshake(
    upstream: client::TlsStream<TcpStream>,
    is_http2: bool,
) -> hyper::Result<(Sender, tokio::task::JoinHandle<()>)> {
    let upstream = TokioIo::new(upstream);
    if is_http2 {
        let (sender, connection) = http2_client::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(MAX_HEADER_LIST_BYTES)
            .handshake(upstream)
            .await?;
        let task = tokio::spawn(async move { drop(connection.await) });
        return Ok((Sender::Http2(sender), task));
    }
    let (sender, connection) = http1_client::Builder::new()
        .max_headers(MAX_HEADERS)
        .preserve_header_case(true)
        .handshake(upstream)
        .await?;
    let task = tokio::spawn(async move { drop(connection.with_upgrades().await) });
    Ok((Sender::Http1(tokio::sync::Mutex::new(sender)), task))
}

/// Stops decrypting this client's connections to this host, because it seems to refuse the
/// certificate. `is_certain` says that the client said so.
fn refused(server: &Server, interception: &Interception, visit: Visit, is_certain: bool) {
    let host = visit.host.clone();
    interception.refuse(visit);
    server.log(&format!("the client refused midcourse's certificate for {host}"));
    let notice = if is_certain {
        Notice::Refused { host }
    } else {
        Notice::NotOpened { host, why: "the client hung up on midcourse's certificate".to_owned() }
    };
    server.notices().send_once(notice);
}

/// Whether the client rejected the certificate, as opposed to a connection that broke.
fn is_refusal(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(
        tls,
        Some(rustls::Error::AlertReceived(
            Alert::UnknownCA
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateUnknown
                | Alert::CertificateExpired
                | Alert::CertificateRevoked
                | Alert::AccessDenied
                | Alert::HandshakeFailure
                | Alert::InternalError
                | Alert::DecryptError
        ))
    )
}

/// Copies bytes in both directions until both sides have closed. `first` goes to the server before
/// anything else.
async fn tunnel<IO>(mut client: IO, mut server: TcpStream, first: Vec<u8>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    if server.write_all(&first).await.is_ok() {
        // Ignore errors: either side may close the connection at any time.
        let _ = tokio::io::copy_bidirectional_with_sizes(
            &mut client,
            &mut server,
            BUFFER_LEN,
            BUFFER_LEN,
        )
        .await;
    }
}

/// Has no client certificate, and notes whether a server asks for one.
#[derive(Debug, Default)]
struct WantedClientCertificate(AtomicBool);

impl ResolvesClientCert for WantedClientCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        // rustls asks the resolver only if this is true.
        true
    }
}

/// Keeps a copy of what is read until the copy is taken.
struct Tee<IO> {
    io: IO,
    copy: Option<Vec<u8>>,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Tee<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(buffer.filled().get(before..).unwrap_or_default());
        }
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Tee<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
