//! A conversation across model requests: finds what is new in each request.
//!
//! Clients send their whole history with every request. Tool calls and results are recognised by
//! their ids, or as described in `known_calls`. Messages have no ids: a message is new if it comes
//! after the messages already known. A client may cut, summarise or edit its history; a known
//! message that reappears is not new, nor is a message that the client sends in place of a reply.
//! Every new message gets a fact key: the store drops a second event with the same key. The key
//! depends only on the conversation, so another process that reads the same request computes the
//! same keys.

use std::collections::HashMap;

use midcourse::{AgentMessage, TrajectoryPayload};
use serde_json::value::RawValue;

use super::alignment::{Fit, KnownHistory, KnownItem, RequestDigests, raw_digest};
use super::known_calls::KnownCalls;
use super::reply::Reply;
use super::request::{
    Item, Request, Role, args_of, client_note_kind, is_client_note, result_of, text_of,
};

/// If a request lacks more than half of the known messages and tool calls, the client has probably
/// compacted (summarised) its history. If fewer messages and calls than this are known, the history
/// is too short for that conclusion.
const MIN_ITEMS_FOR_COMPACTION: usize = 4;

/// Length in bytes of the beginning of a reply's text by which the reply is recognised in a message
/// that the client made from it. Shorter texts and shorter call ids are not used.
const MARK_BYTES: std::ops::RangeInclusive<usize> = 8..=64;

