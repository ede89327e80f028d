//! A stub of a model server. It responds to each request at once, with the next tool call of the
//! conversation. A streamed response pauses after its first event. The stub listens on two ports: one
//! for plain HTTP and one for TLS.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;

use crate::STREAM_PAUSE;
use crate::conversation::{Step, chat_call};

pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    /// The address for TLS. The certificate is for `localhost`.
    pub(crate) tls_address: SocketAddr,
    /// The certificate of the authority that has signed the stub's certificate, as PEM.
    pub(crate) authority: String,
    streams: Arc<AtomicBool>,
}

impl Stub {
    pub(crate) async fn start() -> Self {
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tls = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, tls_address) = (plain.local_addr().unwrap(), tls.local_addr().unwrap());
        let (acceptor, authority) = tls_acceptor();
        let streams = Arc::new(AtomicBool::new(false));
        tokio::spawn(serve(plain, None, Arc::clone(&streams)));
        tokio::spawn(serve(tls, Some(acceptor), Arc::clone(&streams)));
        Self { address, tls_address, authority, streams }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets whether responses are streamed from now on.
    pub(crate) fn set_streaming(&self, streams: bool) {
        self.streams.store(streams, Ordering::Relaxed);
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, streams: Arc<AtomicBool>) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let (tls, streams) = (tls.clone(), Arc::clone(&streams));
        // If the connection breaks, the client notices and the benchmark fails.
        tokio::spawn(async move {
            let Some(tls) = tls else { return serve_connection(stream, streams).await };
            if let Ok(stream) = tls.accept(stream).await {
                serve_connection(stream, streams).await;
            }
        });
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    is_streaming: Arc<AtomicBool>,
) {
    let service = hyper::service::service_fn(move |request| {
        let streams = is_streaming.load(Ordering::Relaxed);
        async move { Ok::<_, Infallible>(respond(request, streams).await) }
    });
    let http = hyper::server::conn::http1::Builder::new();
    drop(http.serve_connection(TokioIo::new(stream), service).await);
}

fn tls_acceptor() -> (TlsAcceptor, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority)
}

pub(crate) async fn respond(request: Request<Incoming>, streams: bool) -> Response<PausedBody> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let step = Step::last_in(&body).map(Step::next);
    let (kind, chunks) = match (step, path.trim_end_matches("/unread")) {
        (Some(step), "/v1/chat/completions") if streams => ("text/event-stream", chat_stream(step)),
        (Some(step), "/v1/chat/completions") => ("application/json", vec![chat_completion(step)]),
        (Some(step), "/v1/messages") => ("application/json", vec![message(step)]),
        _ => return Response::builder().status(404).body(PausedBody::of(Vec::new())).unwrap(),
    };
    Response::builder().header("content-type", kind).body(PausedBody::of(chunks)).unwrap()
}

pub(crate) fn chat_completion(step: Step) -> String {
    let message = json!({"role": "assistant", "content": null, "tool_calls": [chat_call(step)]});
    json!({"id": format!("chatcmpl-{step}"), "object": "chat.completion", "created": 1_790_000_000,
        "model": "stub", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}})
    .to_string()
}

/// A streamed response in two chunks: the first event, and all others.
pub(crate) fn chat_stream(step: Step) -> Vec<String> {
    let event = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let event = json!({"id": format!("chatcmpl-{step}"), "object": "chat.completion.chunk",
            "created": 1_790_000_000, "model": "stub", "choices": [choice]});
        format!("data: {event}\n\n")
    };
    let opening = json!({"index": 0, "id": step.to_string(), "type": "function",
        "function": {"name": "bash", "arguments": ""}});
    let first = json!({"role": "assistant", "content": null, "tool_calls": [opening]});
    let mut others = String::new();
    for piece in step.input().to_string().split_inclusive(' ') {
        let delta = json!({"index": 0, "function": {"arguments": piece}});
        others.push_str(&event(json!({"tool_calls": [delta]}), None));
    }
    others.push_str(&event(json!({}), Some("tool_calls")));
    others.push_str("data: [DONE]\n\n");
    vec![event(first, None), others]
}

pub(crate) fn message(step: Step) -> String {
    let call =
        json!({"type": "tool_use", "id": step.to_string(), "name": "bash", "input": step.input()});
    json!({"id": format!("msg_{step}"), "type": "message", "role": "assistant", "model": "stub",
        "content": [call], "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 900, "output_tokens": 30}})
    .to_string()
}

/// A body whose first chunk is sent at once and whose other chunks follow after a pause.
pub(crate) struct PausedBody {
    pub(crate) left: VecDeque<Bytes>,
    pub(crate) wait: Option<Pin<Box<Sleep>>>,
}

impl PausedBody {
    pub(crate) fn of(chunks: Vec<String>) -> Self {
        Self { left: chunks.into_iter().map(Bytes::from).collect(), wait: None }
    }
}

impl Body for PausedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(wait) = &mut self.wait
            && wait.as_mut().poll(context).is_pending()
        {
            return Poll::Pending;
        }
        let chunk = self.left.pop_front();
        self.wait = (!self.left.is_empty()).then(|| Box::pin(sleep(STREAM_PAUSE)));
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self.left.len() {
            0 => hyper::body::SizeHint::with_exact(0),
            1 if self.wait.is_none() => {
                hyper::body::SizeHint::with_exact(u64::try_from(self.left[0].len()).unwrap())
            }
            _ => hyper::body::SizeHint::default(),
        }
    }
}
