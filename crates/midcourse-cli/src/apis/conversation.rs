//! A conversation across model requests: finds what is new in each request.
//!
//! Clients send their whole history with every request. Tool calls and results are recognised by
//! their ids. Messages have no ids: a message is new if it comes after the messages already known.
//! A client may cut, summarise or edit its history; a known message that reappears unchanged is not
//! new. Every new message gets a fact key: the store drops a second event with the same key. The
//! key depends only on the conversation, so another process that reads the same request computes
//! the same keys.

use std::collections::HashMap;

use midcourse::{AgentMessage, TrajectoryPayload};
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::reply::Reply;
use super::request::{Item, Request, Role, args_of, numbered_id, result_of, text_of};

/// If a request lacks more than half of the known messages and tool calls, the client has probably
/// compacted (summarised) its history. If fewer messages and calls than this are known, the history
/// is too short for that conclusion.
const MIN_ITEMS_FOR_COMPACTION: usize = 4;

/// Clients send some notes of their own with the role `user`. Each entry is the text with which
/// such a note begins, and the kind of custom message as which the note is stored.
const CLIENT_NOTES: [(&str, &str); 1] = [("<system-reminder>", "system_reminder")];

/// The messages, tool calls and results that earlier requests and replies of one conversation
/// contained. The next request is compared with them to find what is new in it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Conversation {
    /// Digests of the messages in the latest request and in its reply, in order.
    messages: Vec<u64>,
    /// Message digest → how often the message has occurred so far.
    occurrences: HashMap<u64, u32>,
    /// Digest of each call id → digest of the call's arguments.
    calls: HashMap<u64, u64>,
    /// Digest of each call id → digest of the call's result.
    results: HashMap<u64, u64>,
    /// Number of tool calls in the latest request and in its reply.
    call_count: usize,
}

/// What a request adds to its conversation.
#[derive(Debug, Default)]
pub(crate) struct RequestDelta {
    /// Whether the request lacks more than half of the known messages and tool calls: the client
    /// has probably compacted (summarised) its history.
    pub(crate) is_compacted: bool,
    /// The new events, in the order of the request.
    pub(crate) events: Vec<ObservedEvent>,
}

/// An event seen in a model request or in a reply.
#[derive(Debug)]
pub(crate) struct ObservedEvent {
    pub(crate) payload: TrajectoryPayload,
    /// The store drops a second event with the same key. `None` for tool calls and results, whose
    /// key is their call id, and for a reply that is empty or was cut off.
    pub(crate) fact_key: Option<String>,
    /// Whether the event comes after the model's last message, so that this request is the first to
    /// show the event to the model. Always true for the events of a reply.
    pub(crate) is_new_to_model: bool,
}

impl Conversation {
    /// How many messages the request adds to the known ones. `None` if the request does not begin
    /// with all known messages, or if no messages are known.
    pub(crate) fn messages_added_by(&self, request: &Request<'_>) -> Option<usize> {
        let messages = message_digests(request);
        let is_continued = !self.messages.is_empty() && messages.starts_with(&self.messages);
        is_continued.then(|| messages.len().saturating_sub(self.messages.len()))
    }

    /// Whether the request begins with the same message as this conversation.
    pub(crate) fn has_same_start(&self, request: &Request<'_>) -> bool {
        message_digests(request).first() == self.messages.first()
    }

    pub(crate) fn has_call(&self, call_id: &str) -> bool {
        self.calls.contains_key(&id_digest(call_id))
    }

    /// How many of the request's tool calls and results are already known with the same content.
    /// `None` if a result differs from the known result of the same call id: then the request is
    /// from another conversation that uses the same ids.
    pub(crate) fn count_matches(&self, request: &Request<'_>) -> Option<usize> {
        let mut matches = 0_usize;
        for item in &request.items {
            let (known, found) = match item {
                Item::Message { .. } => continue,
                Item::ToolCall { id, args, .. } => {
                    (self.calls.get(&id_digest(id)), value_digest(&args_of(*args)))
                }
                Item::ToolResult { id, content, .. } => {
                    let known = self.results.get(&id_digest(id));
                    let found = raw_digest(*content);
                    if known.is_some_and(|known| *known != found) {
                        return None;
                    }
                    (known, found)
                }
            };
            matches = matches.saturating_add(usize::from(known == Some(&found)));
        }
        Some(matches)
    }

