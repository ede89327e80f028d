//! The network side: forwards each request to its upstream (the server of the model API) and
//! streams the response back.
//!
//! Only model requests are read completely and held, for at most a few milliseconds, until the
//! recorder replies with the text to insert. Everything else streams through. If the client or the
//! upstream disconnects, the proxy disconnects the other one too. The proxy sends no responses of
//! its own, except to CONNECT requests, to requests without the right access token, and to requests
//! that the HTTP library cannot parse.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::authority::Authority;
use super::connect::{Target, is_authorized};
use super::http::{
    RequestBody, client_response, empty, error_chain, forbidden, full, is_websocket, model_request,
    read, remove_in_order, strip_hop_by_hop, text,
};
use super::intercept::{self, Interception, Opened};
use super::long_target::LongTarget;
use super::model_hosts::ModelHosts;
use super::model_traffic::ModelRequest;
use super::notices::{Notice, Notices};
use super::recorder::{Exchange, Recorder};
use super::timeouts::Timeouts;
use super::upstream::{self, Body, Failure, MAX_HEADERS, Upstream, Upstreams};
use super::waiting::{Visitor, Waiting};
use crate::apis::{Api, insert};
use crate::log::Log;

/// How long to wait before accepting connections again when the system has no free sockets.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

pub(super) struct Server {
    /// Hash of the access token. Comparing two hashes always takes the same time, so an attacker
    /// cannot guess the token by measuring the time.
    token: blake3::Hash,
    upstreams: Vec<Upstream>,
    /// Whether CONNECT requests are served.
    has_tunnels: bool,
    interception: Option<Interception>,
    recorder: Option<Recorder>,
    max_wait: Duration,
    log: Arc<Log>,
    notices: Notices,
    started: Instant,
    /// When the latest request arrived, in seconds since `started`.
    latest_request: AtomicU64,
    waiting: Waiting,
    timeouts: Timeouts,
}

impl Server {
    pub(super) fn new(
        token: &str,
        upstreams: &Upstreams,
        recorder: Option<Recorder>,
        max_wait: Duration,
        log: Arc<Log>,
    ) -> io::Result<Self> {
        let tls = upstream::tls()?;
        let upstreams = upstreams.iter().map(|(name, base)| Upstream::new(name, base, &tls));
        Ok(Self {
            token: blake3::hash(token.as_bytes()),
            upstreams: upstreams.collect(),
            has_tunnels: false,
            interception: None,
            recorder,
            max_wait,
            log,
            notices: Notices::default(),
            started: Instant::now(),
            latest_request: AtomicU64::new(0),
            waiting: Waiting::default(),
            timeouts: Timeouts::from_environment(),
        })
    }

    /// Serves CONNECT requests.
    #[must_use]
    pub(super) fn with_tunnels(self) -> Self {
        Self { has_tunnels: true, ..self }
    }

    /// After the command has ended: decrypts no further connections, and sends a notice once
    /// everything until now is recorded.
    pub(super) async fn command_ended(&self) {
        if let Some(interception) = &self.interception {
            interception.switch_off();
        }
        if let Some(recorder) = &self.recorder {
            recorder.flush().await;
        }
        self.notices.send_once(Notice::Recorded);
    }

    /// Opens (decrypts) connections to model hosts, with certificates of this authority.
    pub(super) fn with_interception(
        mut self,
        authority: Authority,
        hosts: ModelHosts,
    ) -> io::Result<Self> {
        self.interception = Some(Interception::new(authority, hosts, upstream::tls()?));
        Ok(self)
    }

    #[must_use]
    pub(super) fn with_notices(self, notices: Notices) -> Self {
        Self { notices, ..self }
    }

    pub(super) const fn interception(&self) -> Option<&Interception> {
        self.interception.as_ref()
    }

    pub(super) const fn notices(&self) -> &Notices {
        &self.notices
    }

    pub(super) const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(super) fn log(&self, message: &str) {
        self.log.write(message);
    }

