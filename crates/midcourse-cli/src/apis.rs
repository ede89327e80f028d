//! Model APIs: parses requests and responses, and inserts text into requests.
//!
//! Each API is one file with private wire types. A request is parsed into items (messages, tool
//! calls and tool results) that borrow from the client's bytes, a response into a [`Reply`].
//! Parsing never reports an error: for a body that cannot be parsed it returns `None`, and the
//! proxy forwards this body unchanged. Text is added only with [`insert`], which keeps all of the
//! client's bytes. This module does not use the store, the clock or the network; its caller, the
//! module `proxy`, does.

mod alignment;
mod anthropic;
mod conversation;
mod gemini;
mod insertion;
mod known_calls;
mod openai;
mod reply;
mod request;
mod responses;
mod sse;
#[cfg(test)]
mod tests;
mod text_actions;

pub(crate) use alignment::RequestDigests;
pub(crate) use conversation::{Conversation, ObservedEvent};
pub(crate) use insertion::{Insertion, InsertionPoint, insert};
pub(crate) use reply::Reply;
pub(crate) use request::{Item, Request, is_unique_call_id};

/// A model API that the proxy understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Anthropic's Messages API.
    Messages,
    /// OpenAI's Chat Completions API, which many other servers implement.
    ChatCompletions,
    /// OpenAI's Responses API.
    Responses,
    /// Google's Gemini API.
    Gemini,
}

impl Api {
    const ALL: [Self; 4] = [Self::Messages, Self::ChatCompletions, Self::Responses, Self::Gemini];

    /// The name of this API in stored records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Messages => "anthropic",
            Self::ChatCompletions => "openai",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini-api",
        }
    }

    /// Whether `name` is the name of an API in stored records.
    pub(crate) fn has_name(name: &str) -> bool {
        Self::ALL.into_iter().any(|api| api.name() == name)
    }

    /// The name of this API in messages to the user.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Messages => "Messages",
            Self::ChatCompletions => "Chat Completions",
            Self::Responses => "Responses",
            Self::Gemini => "Gemini",
        }
    }

    /// The API that serves this URL path; `None` if it is not the path of a model request.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    /// The name of the model in the path, for an API whose requests name it there.
    pub(crate) fn model_in(self, path: &str) -> Option<String> {
        let name = path.rsplit('/').next()?.split_once(':')?.0;
        (self == Self::Gemini && !name.is_empty()).then(|| name.to_owned())
    }

    /// For the path of a model API that midcourse does not understand: why requests to this path
    /// are not read. `None` for any other path.
    pub(crate) fn why_unread(path: &str) -> Option<&'static str> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/completions") || path.ends_with("/complete") {
            Some("midcourse does not read the text completion API")
        } else {
            None
        }
    }

    /// Parses the body of a request; `None` if it does not have the form of this API's requests.
    pub(crate) fn parse_request(self, body: &str) -> Option<Request<'_>> {
        let request = match self {
            Self::Messages => anthropic::parse_request(body),
            Self::ChatCompletions => openai::parse_request(body),
            Self::Responses => responses::parse_request(body),
            Self::Gemini => gemini::parse_request(body),
        };
        request.map(Request::with_unique_call_ids)
    }

    /// Parses the body of a response. A stream that was cut off is parsed as far as it was
    /// received. For an HTTP error status, returns a reply that contains the error. Returns `None`
    /// if the body cannot be parsed.
    pub(crate) fn parse_response(self, status: u16, body: &[u8]) -> Option<Reply> {
        let is_stream = sse::is_stream(body);
        match (status, self) {
            (200..=299, Self::Messages) if is_stream => anthropic::parse_stream(body),
            (200..=299, Self::Messages) => anthropic::parse_response(body),
            (200..=299, Self::ChatCompletions) if is_stream => openai::parse_stream(body),
            (200..=299, Self::ChatCompletions) => openai::parse_response(body),
            (200..=299, Self::Responses) if is_stream => responses::parse_stream(body),
            (200..=299, Self::Responses) => responses::parse_response(body),
            (200..=299, Self::Gemini) if is_stream => gemini::parse_stream(body),
            (200..=299, Self::Gemini) => gemini::parse_response(body),
            (400.., _) => Some(Reply::from_error_status(status, body)),
            _ => None,
        }
    }
}
