//! A model request and its response as sent over the network: the bodies, and the headers that the
//! recorder needs.

use std::borrow::Cow;

use crate::apis::{Api, Reply};
use bytes::Bytes;
use midcourse::StopReason;

use super::compressed::decompress;
use super::response_copy::ResponseCopy;

/// A request to a model API, before it is parsed.
pub(super) struct ModelRequest {
    pub(super) api: Api,
    /// The session id that Claude Code sends as a header.
    pub(super) session: Option<String>,
    /// The id that Claude Code sends as a header if a subagent makes the request.
    pub(super) agent: Option<String>,
    /// The name of the model, if it is in the URL.
    pub(super) model: Option<String>,
    pub(super) encoding: Option<String>,
    /// Whether a header contains a signature or a digest of the body.
    pub(super) is_signed: bool,
    pub(super) body: Bytes,
}

impl ModelRequest {
    /// Whether text may be inserted into the body, which must be neither compressed nor signed.
    pub(super) const fn is_modifiable(&self) -> bool {
        self.encoding.is_none() && !self.is_signed
    }

    /// The body as text, decompressed if necessary.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match &self.encoding {
            None => std::str::from_utf8(&self.body).ok().map(Cow::Borrowed),
            Some(encoding) => {
                let bytes = decompress(self.body.to_vec(), Some(encoding))?;
                String::from_utf8(bytes).ok().map(Cow::Owned)
            }
        }
    }
}

pub(super) enum ModelResponse {
    Received {
        status: u16,
        encoding: Option<String>,
        body: ResponseCopy,
    },
    /// No response arrived; contains the reason.
    Failed(String),
}

impl ModelResponse {
    pub(super) fn parse(self, api: Api) -> Reply {
        let (status, encoding, body) = match self {
            Self::Failed(error) => return Reply::failed(StopReason::Aborted, error),
            Self::Received { status, encoding, body } => (status, encoding, body),
        };
        let bytes = decompress(body.chunks.concat(), encoding.as_deref());
        let reply = bytes.and_then(|bytes| api.parse_response(status, &bytes));
        match (reply, body.error) {
            (Some(reply), _) => reply,
            (None, Some(error)) => Reply::failed(StopReason::Aborted, error),
            (None, None) => Reply::failed(
                StopReason::Error,
                format!("could not parse the response with HTTP status {status}"),
            ),
        }
    }
}