    /// The key by which the store drops duplicates of the request's first user message.
    pub(crate) fn first_user_key(request: &Request<'_>) -> Option<String> {
        digests_by(request, Role::User).next().map(|digest| message_key(digest, 0))
    }

    /// The key by which the store drops duplicates of the request's last assistant message.
    pub(crate) fn last_assistant_key(request: &Request<'_>) -> Option<String> {
        digests_by(request, Role::Assistant).next_back().map(|digest| message_key(digest, 0))
    }

    /// Adds a request to the conversation and returns what is new in the request. The caller sets
    /// `with_user_messages` to false if hooks already report the user and system messages; the
    /// result then contains no events for such messages.
    pub(crate) fn apply_request(
        &mut self,
        request: &Request<'_>,
        with_user_messages: bool,
    ) -> RequestDelta {
        let messages = message_digests(request);
        let prefix = self.messages.iter().zip(&messages).take_while(|(a, b)| a == b).count();
        // The known history and the request begin with the same messages. This counts the known
        // messages after that common beginning. If one of them appears elsewhere in the request,
        // the client only moved it, and it is not new.
        let mut displaced: HashMap<u64, u32> = HashMap::new();
        for digest in self.messages.iter().skip(prefix) {
            *displaced.entry(*digest).or_default() += 1;
        }
        let (mut events, mut position, mut kept_messages) = (Vec::new(), 0, prefix);
        let mut tools: HashMap<&str, &str> = HashMap::new();
        let (mut call_count, mut kept_calls) = (0_usize, 0_usize);
        for (index, item) in request.items.iter().enumerate() {
            let is_new_to_model = index >= request.tail_start;
            match item {
                Item::Message { role, text } => {
                    let digest = Item::message_digest(*role, text);
                    let is_in_prefix = position < prefix;
                    position = position.saturating_add(1);
                    if is_in_prefix {
                        continue;
                    }
                    if let Some(left) = displaced.get_mut(&digest).filter(|left| **left > 0) {
                        *left -= 1;
                        kept_messages = kept_messages.saturating_add(1);
                        continue;
                    }
                    let earlier = self.count_occurrence(digest);
                    if with_user_messages || *role == Role::Assistant {
                        let message = message(*role, text_of(text).into_owned());
                        let payload = TrajectoryPayload::MessageAppended { message };
                        let fact_key = Some(message_key(digest, earlier));
                        events.push(ObservedEvent { payload, fact_key, is_new_to_model });
                    }
                }
                Item::ToolCall { id, tool, args } => {
                    tools.insert(id, tool);
                    call_count = call_count.saturating_add(1);
                    if self.has_call(id) {
                        kept_calls = kept_calls.saturating_add(1);
                        continue;
                    }
                    let args = args_of(*args);
                    self.calls.insert(id_digest(id), value_digest(&args));
                    let payload = TrajectoryPayload::ToolStarted {
                        tool_call_id: id.into(),
                        tool_name: tool.as_ref().into(),
                        args,
                    };
                    events.push(ObservedEvent { payload, fact_key: None, is_new_to_model });
                }
                Item::ToolResult { id, content, is_error, .. } => {
                    if self.results.contains_key(&id_digest(id)) {
                        continue;
                    }
                    self.results.insert(id_digest(id), raw_digest(*content));
                    let payload = TrajectoryPayload::ToolEnded {
                        tool_call_id: id.into(),
                        tool_name: tools.get(id.as_ref()).copied().unwrap_or_default().into(),
                        result: result_of(*content, *is_error),
                        is_error: is_error.unwrap_or(false),
                    };
                    events.push(ObservedEvent { payload, fact_key: None, is_new_to_model });
                }
            }
        }
        let before = self.messages.len().saturating_add(self.call_count);
        let kept = kept_messages.saturating_add(kept_calls.min(self.call_count));
        let is_compacted = before >= MIN_ITEMS_FOR_COMPACTION && kept.saturating_mul(2) < before;
        self.messages = messages;
        self.call_count = call_count;
        RequestDelta { is_compacted, events }
    }

