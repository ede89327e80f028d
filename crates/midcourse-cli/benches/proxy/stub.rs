//! The model: a server that answers at once, with the call that the next request holds.

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

use crate::GAP;
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
        let told = Arc::clone(&streams);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let told = Arc::clone(&told);
                let service = hyper::service::service_fn(move |request| {
                    let streams = told.load(Ordering::Relaxed);
                    async move { Ok::<_, Infallible>(answer(request, streams).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // Whoever goes away in the middle is missed at the other end.
                tokio::spawn(async { drop(connection.await) });
            }
        });
        Self { address, streams }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether it answers in a stream from now on.
    pub(crate) fn streams(&self, streams: bool) {
        self.streams.store(streams, Ordering::Relaxed);
    }
}

pub(crate) async fn answer(request: Request<Incoming>, streams: bool) -> Response<Pieces> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let step = Step::last_in(&body).map(Step::next);
    let (kind, pieces) = match (step, path.as_str()) {
        (Some(step), "/v1/chat/completions") if streams => ("text/event-stream", chat_stream(step)),
        (Some(step), "/v1/chat/completions") => ("application/json", vec![chat_completion(step)]),
        (Some(step), "/v1/messages") => ("application/json", vec![message(step)]),
        _ => return Response::builder().status(404).body(Pieces::of(Vec::new())).unwrap(),
    };
    Response::builder().header("content-type", kind).body(Pieces::of(pieces)).unwrap()
}

pub(crate) fn chat_completion(step: Step) -> String {
    let message = json!({"role": "assistant", "content": null, "tool_calls": [chat_call(step)]});
    json!({"id": format!("chatcmpl-{step}"), "object": "chat.completion", "created": 1_790_000_000,
        "model": "stub", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}})
    .to_string()
}

/// The first event, and then all others.
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
    for word in step.input().to_string().split_inclusive(' ') {
        let piece = json!({"index": 0, "function": {"arguments": word}});
        others.push_str(&event(json!({"tool_calls": [piece]}), None));
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

/// A body whose first piece goes at once and whose others wait.
pub(crate) struct Pieces {
    pub(crate) left: VecDeque<Bytes>,
    pub(crate) wait: Option<Pin<Box<Sleep>>>,
}

impl Pieces {
    pub(crate) fn of(pieces: Vec<String>) -> Self {
        Self { left: pieces.into_iter().map(Bytes::from).collect(), wait: None }
    }
}

impl Body for Pieces {
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
        let piece = self.left.pop_front();
        self.wait = (!self.left.is_empty()).then(|| Box::pin(sleep(GAP)));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
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
