//! A model request, parsed into a list of messages, tool calls and tool results.
//!
//! All texts are slices of the request body, so their position in the body is known and other text
//! can be inserted after them. Each API's module builds a [`Request`];
//! [`Conversation`](super::Conversation) compares it with earlier requests.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize as _, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::insertion::InsertionPoint;
use crate::blocks::result_from_blocks;
use midcourse::ToolResult;

/// Minimum length, in bytes, of call ids that are assumed to be unique across conversations.
const MIN_UNIQUE_ID_LEN: usize = 12;

/// Clients send some notes of their own with the role `user`. Each entry is the text with which
/// such a note begins, and the kind of custom message as which the note is stored.
const CLIENT_NOTES: [(&str, &str); 3] = [
    ("<system-reminder>", "system_reminder"),
    ("<environment_context>", "environment_context"),
    ("<user_instructions>", "user_instructions"),
];

/// A parsed request to a model API.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The request body, as the client sent it.
    pub(super) body: &'a str,
    pub(crate) model: Option<String>,
    /// The client's session id, if the body names one.
    pub(crate) session: Option<String>,
    /// The id of the response that this request continues. The server then has the conversation
    /// until there, and the request contains only what is new.
    pub(crate) previous_response: Option<String>,
    /// Whether the server may keep the request for later ones, with what was inserted into it.
    pub(crate) is_kept_by_server: bool,
    /// The parts of the system prompt, as JSON strings.
    pub(crate) system: Vec<&'a RawValue>,
    /// The names of the tools offered to the model.
    pub(crate) tools: Vec<String>,
    /// Whether the client asks for a response format, such as a JSON schema.
    pub(crate) has_response_format: bool,
    pub(crate) message_count: usize,
    pub(crate) items: Vec<Item<'a>>,
    /// Index in `items` of the first item after the model's last message. This request is the first
    /// to show the model the items from there on.
    pub(crate) tail_start: usize,
    /// Where to insert text that is meant for this request only; `None` if nothing can be inserted.
    pub(crate) insertion_point: Option<InsertionPoint>,
}

/// A message, a tool call or a tool result in a request.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Message {
        role: Role,
        /// The text, as a JSON string.
        text: &'a RawValue,
    },
    ToolCall {
        id: Cow<'a, str>,
        tool: Cow<'a, str>,
        /// The arguments as JSON, or as a JSON string that contains JSON.
        args: Option<&'a RawValue>,
    },
    ToolResult {
        id: Cow<'a, str>,
        content: Option<&'a RawValue>,
        /// Whether the client reports that the call failed; `None` if it reports nothing.
        is_error: Option<bool>,
        /// Where to insert feedback about this result; `None` if nothing can be inserted.
        insertion_point: Option<InsertionPoint>,
    },
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
}

impl Item<'_> {
    /// The digest by which a message is recognised in later requests. When a client sends an
    /// assistant message back, it may have trimmed the text or escaped it differently, so the
    /// digest of an assistant message is computed from the unescaped and trimmed text.
    pub(super) fn message_digest(role: Role, text: &RawValue) -> u64 {
        match role {
            Role::Assistant => Self::assistant_digest(&text_of(text)),
            Role::User | Role::System => xxh3_64(text.get().as_bytes()),
        }
    }

    pub(super) fn assistant_digest(text: &str) -> u64 {
        xxh3_64(text.trim().as_bytes())
    }
}

