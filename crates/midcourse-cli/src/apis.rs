//! Model APIs: parsing requests and responses, and inserting text into a request.
//!
//! Each API is a file with private wire types. A request is parsed into items that borrow from the
//! client's bytes, a response into a [`Reply`]. Parsing never reports an error: a body that is not
//! understood is `None`, and the proxy forwards it unchanged. [`insert`] is the only way to add
//! text, and it changes none of the client's bytes. Nothing here touches the store, the clock or
//! the network; `proxy` is the only caller that does.

mod anthropic;
mod conversation;
mod insertion;
mod openai;
mod reply;
mod request;
mod sse;
#[cfg(test)]
mod tests;

pub(crate) use conversation::{Conversation, ObservedEvent};
pub(crate) use insertion::{Insertion, InsertionPoint, insert};
pub(crate) use reply::Reply;
pub(crate) use request::{Item, Request, is_unique_call_id};

/// A model API that the proxy understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Chat Completions, which many other servers implement.
    ChatCompletions,
}

impl Api {
    const ALL: [Self; 2] = [Self::Messages, Self::ChatCompletions];

    /// The name under which records mention this API.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Messages => "anthropic",
            Self::ChatCompletions => "openai",
        }
    }

    /// Whether records use this name for an API.
    pub(crate) fn has_name(name: &str) -> bool {
        Self::ALL.into_iter().any(|api| api.name() == name)
    }

    /// The API of a model request to this path.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else {
            None
        }
    }

    /// Parses the body of a request.
    pub(crate) fn parse_request(self, body: &str) -> Option<Request<'_>> {
        let request = match self {
            Self::Messages => anthropic::parse_request(body),
            Self::ChatCompletions => openai::parse_request(body),
        };
        request.map(Request::with_unique_call_ids)
    }

    /// Parses the body of a response, which may have been cut off.
    pub(crate) fn parse_response(self, status: u16, body: &[u8]) -> Option<Reply> {
        let is_stream = sse::is_stream(body);
        match (status, self) {
            (200..=299, Self::Messages) if is_stream => anthropic::parse_stream(body),
            (200..=299, Self::Messages) => anthropic::parse_response(body),
            (200..=299, Self::ChatCompletions) if is_stream => openai::parse_stream(body),
            (200..=299, Self::ChatCompletions) => openai::parse_response(body),
            (400.., _) => Some(Reply::from_error_status(status, body)),
            _ => None,
        }
    }
}
