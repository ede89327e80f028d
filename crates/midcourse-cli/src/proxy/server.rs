//! The network side: takes a request, passes it on, and passes the answer back as it comes.
//!
//! Only a question to a model that is understood is held until the recorder has said what to insert,
//! and no longer than the budget. All else streams through. What breaks on one side breaks on the
//! other, as it would if nothing stood between: no answer of ours ever stands for one of the model's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::apis::{Api, insert};
use bytes::{Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::recorder::{Asked, Exchange, Recorder};
use super::tape::{Joined, Taped};
use super::upstream::{self, Upstream, Upstreams};
use crate::log::Log;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = BoxBody<Bytes, Failure>;

/// The longest question that is read; a longer one passes as it is.
const READ_MAX: usize = 32 * 1024 * 1024;

/// How long nothing is accepted when the system has no more sockets to give.
const PAUSE: Duration = Duration::from_millis(50);

/// The headers by which Claude Code says who asks.
const SESSION: &str = "x-claude-code-session-id";
const AGENT: &str = "x-claude-code-agent-id";

/// Headers that are for the next hop only.
const FOR_ONE_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
];

pub(super) struct Server {
    /// Compared in a time that tells nothing.
    token: blake3::Hash,
    upstreams: Vec<Upstream>,
    recorder: Option<Recorder>,
    budget: Duration,
    log: Arc<Log>,
    begun: Instant,
    /// The second of the latest request.
    latest: AtomicU64,
}

/// A question, read as far as it makes sense.
enum Question {
    Whole(Bytes),
    Long(Body),
}

impl Server {
    pub(super) fn new(
        token: String,
        upstreams: Upstreams,
        recorder: Option<Recorder>,
        budget: Duration,
        log: Arc<Log>,
    ) -> io::Result<Self> {
        let tls = upstream::tls()?;
        let upstreams = upstreams.all().map(|(api, base)| Upstream::new(api, base, &tls));
        Ok(Self {
            token: blake3::hash(token.as_bytes()),
            upstreams: upstreams.collect(),
            recorder,
            budget,
            log,
            begun: Instant::now(),
            latest: AtomicU64::new(0),
        })
    }

    /// How long nothing was asked.
    pub(super) fn idle_for(&self) -> Duration {
        let latest = Duration::from_secs(self.latest.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(latest)
    }

    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(|request| server.pass(request));
                // How a connection ends is the business of its two ends.
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

    /// Passes a request on. An error closes the connection without an answer, which is what a client
    /// sees that cannot reach its server.
    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        self.latest.store(self.begun.elapsed().as_secs(), Ordering::Relaxed);
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let Some((upstream, rest)) = self.route(target) else { return Ok(refusal()) };
        let address = upstream.address(rest)?;
        let api = Api::of_path(rest.split('?').next().unwrap_or_default());
        if request.method() == Method::GET && wants_websocket(request.headers()) {
            return self.upgrade(upstream, address, request).await;
        }
        let (mut parts, body) = request.into_parts();
        let (body, exchange) = match (api, &self.recorder) {
            (Some(api), Some(recorder)) if parts.method == Method::POST => {
                match read(&parts.headers, body).await? {
                    Question::Long(body) => (body, None),
                    Question::Whole(bytes) => {
                        let asked = asked(api, &parts.headers, bytes.clone());
                        let (bytes, exchange) = self.consider(recorder, asked, bytes).await;
                        let length = HeaderValue::from(bytes.len());
                        parts.headers.insert(header::CONTENT_LENGTH, length);
                        (full(bytes), exchange)
                    }
                }
            }
            _ => (body.map_err(Into::into).boxed(), None),
        };
        let asked = with_address(parts, address, body);
        let answered = match upstream.client.request(asked).await {
            Ok(answered) => answered,
            Err(error) => return Err(self.unreachable(upstream.api, exchange, error.into())),
        };
        Ok(answer(answered, exchange))
    }

    /// The question as it goes on.
    async fn consider(
        &self,
        recorder: &Recorder,
        asked: Asked,
        bytes: Bytes,
    ) -> (Bytes, Option<Exchange>) {
        let (mut insertions, exchange) = recorder.ask(asked, self.budget).await;
        if insertions.is_empty() {
            return (bytes, exchange);
        }
        (insert(&bytes, &mut insertions).into(), exchange)
    }