/// The messages, tool calls and results that earlier requests and replies of one conversation
/// contained. The next request is compared with them to find what is new in it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Conversation {
    history: KnownHistory,
    calls: KnownCalls,
    /// Whether a complete reply followed the latest request.
    has_reply: bool,
    /// Message digest → how often the message has occurred so far.
    occurrences: HashMap<u64, u32>,
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
    /// How well the request continues this conversation; `None` if it does not.
    pub(crate) fn fit(&self, request: &RequestDigests<'_>) -> Option<Fit> {
        self.history.fit(request)
    }

    /// Whether the request begins with the same message as this conversation.
    pub(crate) fn has_same_start(&self, request: &RequestDigests<'_>) -> bool {
        let (known, first) = (self.history.items.first(), request.items.first());
        known.zip(first).is_some_and(|(known, first)| first.is(known))
    }

    /// Whether the model writes its actions as text.
    pub(crate) const fn has_text_actions(&self) -> bool {
        self.calls.has_text_actions()
    }

    pub(crate) fn has_call(&self, call_id: &str) -> bool {
        self.calls.contains(call_id)
    }

    /// How many of the request's tool calls and results are already known with the same content.
    /// `None` if a result differs from the known result of the same call id: then the request is
    /// from another conversation that uses the same ids.
    pub(crate) fn count_matches(&self, request: &Request<'_>) -> Option<usize> {
        let mut matches = 0_usize;
        for item in &request.items {
            let is_known = match item {
                Item::Message { .. } => continue,
                Item::ToolCall { id, args, .. } => self.calls.has_args(id, &args_of(*args)),
                Item::ToolResult { id, content, .. } => match self.calls.result(id) {
                    Some(known) if known != raw_digest(*content) => return None,
                    known => known.is_some(),
                },
            };
            matches = matches.saturating_add(usize::from(is_known));
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

    /// Adds a request to the conversation and returns what is new in the request. Undoes in
    /// `request` what the client rewrote: tool calls get their first ids again, and user messages
    /// that are tool results become tool results. The caller sets `with_user_messages` to false if
    /// hooks already report the user and system messages; the result then contains no events for
    /// such messages.
    pub(crate) fn apply_request(
        &mut self,
        request: &mut Request<'_>,
        with_user_messages: bool,
    ) -> RequestDelta {
        let digests = RequestDigests::of(request);
        let is_resent = self.history.is_resent_by(&digests);
        self.calls.restore_ids(request, is_resent);
        let has_reply_calls = self.calls.has_reply_in(request);
        let is_partial = request.is_partial();
        let is_continued = is_partial
            || self.has_reply && (has_reply_calls || self.history.is_continued_by(&digests));
        let mut text_results = self.calls.find_text_results(request, is_continued);
        let text_actions = self.calls.find_text_actions(request, is_continued, &mut text_results);
        let known_messages = if is_partial {
            // Everything in such a request is new.
            Vec::new()
        } else {
            self.history.known_messages(&digests, is_continued, has_reply_calls)
        };
        let mut kept = known_messages.iter().filter(|is_known| **is_known).count();
        let mut is_known = known_messages.into_iter();
        let mut delta = RequestDelta::default();
        let (mut call_count, mut kept_calls) = (0_usize, 0_usize);
        let mut last_input = None;
        for (index, item) in request.items.iter().enumerate() {
            let is_new_to_model = index >= request.tail_start;
            let mut push = |payload, fact_key| {
                delta.events.push(ObservedEvent { payload, fact_key, is_new_to_model });
            };
            match item {
                Item::Message { role, text } => {
                    let is_known = is_known.next().unwrap_or_default();
                    if let Some(calls) = text_results.get(&index) {
                        for call in calls {
                            let args = text_actions.get(&index).cloned();
                            let started = args.and_then(|args| self.calls.start(*call, args));
                            started.into_iter().for_each(|it| push(it, None));
                            self.calls.end(*call, text).into_iter().for_each(|it| push(it, None));
                        }
                    } else if !is_known {
                        let event = self.message_event(*role, text, with_user_messages);
                        event.into_iter().for_each(|(payload, key)| push(payload, key));
                    } else if is_new_to_model && *role == Role::User && !is_client_note(text) {
                        last_input = Some(*text);
                    }
                }
                Item::ToolCall { id, tool, args } => {
                    call_count = call_count.saturating_add(1);
                    if self.has_call(id) {
                        kept_calls = kept_calls.saturating_add(1);
                        continue;
                    }
                    let args = args_of(*args);
                    self.calls.add(id, tool, &args);
                    let (tool_call_id, tool_name) = (id.into(), tool.as_ref().into());
                    push(TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args }, None);
                }
                Item::ToolResult { id, content, is_error, .. } => {
                    if self.calls.result(id).is_some() {
                        continue;
                    }
                    self.calls.set_result(id, raw_digest(*content));
                    let payload = TrajectoryPayload::ToolEnded {
                        tool_call_id: id.into(),
                        tool_name: self.calls.tool(id).unwrap_or_default().into(),
                        result: result_of(*content, *is_error),
                        is_error: is_error.unwrap_or(false),
                    };
                    push(payload, None);
                }
            }
        }
        // A client that sends another request after a reply has added something to it. If nothing
        // new was found, the client has dropped old messages and its last message is equal to one
        // of them, so report this message as new.
        if let Some(text) = last_input.filter(|_| self.has_reply && !is_resent)
            && delta.events.is_empty()
            && let Some((payload, fact_key)) =
                self.message_event(Role::User, text, with_user_messages)
        {
            delta.events.push(ObservedEvent { payload, fact_key, is_new_to_model: true });
        }
        let before = self.history.message_count().saturating_add(self.call_count);
        kept = kept.saturating_add(kept_calls.min(self.call_count));
        delta.is_compacted =
            !is_partial && before >= MIN_ITEMS_FOR_COMPACTION && kept.saturating_mul(2) < before;
        self.calls.restore_results(request, &text_results);
        self.calls.close_reply();
        self.history.set_request(&digests);
        self.has_reply = false;
        self.call_count = call_count;
        delta
    }

    /// Adds the reply to the conversation, so that its messages and calls are not new when the
    /// client sends them back in the next request. Returns the reply's events.
    pub(crate) fn apply_reply(&mut self, reply: Reply) -> Vec<ObservedEvent> {
        let mut fact_key = None;
        let mut calls: Vec<_> = reply.tool_calls().cloned().collect();
        // Clients drop a response that was cut off, so the next request will not contain it.
        if reply.is_complete() {
            self.has_reply = true;
            self.history.reply_marks = marks(&reply);
            for text in reply.texts() {
                let item = KnownItem::of_reply(text);
                let earlier = self.count_occurrence(item.exact);
                self.history.items.push(item);
                fact_key.get_or_insert_with(|| message_key(item.exact, earlier));
            }
        }
        self.calls.add_reply(&mut calls);
        if let (None, Some(call)) = (&fact_key, calls.first()) {
            fact_key = Some(format!("calls:{}", call.id));
        }
        let payload = TrajectoryPayload::MessageAppended { message: reply.into_message() };
        let mut events = vec![ObservedEvent { payload, fact_key, is_new_to_model: true }];
        for call in calls {
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

    /// The event for a new message, and its fact key. `None` if hooks report the message.
    fn message_event(
        &mut self,
        role: Role,
        text: &RawValue,
        with_user_messages: bool,
    ) -> Option<(TrajectoryPayload, Option<String>)> {
        let digest = Item::message_digest(role, text);
        let earlier = self.count_occurrence(digest);
        (with_user_messages || role == Role::Assistant).then(|| {
            let message = message(role, text);
            let payload = TrajectoryPayload::MessageAppended { message };
            (payload, Some(message_key(digest, earlier)))
        })
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

/// The key by which the store drops duplicates of a message: its digest, and the number of equal
/// messages before it in the conversation.
fn message_key(digest: u64, earlier: u32) -> String {
    format!("message:{digest:016x}:{earlier}")
}

/// Texts by which a reply can be recognised in a message that the client made from it.
fn marks(reply: &Reply) -> Vec<String> {
    let calls = reply.tool_calls().map(|call| call.id.to_string());
    let begins = reply.texts().map(|text| {
        let text = text.trim();
        text.get(..text.floor_char_boundary(*MARK_BYTES.end())).unwrap_or(text).to_owned()
    });
    calls.chain(begins).filter(|mark| mark.len() >= *MARK_BYTES.start()).collect()
}

fn message(role: Role, raw: &RawValue) -> AgentMessage {
    let text = text_of(raw).into_owned();
    match role {
        Role::Assistant => AgentMessage::assistant(text),
        Role::System => AgentMessage::System { content: text, timestamp: None },
        Role::User => match client_note_kind(raw) {
            None => AgentMessage::user(text),
            Some(kind) => {
                let kind = kind.to_owned();
                AgentMessage::Custom { kind, payload: text.into(), timestamp: None }
            }
        },
    }
}
