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
pub(crate) use request::{Item, Request};

use midcourse::{DecisionPoint, Source, TrajectoryPayload};

/// A model API that the proxy understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Chat Completions, which many other servers implement.
    ChatCompletions,
}

/// The way by which a fact came from an API: whether it was asked about follows from it, so that a
/// replay asks where the proxy asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The first request of a run.
    Opening,
    /// A request that carries words.
    Request,
    /// One whose answer is to have a form of its own, so that it is the last.
    Final,
    /// An answer of the model.
    Answer,
    /// Nothing could be said any more: it went through before there was anything to say, or it was
    /// known from the conversation only.
    Late,
    /// Something that the client asks for itself, such as a title.
    Side,
}

impl Way {
    const ALL: [Self; 6] =
        [Self::Opening, Self::Request, Self::Final, Self::Answer, Self::Late, Self::Side];

    /// The way's name, as it stands in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Request => "request",
            Self::Final => "final",
            Self::Answer => "answer",
            Self::Late => "late",
            Self::Side => "side",
        }
    }
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

    /// Who reports a fact that came this way.
    pub(crate) fn source(self, way: Way) -> Source {
        Source::new(self.name(), way.name())
    }

    /// The way of a source, if an API is behind it.
    pub(crate) fn way_of(source: &Source) -> Option<Way> {
        Self::has_name(source.host()).then_some(())?;
        Way::ALL.into_iter().find(|way| way.name() == source.way())
    }

    /// The decision point at which a fact that came from an API may be spoken about, live and in a
    /// replay.
    pub(crate) fn point_of(source: &Source, payload: &TrajectoryPayload) -> Option<DecisionPoint> {
        let is_asked = matches!(payload, TrajectoryPayload::ProviderRequestPrepared { .. });
        match (Self::way_of(source)?, payload) {
            (Way::Answer, TrajectoryPayload::ToolStarted { .. }) => {
                Some(DecisionPoint::PreToolExecution)
            }
            (Way::Opening | Way::Request | Way::Final, TrajectoryPayload::ToolEnded { .. }) => {
                Some(DecisionPoint::PostToolResult)
            }
            (Way::Opening, _) if is_asked => Some(DecisionPoint::PreRender),
            (Way::Final, _) if is_asked => Some(DecisionPoint::PreResponse),
            (Way::Request, TrajectoryPayload::ProviderRequestPrepared { tool_count, .. }) => {
                Some(match tool_count {
                    0 => DecisionPoint::PreResponse,
                    _ => DecisionPoint::PreToolSelection,
                })
            }
            _ => None,
        }
    }
}
