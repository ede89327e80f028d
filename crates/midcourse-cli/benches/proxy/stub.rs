//! A stub of a model server. It responds to each request at once, with the next tool call of the
//! conversation. A streamed response pauses after its first event.

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
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};

use crate::STREAM_PAUSE;
use crate::conversation::{Step, chat_call};

pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    pub(crate) streams: Arc<AtomicBool>,
}

impl Stub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let streams = Arc::new(AtomicBool::new(false));
        let is_streaming = Arc::clone(&streams);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let is_streaming = Arc::clone(&is_streaming);
                let service = hyper::service::service_fn(move |request| {
                    let streams = is_streaming.load(Ordering::Relaxed);
                    async move { Ok::<_, Infallible>(respond(request, streams).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // If the connection breaks, the client notices and the benchmark fails.
                tokio::spawn(async { drop(connection.await) });
            }
        });
        Self { address, streams }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets whether responses are streamed from now on.
    pub(crate) fn set_streaming(&self, streams: bool) {
        self.streams.store(streams, Ordering::Relaxed);
    }
}

pub(crate) async fn respond(request: Request<Incoming>, streams: bool) -> Response<PausedBody> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let step = Step::last_in(&body).map(Step::next);
    let (kind, chunks) = match (step, path.as_str()) {
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
