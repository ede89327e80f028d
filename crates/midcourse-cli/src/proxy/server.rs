//! The network side: forwards each request to its upstream (the server of the model API) and
//! streams the response back.
//!
//! Only model requests are read completely and held, for at most a few milliseconds, until the
//! recorder replies with the text to insert. Everything else streams through. If the client or the
//! upstream disconnects, the proxy disconnects the other one too. The proxy sends no responses of
//! its own, except to a request without the right access token.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::apis::{Api, insert};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::model_traffic::ModelRequest;
use super::recorder::{Exchange, Recorder};
use super::response_copy::{CopiedBody, PartlyRead};
use super::upstream::{self, Body, Failure, Upstream, Upstreams};
use crate::log::Log;

/// Maximum length of a model request that is recorded, in bytes. A longer request is forwarded and
/// not recorded.
const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// How long to wait before accepting connections again when the system has no free sockets.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The header in which Claude Code sends its session id.
const SESSION_HEADER: &str = "x-claude-code-session-id";
/// The header in which Claude Code sends the id of the subagent that makes the request.
const AGENT_HEADER: &str = "x-claude-code-agent-id";

const HOP_BY_HOP_HEADERS: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
];

pub(super) struct Server {
    /// Hash of the access token. Comparing two hashes always takes the same time, so an attacker
    /// cannot guess the token by measuring the time.
    token: blake3::Hash,
    upstreams: Vec<Upstream>,
    recorder: Option<Recorder>,
    max_wait: Duration,
    log: Arc<Log>,
    started: Instant,
    /// When the latest request arrived, in seconds since `started`.
    latest_request: AtomicU64,
}

/// The body of a model request.
enum RequestBody {
    Whole(Bytes),
    /// A body longer than [`MAX_REQUEST_BYTES`], which is streamed.
    TooLong(Body),
}

impl Server {
    pub(super) fn new(
        token: String,
        upstreams: Upstreams,
        recorder: Option<Recorder>,
        max_wait: Duration,
        log: Arc<Log>,
    ) -> io::Result<Self> {
        let tls = upstream::tls()?;
        let upstreams = upstreams.iter().map(|(api, base)| Upstream::new(api, base, &tls));
        Ok(Self {
            token: blake3::hash(token.as_bytes()),
            upstreams: upstreams.collect(),
            recorder,
            max_wait,
            log,
            started: Instant::now(),
            latest_request: AtomicU64::new(0),
        })
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
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(|request| server.forward(request));
                // Ignore connection errors: the client and the upstream notice them themselves.
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(None)
                    .preserve_header_case(true)
                    .auto_date_header(false)
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades()
                    .await;
            });
        }
    }

    /// Forwards a request. On an error, the connection is closed without a response, so that the
    /// client reacts as if the model's server were unreachable.
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        self.latest_request.store(self.started.elapsed().as_secs(), Ordering::Relaxed);
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let Some((upstream, path)) = self.route(target) else { return Ok(forbidden()) };
        let url = upstream.url(path)?;
        let api = Api::of_path(path.split('?').next().unwrap_or_default());
        if request.method() == Method::GET && is_websocket(request.headers()) {
            return self.upgrade(upstream, url, request).await;
        }
        let (mut parts, body) = request.into_parts();
        let (body, exchange) = match (api, &self.recorder) {
            (Some(api), Some(recorder)) if parts.method == Method::POST => {
                match read(&parts.headers, body).await? {
                    RequestBody::TooLong(body) => (body, None),
                    RequestBody::Whole(bytes) => {
                        let request = model_request(api, &parts.headers, bytes.clone());
                        let (bytes, exchange) = self.record(recorder, request, bytes).await;
                        let length = HeaderValue::from(bytes.len());
                        parts.headers.insert(header::CONTENT_LENGTH, length);
                        (full(bytes), exchange)
                    }
                }
            }
            _ => (body.map_err(Into::into).boxed(), None),
        };
        match upstream.client.request(upstream_request(parts, url, body)).await {
            Ok(response) => Ok(client_response(response, exchange)),
            Err(error) => Err(self.fail(upstream, exchange, error.into())),
        }
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
    /// `/TOKEN/API/PATH`. Returns `None` if the access token is wrong or the API is unknown.
    fn route<'a>(&self, target: &'a str) -> Option<(&Upstream, &'a str)> {
        let (token, rest) = target.strip_prefix('/')?.split_once('/')?;
        (blake3::hash(token.as_bytes()) == self.token).then_some(())?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (api, path) = rest.split_at_checked(end)?;
        let upstream = self.upstreams.iter().find(|upstream| upstream.api == api)?;
        Some((upstream, path))
    }

    /// Logs and records that the model server sent no response.
    fn fail(&self, upstream: &Upstream, exchange: Option<Exchange>, error: Failure) -> Failure {
        let why = error_chain(&*error);
        self.log.write(&format!("no response from {}: {why}", upstream.server()));
        if let Some(exchange) = exchange {
            exchange.failed(why);
        }
        error
    }

    /// Forwards a request for a websocket. If the model server accepts it, all bytes are then
    /// copied between the client and the server in both directions, and nothing is recorded.
    async fn upgrade(
        &self,
        upstream: &Upstream,
        url: hyper::Uri,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Failure> {
        let client = hyper::upgrade::on(&mut request);
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(header::HOST);
        parts.headers.remove(header::PROXY_AUTHORIZATION);
        parts.uri = url;
        parts.version = Version::HTTP_11;
        let request = Request::from_parts(parts, body.map_err(Into::into).boxed());
        let mut response = match upstream.http1_client.request(request).await {
            Ok(response) => response,
            Err(error) => return Err(self.fail(upstream, None, error.into())),
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(client_response(response, None));
        }
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

/// Prepares the model server's response for the client. If the request was recorded, the body of
/// the response is also copied for the recorder.
fn client_response(response: Response<Incoming>, exchange: Option<Exchange>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    strip_hop_by_hop(&mut parts.headers);
    parts.version = Version::HTTP_11;
    let body = match exchange {
        None => body.map_err(Into::into).boxed(),
        Some(exchange) => {
            let status = parts.status.as_u16();
            let encoding = text(&parts.headers, header::CONTENT_ENCODING.as_str());
            CopiedBody::new(body, move |copy| exchange.received(status, encoding, copy))
                .map_err(Into::into)
                .boxed()
        }
    };
    Response::from_parts(parts, body)
}

fn upstream_request(
    mut parts: hyper::http::request::Parts,
    url: hyper::Uri,
    body: Body,
) -> Request<Body> {
    strip_hop_by_hop(&mut parts.headers);
    // Remove the proxy's own host name; the HTTP client sets the upstream's.
    parts.headers.remove(header::HOST);
    parts.uri = url;
    parts.version = Version::HTTP_11;
    Request::from_parts(parts, body)
}

/// Reads the body of a model request, unless it is too long to be recorded.
async fn read(headers: &HeaderMap, mut body: Incoming) -> Result<RequestBody, Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: Option<usize> = length.and_then(|length| length.parse().ok());
    if length.is_some_and(|length| length > MAX_REQUEST_BYTES) {
        return Ok(RequestBody::TooLong(body.map_err(Into::into).boxed()));
    }
    let mut bytes = BytesMut::with_capacity(length.unwrap_or(0));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        bytes.extend_from_slice(&data);
        if bytes.len() > MAX_REQUEST_BYTES {
            let body = PartlyRead { start: Some(bytes.freeze()), rest: body };
            return Ok(RequestBody::TooLong(body.map_err(Into::into).boxed()));
        }
    }
    Ok(RequestBody::Whole(bytes.freeze()))
}