impl Request<'_> {
    /// Makes call ids unique, because some servers use the same ids in every response. The second
    /// call with the id `ID` becomes `ID#2`. `Conversation::apply_reply` changes the ids in replies
    /// in the same way. Results of calls that have the same id and were made at once are in the
    /// order of these calls.
    pub(super) fn with_unique_call_ids(mut self) -> Self {
        // For each id: how many calls had it, and how many of the latest ones have no result yet.
        let mut counts: HashMap<u64, (usize, usize)> = HashMap::new();
        let mut is_after_call = false;
        for item in &mut self.items {
            let was_after_call = std::mem::replace(&mut is_after_call, false);
            match item {
                Item::ToolCall { id, .. } => {
                    let (count, open) = counts.entry(xxh3_64(id.as_bytes())).or_default();
                    *count = count.saturating_add(1);
                    *open = if was_after_call { open.saturating_add(1) } else { 1 };
                    if *count > 1 {
                        *id = Cow::Owned(numbered_id(id, *count));
                    }
                    is_after_call = true;
                }
                Item::ToolResult { id, .. } => {
                    if let Some((count, open)) = counts.get_mut(&xxh3_64(id.as_bytes())) {
                        let number = count.saturating_sub(open.saturating_sub(1));
                        *open = open.saturating_sub(1).max(1);
                        if number > 1 {
                            *id = Cow::Owned(numbered_id(id, number));
                        }
                    }
                }
                Item::Message { .. } => {}
            }
        }
        self
    }

    /// The length of the system prompt in characters.
    pub(crate) fn system_chars(&self) -> usize {
        self.system.iter().map(|text| text_of(text).chars().count()).sum()
    }

    /// The length of all texts, tool calls and results as JSON, in bytes.
    pub(crate) fn text_len(&self) -> usize {
        let length = |item: &Item<'_>| match item {
            Item::Message { text, .. } => text.get().len(),
            Item::ToolCall { args, .. } => args.map_or(0, |args| args.get().len()),
            Item::ToolResult { content, .. } => content.map_or(0, |content| content.get().len()),
        };
        let system = self.system.iter().map(|text| text.get().len());
        self.items.iter().map(length).chain(system).sum()
    }

    /// The parts of the system prompt, unescaped.
    pub(crate) fn system_texts(&self) -> impl Iterator<Item = String> {
        self.system.iter().map(|text| text_of(text).into_owned())
    }

    pub(crate) fn first_user_text(&self) -> Option<String> {
        self.items.iter().find_map(|item| match item {
            Item::Message { role: Role::User, text } => Some(text_of(text).into_owned()),
            _ => None,
        })
    }

    /// The ids of all tool calls, newest first. If the server keeps the calls, the request has only
    /// their results.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &str> {
        self.items.iter().rev().filter_map(|item| match item {
            Item::ToolCall { id, .. } => Some(id.as_ref()),
            Item::ToolResult { id, .. } if self.is_partial() => Some(id.as_ref()),
            _ => None,
        })
    }

    /// Whether the request contains only what is new, because the server keeps the conversation.
    pub(crate) const fn is_partial(&self) -> bool {
        self.previous_response.is_some()
    }

    /// Whether the model has already replied in this conversation.
    pub(crate) const fn has_history(&self) -> bool {
        self.tail_start > 0 || self.is_partial()
    }

    /// Whether text can be inserted at the end of the request and after every tool result that is
    /// new to the model.
    pub(crate) fn accepts_insertions(&self) -> bool {
        let is_closed =
            |item: &Item<'_>| matches!(item, Item::ToolResult { insertion_point: None, .. });
        self.insertion_point.is_some() && !self.items.iter().skip(self.tail_start).any(is_closed)
    }
}

/// Whether a call id is long enough to be unique across conversations. Short ids are not: some
/// servers number the calls of each conversation from zero.
pub(crate) const fn is_unique_call_id(id: &str) -> bool {
    id.len() >= MIN_UNIQUE_ID_LEN
}

/// The kind of note that a client sends with the role `user`; `None` if the text is no such note.
pub(super) fn client_note_kind(text: &RawValue) -> Option<&'static str> {
    let mut text = text.get().strip_prefix('"')?;
    while let Some(rest) = ["\\n", "\\r", "\\t", " "].iter().find_map(|it| text.strip_prefix(it)) {
        text = rest;
    }
    CLIENT_NOTES.iter().find(|(prefix, _)| text.starts_with(prefix)).map(|(_, kind)| *kind)
}

pub(super) fn is_client_note(text: &RawValue) -> bool {
    client_note_kind(text).is_some()
}

/// Deserialises a field so that `None` always means that the field is missing; `null` becomes
/// `Some`.
pub(super) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The unique id of the `count`th call with the id `id`: `ID#2` for the second call with the id
/// `ID`.
pub(super) fn numbered_id(id: &str, count: usize) -> String {
    format!("{id}#{count}")
}

/// Unescapes a JSON string; returns any other JSON value as its source text.
pub(super) fn text_of(raw: &RawValue) -> Cow<'_, str> {
    let json = raw.get();
    let inside = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    match inside {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        _ => serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned),
    }
}

/// The arguments of a tool call. If they are a string that contains JSON, that JSON is parsed.
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

pub(super) fn result_of(content: Option<&RawValue>, is_error: Option<bool>) -> ToolResult {
    let result = match content.map(Value::deserialize) {
        None | Some(Err(_)) => ToolResult::default(),
        Some(Ok(Value::Array(blocks))) => result_from_blocks(blocks),
        Some(Ok(Value::String(text))) => ToolResult::text(text),
        Some(Ok(other)) => ToolResult::text(other.to_string()),
    };
    ToolResult {
        is_error: is_error.unwrap_or(false),
        is_error_unknown: is_error.is_none(),
        ..result
    }
}
