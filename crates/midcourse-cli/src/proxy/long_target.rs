//! Responds to a request whose path is too long for the HTTP library.
//!
//! The library accepts paths of up to 64 kB. To a longer one it responds itself, with status 414
//! and no body. [`LongTarget`] replaces that response with one that has a body in the form of the
//! model APIs, so that the client shows its user what happened.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::{Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How the library's own response begins and ends.
const BARE: (&[u8], &[u8]) = (b"HTTP/1.1 414 URI Too Long\r\n", b"content-length: 0\r\n\r\n");

/// The library's own response is shorter than this.
const MAX_BARE_LEN: usize = 128;

const BODY: &str = r#"{"type":"error","error":{"type":"midcourse_proxy","message":"the path of the request is longer than 64 kB, which midcourse's proxy cannot forward; run the agent with --proxy=off"}}"#;

/// Wraps the connection to a client. The HTTP library reads from the wrapper and writes to it.
pub(super) struct LongTarget<IO> {
    io: IO,
    has_upstream_414: Upstream414,
    /// What still has to be sent of the response that replaces the library's own.
    rest: Option<Vec<u8>>,
}

/// Notes whether an upstream itself responded with status 414 on this connection. Such a response
/// has to pass unchanged.
#[derive(Debug, Clone, Default)]
pub(super) struct Upstream414(Arc<AtomicBool>);

impl Upstream414 {
    pub(super) fn note<B>(&self, response: &Response<B>) {
        if response.status() == StatusCode::URI_TOO_LONG {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<IO> LongTarget<IO> {
    pub(super) const fn new(io: IO, has_upstream_414: Upstream414) -> Self {
        Self { io, has_upstream_414, rest: None }
    }

    fn is_bare_response(&self, bytes: &[u8]) -> bool {
        bytes.len() < MAX_BARE_LEN
            && bytes.starts_with(BARE.0)
            && bytes.ends_with(BARE.1)
            && !self.has_upstream_414.0.load(Ordering::Relaxed)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for LongTarget<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for LongTarget<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.is_bare_response(bytes) {
            return Pin::new(&mut self.io).poll_write(context, bytes);
        }
        let mut rest = self.rest.take().unwrap_or_else(response);
        while !rest.is_empty() {
            match Pin::new(&mut self.io).poll_write(context, &rest) {
                Poll::Ready(written) => drop(rest.drain(..written?)),
                Poll::Pending => {
                    self.rest = Some(rest);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match parts {
            [only] => self.poll_write(context, only),
            _ => Pin::new(&mut self.io).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

fn response() -> Vec<u8> {
    format!(
        "HTTP/1.1 414 URI Too Long\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{BODY}",
        BODY.len()
    )
    .into_bytes()
}