fn model_request(api: Api, headers: &HeaderMap, body: Bytes) -> ModelRequest {
    ModelRequest {
        api,
        session: text(headers, SESSION_HEADER),
        agent: text(headers, AGENT_HEADER),
        encoding: text(headers, header::CONTENT_ENCODING.as_str()),
        is_signed: is_signed(headers),
        body,
    }
}

/// Whether a header contains a signature or a digest of the body. Such a header would be wrong if
/// text were inserted into the body.
fn is_signed(headers: &HeaderMap) -> bool {
    let is_aws_signed = text(headers, header::AUTHORIZATION.as_str())
        .is_some_and(|credentials| credentials.starts_with("AWS4-"));
    let names = ["content-md5", "digest", "content-digest", "x-amz-content-sha256", "signature"];
    is_aws_signed || names.iter().any(|name| headers.contains_key(*name))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// Whether a request asks for a websocket. The header `Upgrade` can also ask for another protocol,
/// such as HTTP/2; that concerns only the client's connection to the proxy and is ignored.
fn is_websocket(headers: &HeaderMap) -> bool {
    let has_token = |name: HeaderName, token: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|it| it.trim().eq_ignore_ascii_case(token))
    };
    has_token(header::CONNECTION, "upgrade") && has_token(header::UPGRADE, "websocket")
}

/// Removes headers that concern a single connection and must not be forwarded, including the
/// headers whose names are listed in the header `Connection`.
fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).into_iter();
    let named: Vec<String> =
        named.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    for name in named.iter().flat_map(|value| value.split(',')).map(str::trim) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP_HEADERS {
        headers.remove(name);
    }
}

fn forbidden() -> Response<Body> {
    const BODY: &str = r#"{"error":{"type":"midcourse_proxy","message":"unknown address; use the base URL that midcourse printed, including its token"}}"#;
    let mut response = Response::new(full(Bytes::from_static(BODY.as_bytes())));
    *response.status_mut() = StatusCode::FORBIDDEN;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The messages of an error and of all its sources.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