    /// The server that a request is for, and what it asks of it; nothing, without the token.
    fn route<'a>(&self, target: &'a str) -> Option<(&Upstream, &'a str)> {
        let (token, rest) = target.strip_prefix('/')?.split_once('/')?;
        (blake3::hash(token.as_bytes()) == self.token).then_some(())?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (api, path) = rest.split_at_checked(end)?;
        let upstream = self.upstreams.iter().find(|upstream| upstream.api == api)?;
        Some((upstream, path))
    }

    fn unreachable(&self, api: &str, exchange: Option<Exchange>, error: Failure) -> Failure {
        let why = chain(&*error);
        self.log.write(&format!("a request to {api} got no answer: {why}"));
        if let Some(exchange) = exchange {
            exchange.broken(why);
        }
        error
    }

    /// Lets both sides talk to each other in another protocol.
    async fn upgrade(
        &self,
        upstream: &Upstream,
        address: hyper::Uri,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Failure> {
        let client = hyper::upgrade::on(&mut request);
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(header::HOST);
        parts.headers.remove(header::PROXY_AUTHORIZATION);
        parts.uri = address;
        parts.version = Version::HTTP_11;
        let asked = Request::from_parts(parts, body.map_err(Into::into).boxed());
        let mut answered = match upstream.for_upgrades.request(asked).await {
            Ok(answered) => answered,
            Err(error) => return Err(self.unreachable(upstream.api, None, error.into())),
        };
        if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answer(answered, None));
        }
        let server = hyper::upgrade::on(&mut answered);
        tokio::spawn(async move {
            if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                // Whoever ends it has the reasons.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
        Ok(answered.map(|body| body.map_err(Into::into).boxed()))
    }
}

/// The answer as it came, heard by the recorder if it is one to a question.
fn answer(answered: Response<Incoming>, exchange: Option<Exchange>) -> Response<Body> {
    let (mut parts, body) = answered.into_parts();
    strip(&mut parts.headers);
    parts.version = Version::HTTP_11;
    let body = match exchange {
        None => body.map_err(Into::into).boxed(),
        Some(exchange) => {
            let status = parts.status.as_u16();
            let encoding = text(&parts.headers, header::CONTENT_ENCODING.as_str());
            Taped::new(body, move |tape| exchange.answered(status, encoding, tape))
                .map_err(Into::into)
                .boxed()
        }
    };
    Response::from_parts(parts, body)
}

fn with_address(
    mut parts: hyper::http::request::Parts,
    address: hyper::Uri,
    body: Body,
) -> Request<Body> {
    strip(&mut parts.headers);
    // The client of the server's side names the server.
    parts.headers.remove(header::HOST);
    parts.uri = address;
    parts.version = Version::HTTP_11;
    Request::from_parts(parts, body)
}

/// Reads a question, unless it is too long.
async fn read(headers: &HeaderMap, mut body: Incoming) -> Result<Question, Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: Option<usize> = length.and_then(|length| length.parse().ok());
    if length.is_some_and(|length| length > READ_MAX) {
        return Ok(Question::Long(body.map_err(Into::into).boxed()));
    }
    let mut bytes = BytesMut::with_capacity(length.unwrap_or(0));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        bytes.extend_from_slice(&data);
        if bytes.len() > READ_MAX {
            let joined = Joined { front: Some(bytes.freeze()), rest: body };
            return Ok(Question::Long(joined.map_err(Into::into).boxed()));
        }
    }
    Ok(Question::Whole(bytes.freeze()))
}

fn asked(api: Api, headers: &HeaderMap, body: Bytes) -> Asked {
    Asked {
        api,
        session: text(headers, SESSION),
        agent: text(headers, AGENT),
        encoding: text(headers, header::CONTENT_ENCODING.as_str()),
        is_sealed: is_sealed(headers),
        body,
    }
}

/// Whether a signature or a digest of the body is among the headers: it would not hold any more.
fn is_sealed(headers: &HeaderMap) -> bool {
    let is_signed = text(headers, header::AUTHORIZATION.as_str())
        .is_some_and(|credentials| credentials.starts_with("AWS4-"));
    let seals = ["content-md5", "digest", "content-digest", "x-amz-content-sha256", "signature"];
    is_signed || seals.iter().any(|name| headers.contains_key(*name))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// Whether it is to become a websocket. Whatever else is offered is for one hop, and we do not take it.
fn wants_websocket(headers: &HeaderMap) -> bool {
    let has_word = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|it| it.trim().eq_ignore_ascii_case(word))
    };
    has_word(header::CONNECTION, "upgrade") && has_word(header::UPGRADE, "websocket")
}

/// Takes out what is for one hop only.
fn strip(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).into_iter();
    let named: Vec<String> =
        named.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    for name in named.iter().flat_map(|value| value.split(',')).map(str::trim) {
        headers.remove(name);
    }
    for name in FOR_ONE_HOP {
        headers.remove(name);
    }
}

fn refusal() -> Response<Body> {
    const WHY: &str = r#"{"error":{"type":"midcourse_proxy","message":"this address is not one of midcourse's proxy: use the one that it printed, token and all"}}"#;
    let mut response = Response::new(full(Bytes::from_static(WHY.as_bytes())));
    *response.status_mut() = StatusCode::FORBIDDEN;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// An error and what is behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
