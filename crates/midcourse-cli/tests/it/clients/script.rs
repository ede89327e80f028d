//! The scripted responses of the model, turn by turn, independent of any API.

use serde_json::Value;

/// The user's prompt.
pub(crate) const TASK: &str = "Do the scripted work.";

/// The prompt of the subagent.
pub(crate) const AGENT_TASK: &str = "Look into the scripted corner.";

/// A placeholder in the input of a call. The model server for Codex replaces it with the id of the
/// subagent that was started last.
pub(crate) const AGENT_ID: &str = "{{agent}}";

/// Who sends a model request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    Main,
    Subagent,
    /// The client itself, for example to get a title for the session.
    Client,
}

/// A part of a model response.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    ToolCall {
        id: String,
        /// The tool's namespace, for APIs that have one.
        group: Option<&'static str>,
        tool: String,
        input: Value,
    },
}

impl Piece {
    pub(crate) fn call(id: &str, tool: &str, input: Value) -> Self {
        Self::ToolCall { id: id.to_owned(), group: None, tool: tool.to_owned(), input }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One response of the model.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    Response(Vec<Piece>),
    /// An API error with this HTTP status. If it is the last turn, later requests get it too.
    Error(u16),
}

/// The responses to the main agent and to its subagent, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) main: Vec<Turn>,
    pub(crate) subagent: Vec<Turn>,
}

impl Script {
    /// A script with one tool call per turn and then a final message.
    pub(crate) fn of_calls(calls: impl IntoIterator<Item = Piece>, last: &str) -> Self {
        let turns = calls.into_iter().map(|call| Turn::Response(vec![call]));
        let main = turns.chain([Turn::Response(vec![Piece::text(last)])]).collect();
        Self { main, subagent: Vec::new() }
    }

    /// The response to request number `n` of a requester; 0 is the first request.
    pub(crate) fn turn(&self, requester: Requester, n: usize) -> Turn {
        let turns = match requester {
            Requester::Main => &self.main,
            Requester::Subagent => &self.subagent,
            Requester::Client => return Turn::Response(vec![Piece::text("ok")]),
        };
        match (turns.get(n), turns.last()) {
            (Some(turn), _) | (None, Some(turn @ Turn::Error(_))) => turn.clone(),
            _ => Turn::Response(vec![Piece::text("The script is over.")]),
        }
    }
}

/// How often a text occurs in all strings of a JSON value together.
pub(crate) fn times(value: &Value, text: &str) -> usize {
    match value {
        Value::String(string) => string.matches(text).count(),
        Value::Array(items) => items.iter().map(|item| times(item, text)).sum(),
        Value::Object(fields) => fields.values().map(|field| times(field, text)).sum(),
        _ => 0,
    }
}
