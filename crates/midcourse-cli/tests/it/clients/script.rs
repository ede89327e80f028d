//! What the model is to answer, turn by turn, in the words of no API.

use serde_json::Value;

/// What the user asks for.
pub(crate) const TASK: &str = "Do the scripted work.";

/// What an agent that works for the main one is asked for.
pub(crate) const AGENT_TASK: &str = "Look into the scripted corner.";

/// Stands in a call's input for the id of the agent that was started last.
pub(crate) const AGENT_ID: &str = "{{agent}}";

/// Who asks the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Main,
    /// An agent that works for the main one.
    Agent,
    /// The client itself, which wants a title or the like.
    Side,
}

/// A part of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Says(String),
    Calls {
        id: String,
        /// The group that the tool belongs to, where an API has such.
        group: Option<&'static str>,
        tool: String,
        input: Value,
    },
}

impl Piece {
    pub(crate) fn call(id: &str, tool: &str, input: Value) -> Self {
        Self::Calls { id: id.to_owned(), group: None, tool: tool.to_owned(), input }
    }

    pub(crate) fn says(text: &str) -> Self {
        Self::Says(text.to_owned())
    }
}

/// One answer of the model.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    Answers(Vec<Piece>),
    /// The API refuses, with this status, now and ever after.
    Refuses(u16),
}

/// The answers, in order, to the main agent and to the one that works for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) main: Vec<Turn>,
    pub(crate) agent: Vec<Turn>,
}

impl Script {
    /// One call a turn, and then a last word.
    pub(crate) fn of_calls(calls: impl IntoIterator<Item = Piece>, last: &str) -> Self {
        let turns = calls.into_iter().map(|call| Turn::Answers(vec![call]));
        let main = turns.chain([Turn::Answers(vec![Piece::says(last)])]).collect();
        Self { main, agent: Vec::new() }
    }

    /// The answer to somebody's `n`-th question.
    pub(crate) fn turn(&self, asker: Asker, n: usize) -> Turn {
        let turns = match asker {
            Asker::Main => &self.main,
            Asker::Agent => &self.agent,
            Asker::Side => return Turn::Answers(vec![Piece::says("ok")]),
        };
        match (turns.get(n), turns.last()) {
            (Some(turn), _) | (None, Some(turn @ Turn::Refuses(_))) => turn.clone(),
            _ => Turn::Answers(vec![Piece::says("The script is over.")]),
        }
    }
}

/// How often words stand in the strings of a value.
pub(crate) fn times(value: &Value, words: &str) -> usize {
    match value {
        Value::String(text) => text.matches(words).count(),
        Value::Array(items) => items.iter().map(|item| times(item, words)).sum(),
        Value::Object(fields) => fields.values().map(|field| times(field, words)).sum(),
        _ => 0,
    }
}
