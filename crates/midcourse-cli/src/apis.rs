//! Model APIs: what an agent asks its model, what the model answers, and where words fit in.
//!
//! Each API is a file with private wire types: a request is read into items that point into the
//! client's own bytes, an answer into a message. Reading never fails loudly: what is not understood
//! is nothing, and passes as it is. Words go in by [`insert`], which changes no byte of the client's.
//! Nothing here touches the store, the clock or the network; the command `proxy` puts the parts together.

mod answer;
mod anthropic;
mod conversation;
mod openai;
mod place;
mod request;
mod sse;

pub use answer::Answer;
pub use conversation::{Conversation, Fact, News};
pub use place::{Insertion, Place, insert};
pub use request::{Item, Request, Role};

use midcourse::{DecisionPoint, TrajectoryPayload};

use midcourse::Source;

/// An API that agents reach their models by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Chat Completions, which many others serve as well.
    ChatCompletions,
}

/// The way by which a fact came from an API: whether it was asked about follows from it, so that a
/// replay asks where the proxy asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
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
    pub const fn name(self) -> &'static str {
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

    /// The API's name, as it stands in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => "anthropic",
            Self::ChatCompletions => "openai",
        }
    }

    /// Whether an API is called so in records.
    pub fn has_name(name: &str) -> bool {
        Self::ALL.into_iter().any(|api| api.name() == name)
    }

    /// The API that a request to this path speaks, if it asks a model something.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else {
            None
        }
    }

    /// Reads the body of a request; nothing, if it is none.
    pub fn request(self, body: &str) -> Option<Request<'_>> {
        let request = match self {
            Self::Messages => anthropic::request(body),
            Self::ChatCompletions => openai::request(body),
        };
        request.map(Request::tell_apart)
    }

    /// Reads the body of an answer, whole or as far as it came; nothing, if it is none.
    pub fn answer(self, status: u16, body: &[u8]) -> Option<Answer> {
        let is_stream = sse::is_stream(body);
        match (status, self) {
            (200..=299, Self::Messages) if is_stream => anthropic::streamed(body),
            (200..=299, Self::Messages) => anthropic::answer(body),
            (200..=299, Self::ChatCompletions) if is_stream => openai::streamed(body),
            (200..=299, Self::ChatCompletions) => openai::answer(body),
            (400.., _) => Some(Answer::refusal(status, body)),
            _ => None,
        }
    }

    /// Who reports a fact that came this way.
    pub fn source(self, way: Way) -> Source {
        Source::new(self.name(), way.name())
    }

    /// The way of a source, if an API is behind it.
    pub fn way_of(source: &Source) -> Option<Way> {
        Self::has_name(source.host()).then_some(())?;
        Way::ALL.into_iter().find(|way| way.name() == source.way())
    }

    /// The decision point at which a fact that came from an API may be spoken about, live and in a
    /// replay.
    pub fn point_of(source: &Source, payload: &TrajectoryPayload) -> Option<DecisionPoint> {
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