    /// Adds the reply to the conversation, so that its messages and calls are not new when the
    /// client sends them back in the next request. Returns the reply's events.
    pub(crate) fn apply_reply(&mut self, reply: Reply) -> Vec<ObservedEvent> {
        let mut fact_key = None;
        // Clients drop a response that was cut off, so the next request will not contain it.
        if reply.is_complete() {
            for text in reply.texts() {
                let digest = Item::assistant_digest(text);
                let earlier = self.count_occurrence(digest);
                self.messages.push(digest);
                fact_key.get_or_insert_with(|| message_key(digest, earlier));
            }
        }
        let mut calls: Vec<_> = reply.tool_calls().cloned().collect();
        for call in &mut calls {
            let id = call.id.as_str();
            let taken = (2..).take_while(|count| self.has_call(&numbered_id(id, *count)));
            if self.has_call(id) {
                call.id = numbered_id(id, taken.last().unwrap_or(1).saturating_add(1)).into();
            }
        }
        if let (None, Some(call)) = (&fact_key, calls.first()) {
            fact_key = Some(format!("calls:{}", call.id));
        }
        let payload = TrajectoryPayload::MessageAppended { message: reply.into_message() };
        let mut events = vec![ObservedEvent { payload, fact_key, is_new_to_model: true }];
        for call in calls {
            let args_digest = value_digest(&call.arguments);
            self.calls.insert(id_digest(call.id.as_str()), args_digest);
            self.call_count = self.call_count.saturating_add(1);
            let payload = TrajectoryPayload::ToolStarted {
                tool_call_id: call.id,
                tool_name: call.name,
                args: call.arguments,
            };
            events.push(ObservedEvent { payload, fact_key: None, is_new_to_model: true });
        }
        events
    }

    /// Counts one more occurrence of a message and returns how many there were before.
    fn count_occurrence(&mut self, digest: u64) -> u32 {
        let count = self.occurrences.entry(digest).or_default();
        let before = *count;
        *count = before.saturating_add(1);
        before
    }
}

fn digests_by(request: &Request<'_>, author: Role) -> impl DoubleEndedIterator<Item = u64> {
    request.items.iter().filter_map(move |item| match item {
        Item::Message { role, text } if *role == author => Some(Item::message_digest(*role, text)),
        _ => None,
    })
}

fn message_digests(request: &Request<'_>) -> Vec<u64> {
    let digest = |item: &Item<'_>| match item {
        Item::Message { role, text } => Some(Item::message_digest(*role, text)),
        _ => None,
    };
    request.items.iter().filter_map(digest).collect()
}

/// The key by which the store drops duplicates of a message: its digest, and the number of equal
/// messages before it in the conversation.
fn message_key(digest: u64, earlier: u32) -> String {
    format!("message:{digest:016x}:{earlier}")
}

fn value_digest(value: &Value) -> u64 {
    xxh3_64(value.to_string().as_bytes())
}

fn raw_digest(raw: Option<&RawValue>) -> u64 {
    xxh3_64(raw.map_or(&[], |raw| raw.get().as_bytes()))
}

fn id_digest(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

fn message(role: Role, text: String) -> AgentMessage {
    let note = CLIENT_NOTES.iter().find(|(prefix, _)| text.trim_start().starts_with(prefix));
    match (role, note) {
        (Role::Assistant, _) => AgentMessage::assistant(text),
        (Role::System, _) => AgentMessage::System { content: text, timestamp: None },
        (Role::User, None) => AgentMessage::user(text),
        (Role::User, Some((_, kind))) => {
            AgentMessage::Custom { kind: (*kind).to_owned(), payload: text.into(), timestamp: None }
        }
    }
}
