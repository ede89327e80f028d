//! The body of an answer on its way to the client, and a copy of it for the recorder.
//!
//! The client gets each piece as it comes. When the answer is over, however it ends, the recorder
//! gets what came of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The most that is kept of an answer; of a longer one the beginning is.
const KEPT_MAX: usize = 32 * 1024 * 1024;

/// What came of an answer.
#[derive(Debug, Default)]
pub(super) struct Tape {
    pub(super) pieces: Vec<Bytes>,
    /// What broke it off, if it did not come to its end.
    pub(super) broken: Option<String>,
    length: usize,
}

impl Tape {
    fn keep(&mut self, piece: &Bytes) {
        if self.length < KEPT_MAX {
            self.length = self.length.saturating_add(piece.len());
            self.pieces.push(piece.clone());
        }
    }
}

/// A body whose beginning was read already.
pub(super) struct Joined {
    pub(super) front: Option<Bytes>,
    pub(super) rest: Incoming,
}

impl Body for Joined {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.front.take() {
            Some(front) => Poll::Ready(Some(Ok(Frame::data(front)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.front.is_none() && self.rest.is_end_stream()
    }
}

/// A body that is heard by the recorder, too.
pub(super) struct Taped {
    body: Incoming,
    tape: Tape,
    over: Option<Box<dyn FnOnce(Tape) + Send + Sync>>,
}

impl Taped {
    pub(super) fn new(body: Incoming, over: impl FnOnce(Tape) + Send + Sync + 'static) -> Self {
        Self { body, tape: Tape::default(), over: Some(Box::new(over)) }
    }

    fn end(&mut self, broken: Option<String>) {
        if let Some(over) = self.over.take() {
            let mut tape = std::mem::take(&mut self.tape);
            tape.broken = broken;
            over(tape);
        }
    }
}

impl Body for Taped {
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
                if let Some(piece) = frame.data_ref() {
                    self.tape.keep(piece);
                }
                // Nobody asks for more then.
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

impl Drop for Taped {
    fn drop(&mut self) {
        let broken = (!self.body.is_end_stream()).then(|| "the client went away".to_owned());
        self.end(broken);
    }
}