    /// Time since the latest request.
    pub(super) fn idle_for(&self) -> Duration {
        let latest = Duration::from_secs(self.latest_request.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(latest)
    }

    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            self.serve(stream, Vec::new());
        }
    }

    /// Serves a connection in the background. Its first bytes, `read`, have already been read.
    pub(super) fn serve(self: &Arc<Self>, stream: TcpStream, read: Vec<u8>) {
        let server = Arc::clone(self);
        let visitor = self.waiting.enter();
        tokio::spawn(async move {
            let service = service_fn(|request| Arc::clone(&server).handle(request, &visitor));
            let (reader, writer) = stream.into_split();
            let stream = tokio::io::join(io::Cursor::new(read).chain(reader), writer);
            let stream = LongTarget::new(stream, visitor.upstream_414.clone());
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                // This timeout starts when the connection becomes idle, and ends when the head of
                // the next request has arrived.
                .header_read_timeout(server.timeouts.idle)
                .max_headers(MAX_HEADERS)
                .preserve_header_case(true)
                .auto_date_header(false)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            tokio::select! {
                // Ignore connection errors: the client and the upstream notice them themselves.
                _ = connection => {}
                () = visitor.evicted() => {}
                () = visitor.is_late(server.timeouts.head) => {}
            }
        });
    }

    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        visitor: &Visitor,
    ) -> Result<Response<Body>, Failure> {
        self.latest_request.store(self.started.elapsed().as_secs(), Ordering::Relaxed);
        if request.method() == Method::CONNECT {
            return Ok(self.connect(request, visitor).await);
        }
        let response = self.forward(request, visitor).await?;
        visitor.upstream_414.note(&response);
        Ok(response)
    }

    /// Connects the client with a host, as an HTTP proxy does.
    async fn connect(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        visitor: &Visitor,
    ) -> Response<Body> {
        if !self.has_tunnels {
            return empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        let credentials = text(request.headers(), header::PROXY_AUTHORIZATION.as_str());
        if !is_authorized(credentials.as_deref(), &self.token) {
            let mut response = empty(StatusCode::PROXY_AUTHENTICATION_REQUIRED);
            let basic = HeaderValue::from_static("Basic realm=\"midcourse\"");
            response.headers_mut().insert(header::PROXY_AUTHENTICATE, basic);
            return response;
        }
        visitor.admit();
        let target = request.uri().authority().and_then(|it| Target::parse(it.as_str()));
        let Some(target) = target else { return empty(StatusCode::BAD_REQUEST) };
        let upstream = match target.dial().await {
            Ok(upstream) => upstream,
            Err(error) => {
                self.log(&format!("cannot connect to {target}: {}", error_chain(&*error)));
                return empty(StatusCode::BAD_GATEWAY);
            }
        };
        let client = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            if let Ok(client) = client.await {
                intercept::serve(self, client, upstream, target).await;
            }
        });
        empty(StatusCode::OK)
    }

    /// Forwards a request that was redirected here. On an error, the connection is closed without a
    /// response, so that the client reacts as if the model's server were unreachable.
    async fn forward(
        &self,
        request: Request<Incoming>,
        visitor: &Visitor,
    ) -> Result<Response<Body>, Failure> {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let Some((upstream, path)) = self.route(target) else { return Ok(forbidden()) };
        visitor.admit();
        let url = upstream.url(path)?;
        let host = upstream.server();
        if request.method() == Method::GET && is_websocket(request.headers()) {
            let send = |mut request: Request<Body>| {
                let headers = request.headers_mut();
                remove_in_order(headers, |name| name == header::PROXY_AUTHORIZATION);
                upstream.address(headers, true);
                *request.uri_mut() = url;
                let response = upstream.http1_client.request(request);
                async { Ok(response.await?) }
            };
            return self.upgrade(host, request, send).await;
        }
        let (mut parts, body) = request.into_parts();
        let (body, exchange) = self.prepare(&mut parts, body, url.path(), host).await?;
        strip_hop_by_hop(&mut parts.headers);
        upstream.address(&mut parts.headers, upstream.is_plain());
        parts.uri = url;
        parts.version = Version::HTTP_11;
        match upstream.client.request(Request::from_parts(parts, body)).await {
            Ok(response) => {
                let mut response = client_response(response, exchange);
                strip_hop_by_hop(response.headers_mut());
                *response.version_mut() = Version::HTTP_11;
                Ok(response)
            }
            Err(error) => Err(self.fail(host, exchange, error.into())),
        }
    }

    /// Forwards a request on an opened (decrypted) connection. Its headers stay as they are: each
    /// client connection has its own connection to the model host.
    pub(super) async fn forward_opened(
        &self,
        opened: &Opened,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Failure> {
        self.latest_request.store(self.started.elapsed().as_secs(), Ordering::Relaxed);
        let host = opened.target.host.as_str();
        if let Some(interception) = &self.interception {
            interception.accept(&opened.visit);
        }
        if request.method() == Method::GET && is_websocket(request.headers()) {
            return self.upgrade(host, request, |request| opened.send(request)).await;
        }
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let (body, exchange) = self.prepare(&mut parts, body, &path, host).await?;
        match opened.send(Request::from_parts(parts, body)).await {
            Ok(response) => {
                opened.upstream_414.note(&response);
                Ok(client_response(response, exchange))
            }
            Err(error) => Err(self.fail(host, exchange, error)),
        }
    }

    /// Records a request if it is a model request, and returns the body to send. `path` is the path
    /// on the model's server, which decides which API it is.
    async fn prepare(
        &self,
        parts: &mut hyper::http::request::Parts,
        body: Incoming,
        path: &str,
        host: &str,
    ) -> Result<(Body, Option<Exchange>), Failure> {
        let recorder = self.recorder.as_ref().filter(|_| parts.method == Method::POST);
        let Some(recorder) = recorder else { return Ok((body.map_err(Into::into).boxed(), None)) };
        let Some(api) = Api::of_path(path) else {
            self.notices.unread(host, path, Api::why_unread(path).unwrap_or_default());
            return Ok((body.map_err(Into::into).boxed(), None));
        };
        let bytes = match read(&parts.headers, body).await? {
            RequestBody::Whole(bytes) => bytes,
            RequestBody::TooLong(body) => {
                self.notices.unread(host, path, "a request is longer than 32 MB");
                return Ok((body, None));
            }
        };
        let (api_name, host) = (api.title().to_owned(), host.to_owned());
        self.notices.send_once(Notice::Watching { api: api_name, host });
        let request = model_request(api, path, &parts.headers, bytes.clone());
        let (bytes, exchange) = self.record(recorder, request, bytes).await;
        // If the client sends a chunked body, the proxy forwards it in chunks too, without a
        // length.
        if !parts.headers.contains_key(header::TRANSFER_ENCODING) {
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        }
        Ok((full(bytes), exchange))
    }

    /// Sends a model request to the recorder. Returns the request body with the text that the
    /// recorder inserts.
    async fn record(
        &self,
        recorder: &Recorder,
        request: ModelRequest,
        bytes: Bytes,
    ) -> (Bytes, Option<Exchange>) {
        let (mut insertions, exchange) = recorder.record_request(request, self.max_wait).await;
        if insertions.is_empty() {
            return (bytes, exchange);
        }
        (insert(&bytes, &mut insertions).into(), exchange)
    }

    /// Finds the model server for a request, and the path on that server. `target` has the form
    /// `/TOKEN/NAME/PATH`. Returns `None` if the access token is wrong or no server has this name.
    fn route<'a>(&self, target: &'a str) -> Option<(&Upstream, &'a str)> {
        let (token, rest) = target.strip_prefix('/')?.split_once('/')?;
        (blake3::hash(token.as_bytes()) == self.token).then_some(())?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (name, path) = rest.split_at_checked(end)?;
        let upstream = self.upstreams.iter().find(|upstream| upstream.name == name)?;
        Some((upstream, path))
    }

    /// Logs and records that the model server sent no response.
    fn fail(&self, host: &str, exchange: Option<Exchange>, error: Failure) -> Failure {
        let why = error_chain(&*error);
        self.log.write(&format!("no response from {host}: {why}"));
        if let Some(exchange) = exchange {
            exchange.failed(why);
        }
        error
    }

    /// Forwards a request for a websocket. If the model server accepts it, all bytes are then
    /// copied between the client and the server in both directions, and nothing is recorded.
    async fn upgrade<F>(
        &self,
        host: &str,
        mut request: Request<Incoming>,
        send: impl FnOnce(Request<Body>) -> F,
    ) -> Result<Response<Body>, Failure>
    where
        F: Future<Output = Result<Response<Incoming>, Failure>>,
    {
        let path = request.uri().path().to_owned();
        let client = hyper::upgrade::on(&mut request);
        let request = request.map(|body| body.map_err(Into::into).boxed());
        let mut response = match send(request).await {
            Ok(response) => response,
            Err(error) => return Err(self.fail(host, None, error)),
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(client_response(response, None));
        }
        self.notices.unread(host, &path, "websockets are not read");
        let server = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                // Ignore errors: either side may close the connection at any time.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
        Ok(response.map(|body| body.map_err(Into::into).boxed()))
    }
}
