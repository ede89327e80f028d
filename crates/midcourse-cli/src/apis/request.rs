//! A request to a model, as far as it matters here: what was said, called and returned, in order.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize as _, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::place::Place;
use crate::blocks::blocks;
use midcourse::ToolResult;

/// A request. What it holds points into the client's bytes.
#[derive(Debug)]
pub struct Request<'a> {
    /// The model.
    pub model: Option<String>,
    /// The session that the client names in the body.
    pub session: Option<String>,
    /// The prompt in front of the conversation.
    pub system: Vec<&'a RawValue>,
    /// The names of the tools offered.
    pub tools: Vec<String>,
    /// Whether the answer is to have a form of its own.
    pub has_form: bool,
    /// The number of messages.
    pub messages: usize,
    /// The conversation.
    pub items: Vec<Item<'a>>,
    /// The first item behind the model's last answer.
    pub current: usize,
    /// Where words fit that are for this request only.
    pub place: Option<Place>,
}

/// One thing in a conversation.
#[derive(Debug)]
pub enum Item<'a> {
    /// Somebody said something.
    Says {
        /// Who.
        role: Role,
        /// What.
        text: &'a RawValue,
    },
    /// The model called a tool.
    Calls {
        /// The call.
        id: Cow<'a, str>,
        /// The tool.
        tool: Cow<'a, str>,
        /// What it is asked, as JSON or as a text that holds JSON.
        args: Option<&'a RawValue>,
    },
    /// A tool returned.
    Returns {
        /// The call.
        id: Cow<'a, str>,
        /// What it returned.
        content: Option<&'a RawValue>,
        /// Whether the client says that it failed.
        is_error: bool,
        /// Where words about it fit in.
        place: Option<Place>,
    },
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client.
    System,
    /// The person, or whoever drives the agent.
    User,
    /// The model.
    Assistant,
}

impl Item<'_> {
    /// What tells one thing said from another. The model's own words come back from the client,
    /// which may have escaped and trimmed them in its own way.
    pub(super) fn digest(role: Role, text: &RawValue) -> u64 {
        match role {
            Role::Assistant => Self::digest_of_answer(&text_of(text)),
            Role::User | Role::System => xxh3_64(text.get().as_bytes()),
        }
    }

    pub(super) fn digest_of_answer(text: &str) -> u64 {
        xxh3_64(text.trim().as_bytes())
    }
}

impl Request<'_> {
    /// Tells calls apart that have the same id: some servers count anew with every answer. The
    /// second one is `ID#2`, here and in answers.
    pub(super) fn tell_apart(mut self) -> Self {
        let mut times: HashMap<u64, usize> = HashMap::new();
        for item in &mut self.items {
            match item {
                Item::Calls { id, .. } => {
                    let times = times.entry(xxh3_64(id.as_bytes())).or_default();
                    *times = times.saturating_add(1);
                    if *times > 1 {
                        *id = Cow::Owned(nth(id, *times));
                    }
                }
                Item::Returns { id, .. } => {
                    if let Some(times) =
                        times.get(&xxh3_64(id.as_bytes())).filter(|times| **times > 1)
                    {
                        *id = Cow::Owned(nth(id, *times));
                    }
                }
                Item::Says { .. } => {}
            }
        }
        self
    }

    /// The length of the prompt in front, in characters.
    pub fn system_chars(&self) -> usize {
        self.system.iter().map(|text| text_of(text).chars().count()).sum()
    }

    /// The prompt in front, as texts.
    pub fn prompt(&self) -> impl Iterator<Item = String> {
        self.system.iter().map(|text| text_of(text).into_owned())
    }

    /// What the first person to speak says.
    pub fn first_words(&self) -> Option<String> {
        self.items.iter().find_map(|item| match item {
            Item::Says { role: Role::User, text } => Some(text_of(text).into_owned()),
            _ => None,
        })
    }

    /// The calls in it, the latest first.
    pub fn calls(&self) -> impl Iterator<Item = &str> {
        self.items.iter().rev().filter_map(|item| match item {
            Item::Calls { id, .. } => Some(id.as_ref()),
            _ => None,
        })
    }

    /// Whether words fit in, behind every result that is new and at the end.
    pub fn has_room(&self) -> bool {
        let is_full = |item: &Item<'_>| matches!(item, Item::Returns { place: None, .. });
        self.place.is_some() && !self.items.iter().skip(self.current).any(is_full)
    }

    /// Where words about the result of a call fit in.
    pub fn place_of(&self, call: &str) -> Option<Place> {
        self.items.iter().find_map(|item| match item {
            Item::Returns { id, place, .. } if id == call => *place,
            _ => None,
        })
    }
}

/// Reads a value that may be `null`, which is another thing than one that is not there.
pub(super) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The id of a call that is not the first of its id.
pub(super) fn nth(id: &str, times: usize) -> String {
    format!("{id}#{times}")
}

/// A JSON string as text; whatever else it is, as it stands.
pub(super) fn text_of(raw: &RawValue) -> Cow<'_, str> {
    let json = raw.get();
    let inside = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    match inside {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        _ => serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned),
    }
}

/// What a tool is asked; a text that holds JSON is that JSON.
pub(super) fn args_of(args: Option<&RawValue>) -> Value {
    let Some(args) = args else { return Value::Null };
    match Value::deserialize(args) {
        Ok(Value::String(text)) => {
            serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text))
        }
        Ok(value) => value,
        Err(_) => Value::Null,
    }
}

/// What a tool returned.
pub(super) fn result_of(content: Option<&RawValue>, is_error: bool) -> ToolResult {
    let result = match content.map(Value::deserialize) {
        None | Some(Err(_)) => ToolResult::default(),
        Some(Ok(Value::Array(items))) => blocks(items),
        Some(Ok(Value::String(text))) => ToolResult::text(text),
        Some(Ok(other)) => ToolResult::text(other.to_string()),
    };
    ToolResult { is_error, ..result }
}
