//! Copies a response body for the recorder while it streams to the client.
//!
//! The client gets each chunk as it arrives. When the body ends or is cut off, the recorder gets
//! the copy.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Maximum number of bytes to copy. Of a longer response, only the beginning is copied.
const MAX_COPIED_BYTES: usize = 32 * 1024 * 1024;

/// The error recorded for a response if the client disconnects before its end.
pub(super) const CLIENT_DISCONNECTED: &str = "the client disconnected";

/// A copy of a response body, as far as it was received.
#[derive(Debug, Default)]
pub(super) struct ResponseCopy {
    pub(super) chunks: Vec<Bytes>,
    /// Why the body was cut off, if it was.
    pub(super) error: Option<String>,
    length: usize,
}

impl ResponseCopy {
    fn push(&mut self, chunk: &Bytes) {
        if self.length < MAX_COPIED_BYTES {
            self.length = self.length.saturating_add(chunk.len());
            self.chunks.push(chunk.clone());
        }
    }
}

/// A request body whose beginning, `start`, was already read from the client. `start` is forwarded
/// first, then the rest as it arrives.
pub(super) struct PartlyRead {
    pub(super) start: Option<Bytes>,
    pub(super) rest: Incoming,
}

impl Body for PartlyRead {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.start.take() {
            Some(start) => Poll::Ready(Some(Ok(Frame::data(start)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.start.is_none() && self.rest.is_end_stream()
    }
}

/// A response body that is copied while it is forwarded.
pub(super) struct CopiedBody {
    body: Incoming,
    copy: ResponseCopy,
    on_end: Option<Box<dyn FnOnce(ResponseCopy) + Send + Sync>>,
}

impl CopiedBody {
    /// `on_end` is called once, with the copy, when the body ends, fails or is dropped.
    pub(super) fn new(
        body: Incoming,
        on_end: impl FnOnce(ResponseCopy) + Send + Sync + 'static,
    ) -> Self {
        Self { body, copy: ResponseCopy::default(), on_end: Some(Box::new(on_end)) }
    }

    fn end(&mut self, error: Option<String>) {
        if let Some(on_end) = self.on_end.take() {
            let mut copy = std::mem::take(&mut self.copy);
            copy.error = error;
            on_end(copy);
        }
    }
}

impl Body for CopiedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => self.end(None),
            Poll::Ready(Some(Err(error))) => self.end(Some(error.to_string())),
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(chunk) = frame.data_ref() {
                    self.copy.push(chunk);
                }
                // After the last chunk, hyper may never call this function again, so finish the
                // copy now.
                if self.body.is_end_stream() {
                    self.end(None);
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CopiedBody {
    fn drop(&mut self) {
        let error = (!self.body.is_end_stream()).then(|| CLIENT_DISCONNECTED.to_owned());
        self.end(error);
    }
}
