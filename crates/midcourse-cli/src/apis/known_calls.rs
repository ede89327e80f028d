//! The tool calls of a conversation, and how they are recognised if a client changes them.
//!
//! A call is known by its id. Some clients send a call with another id in the next request; such a
//! call is recognised by its arguments and its result. Other clients write calls and results as
//! plain text; then a message in place of the model's reply has to name the id or the tool of a
//! call. An agent without tools has the model write its actions as text (see `text_actions`). In the
//! history, calls and results are matched from the newest to the oldest, because
//! clients drop the oldest items first.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use midcourse::{ToolCallBlock, TrajectoryPayload};
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::alignment::raw_digest;
use super::insertion::InsertionPoint;
use super::request::{
    Item, Request, Role, args_of, is_client_note, is_unique_call_id, numbered_id, result_of,
    text_of,
};
use super::text_actions;

#[derive(Debug, Default, Clone)]
pub(super) struct KnownCalls {
    /// All calls, oldest first.
    calls: Vec<KnownCall>,
    /// Digest of each call id → index in `calls`.
    by_id: HashMap<u64, usize>,
    /// How many of the `calls`, at the end, belong to the latest reply; 0 once a request followed
    /// it.
    reply_len: usize,
    /// Whether the client has given calls other ids.
    has_changed_ids: bool,
    /// Results that the client sent as user messages, oldest first: the digest of the message, and
    /// the indices in `calls` of the calls whose result it is.
    text_results: Vec<(u64, Vec<usize>)>,
    has_text_actions: bool,
}

#[derive(Debug, Clone)]
struct KnownCall {
    id: String,
    tool: String,
    /// Digest of the arguments; `None` if only the result was seen.
    args: Option<u64>,
    /// Digest of the result, if the call has one.
    result: Option<u64>,
}

/// For each user message that is the result of tool calls: its index in the request → the indices
/// of these calls in `KnownCalls::calls`.
pub(super) type TextResults = HashMap<usize, Vec<usize>>;

impl KnownCalls {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.get(id).is_some_and(|call| call.args.is_some())
    }

    pub(super) fn has_args(&self, id: &str, args: &Value) -> bool {
        self.get(id).is_some_and(|call| call.args == Some(value_digest(args)))
    }

    pub(super) fn result(&self, id: &str) -> Option<u64> {
        self.get(id)?.result
    }

    pub(super) fn tool(&self, id: &str) -> Option<&str> {
        self.get(id).map(|call| call.tool.as_str())
    }

    pub(super) fn add(&mut self, id: &str, tool: &str, args: &Value) {
        self.update(id, |call| {
            call.tool = tool.to_owned();
            call.args = Some(value_digest(args));
        });
    }

    pub(super) fn set_result(&mut self, id: &str, result: u64) {
        self.update(id, |call| call.result = Some(result));
    }

    /// Changes what is known about a call. Adds the call if it is new.
    fn update(&mut self, id: &str, change: impl FnOnce(&mut KnownCall)) {
        let next = self.calls.len();
        let index = *self.by_id.entry(id_digest(id)).or_insert(next);
        if index == next {
            let (id, tool) = (id.to_owned(), String::new());
            self.calls.push(KnownCall { id, tool, args: None, result: None });
        }
        if let Some(call) = self.calls.get_mut(index) {
            change(call);
        }
    }

    /// Adds a result that the client sent as a user message, and returns its event. `None` if the
    /// result is already known.
    pub(super) fn end(&mut self, call: usize, text: &RawValue) -> Option<TrajectoryPayload> {
        let call = self.calls.get_mut(call).filter(|call| call.result.is_none())?;
        call.result = Some(raw_digest(Some(text)));
        Some(TrajectoryPayload::ToolEnded {
            tool_call_id: call.id.as_str().into(),
            tool_name: call.tool.as_str().into(),
            result: result_of(Some(text), None),
            is_error: false,
        })
    }

    /// Adds the calls of a reply. Some servers use the same ids in every reply, or several times in
    /// one, so an id that is already known is changed as in `Request::with_unique_call_ids`.
    pub(super) fn add_reply(&mut self, calls: &mut [ToolCallBlock]) {
        for call in &mut *calls {
            let id = call.id.as_str();
            if self.contains(id) {
                let taken = (2..).take_while(|count| self.contains(&numbered_id(id, *count)));
                call.id = numbered_id(id, taken.last().unwrap_or(1).saturating_add(1)).into();
            }
            self.add(call.id.as_str(), call.name.as_str(), &call.arguments);
        }
        self.reply_len = calls.len();
    }

    /// Forgets which calls belong to the latest reply, because a request followed it.
    pub(super) const fn close_reply(&mut self) {
        self.reply_len = 0;
    }

    /// Gives calls whose ids the client has changed their first ids again. `is_resent` says that
    /// the client sent its latest request again; such a request contains no call of the reply to
    /// it.
    pub(super) fn restore_ids(&mut self, request: &mut Request<'_>, is_resent: bool) {
        let is_reply_missing = self.reply_len > 0 && !self.has_reply_in(request);
        if !is_reply_missing && !self.has_changed_ids {
            return;
        }
        let ids: HashSet<u64> = request.call_ids().map(id_digest).collect();
        let is_kept = |id: &str| {
            self.contains(id) && (is_resent || (is_unique_call_id(id) && !id.contains('#')))
        };
        let changed: Vec<_> = request
            .items
            .iter()
            .rev()
            .filter_map(|item| match item {
                Item::ToolCall { id, args, .. } if !is_kept(id) => {
                    Some((id.to_string(), value_digest(&args_of(*args))))
                }
                _ => None,
            })
            .collect();
        if changed.is_empty() {
            return;
        }
        let results: HashMap<&str, u64> = request.items.iter().filter_map(result_digest).collect();
        let newest = if is_resent { self.reply_len } else { 0 };
        let mut older = self.calls.iter().rev().skip(newest).filter(|call| {
            let is_in_request = ids.contains(&id_digest(&call.id));
            !(is_in_request && is_kept(&call.id))
        });
        let mut renamed: HashMap<String, String> = HashMap::new();
        for (id, args) in changed {
            let result = results.get(id.as_str());
            let is_same = |call: &&KnownCall| {
                call.args == Some(args)
                    && (call.result.is_none() || result.is_none() || call.result.as_ref() == result)
            };
            let mut rest = older.clone();
            if let Some(call) = rest.find(is_same) {
                older = rest;
                renamed.insert(id, call.id.clone());
            }
        }
        self.has_changed_ids |= !renamed.is_empty();
        for item in &mut request.items {
            if let Item::ToolCall { id, .. } | Item::ToolResult { id, .. } = item
                && let Some(known) = renamed.get(id.as_ref())
            {
                *id = Cow::Owned(known.clone());
            }
        }
    }

    /// Finds the user messages that are results of tool calls. `is_continued` says that everything
    /// after the model's last message is new.
    pub(super) fn find_text_results(
        &mut self,
        request: &Request<'_>,
        is_continued: bool,
    ) -> TextResults {
        let mut found = TextResults::new();
        if self.reply_len == 0 && self.text_results.is_empty() {
            return found;
        }
        // In the history, find the messages that earlier requests have shown to be results, newest
        // first.
        let history_len = match (self.text_results.is_empty(), is_continued) {
            (true, _) => 0,
            (false, true) => request.tail_start,
            (false, false) => request.items.len(),
        };
        let mut known = self.text_results.iter().rev();
        for (index, item) in request.items.iter().enumerate().take(history_len).rev() {
            let Some(text) = user_text(item) else { continue };
            let digest = raw_digest(Some(text));
            let mut rest = known.clone();
            if let Some((_, calls)) = rest.find(|(known, _)| *known == digest) {
                known = rest;
                found.insert(index, calls.clone());
            }
        }
        if is_continued && self.is_reply_rewritten_in(request) {
            let mut open = self.calls.len().saturating_sub(self.reply_len)..self.calls.len();
            let tail = request.items.iter().enumerate().skip(request.tail_start);
            let mut texts = tail.filter_map(|(at, item)| Some((at, user_text(item)?))).peekable();
            while let (Some((at, text)), Some(call)) = (texts.next(), open.next()) {
                let mut calls = vec![call];
                // If there are more calls than texts, the last text is the result of all calls that
                // are left.
                if texts.peek().is_none() {
                    calls.extend(open.by_ref());
                }
                self.text_results.push((raw_digest(Some(text)), calls.clone()));
                found.insert(at, calls);
            }
        }
        found
    }

    /// Finds the actions that the model wrote as text, with the messages that are their results, and
    /// adds them to `found`. Returns for each new action the index of its result in the request, and
    /// the arguments of the call. `is_continued` says that everything after the model's last message is new.
    pub(super) fn find_text_actions(
        &mut self,
        request: &Request<'_>,
        is_continued: bool,
        found: &mut TextResults,
    ) -> HashMap<usize, Value> {
        let mut new = HashMap::new();
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for acted in text_actions::find(request) {
            let count = counts.entry(acted.digest).or_default();
            *count = count.saturating_add(1);
            let id = |number: usize| format!("text-{:016x}#{number}", acted.digest);
            let is_new = is_continued && acted.result_at >= request.tail_start;
            // The same action may have had the same result before, in messages that the client has
            // dropped.
            let number = (*count..).find(|number| !is_new || !self.contains(&id(*number)));
            let id = id(number.unwrap_or(*count));
            *count = number.unwrap_or(*count);
            if !self.contains(&id) {
                let args = acted.action.args();
                self.add(&id, &acted.action.tool(), &args);
                new.insert(acted.result_at, args);
            }
            if let Some(call) = self.by_id.get(&id_digest(&id)) {
                found.insert(acted.result_at, vec![*call]);
            }
        }
        self.has_text_actions |= !counts.is_empty();
        new
    }

    /// Whether the model of this conversation writes its actions as text.
    pub(super) const fn has_text_actions(&self) -> bool {
        self.has_text_actions
    }

    /// The event for the start of a call that was found in a text.
    pub(super) fn start(&self, call: usize, args: Value) -> Option<TrajectoryPayload> {
        let call = self.calls.get(call)?;
        Some(TrajectoryPayload::ToolStarted {
            tool_call_id: call.id.as_str().into(),
            tool_name: call.tool.as_str().into(),
            args,
        })
    }

    /// Replaces each user message in `found` by tool results, one for each of its calls.
    pub(super) fn restore_results(&self, request: &mut Request<'_>, found: &TextResults) {
        if found.is_empty() {
            return;
        }
        let (body, tail_start) = (request.body, request.tail_start);
        let items = std::mem::take(&mut request.items);
        for (index, item) in items.into_iter().enumerate() {
            let (Item::Message { text, .. }, Some(calls)) = (&item, found.get(&index)) else {
                request.items.push(item);
                continue;
            };
            let text = *text;
            if index < tail_start {
                let added = calls.len().saturating_sub(1);
                request.tail_start = request.tail_start.saturating_add(added);
            }
            let insertion_point = InsertionPoint::at_end_of_content(body, text.get());
            for call in calls.iter().filter_map(|call| self.calls.get(*call)) {
                let id = Cow::Owned(call.id.clone());
                let (content, is_error) = (Some(text), None);
                request.items.push(Item::ToolResult { id, content, is_error, insertion_point });
            }
        }
    }

    /// Whether the request has the calls of the latest reply as text: it does not contain the calls,
    /// but a message that names one of them.
    fn is_reply_rewritten_in(&self, request: &Request<'_>) -> bool {
        let is_open = |id: &str| self.reply().any(|(_, call)| call.id == id);
        let has_call = |item: &Item<'_>| match item {
            Item::ToolCall { id, .. } | Item::ToolResult { id, .. } => is_open(id),
            Item::Message { .. } => false,
        };
        if self.reply_len == 0 || request.items.iter().any(has_call) {
            return false;
        }
        let (history, tail) = request.items.split_at(request.tail_start.min(request.items.len()));
        let last = history.iter().rev().find_map(|item| match item {
            Item::Message { role: Role::Assistant, text } => Some(text_of(text)),
            _ => None,
        });
        let last = last.unwrap_or_default();
        let is_named = |id: &str, text: &str| !id.is_empty() && text.contains(id);
        self.reply().any(|(_, call)| {
            let id = call.id.split('#').next().unwrap_or_default();
            is_named(id, &last)
                || is_named(&call.tool, &last)
                || tail.iter().filter_map(user_text).any(|text| is_named(id, text.get()))
        })
    }

    /// Whether the request contains a call of the latest reply.
    pub(super) fn has_reply_in(&self, request: &Request<'_>) -> bool {
        let has = |id: &str| self.reply().any(|(_, call)| call.id == id);
        request.call_ids().any(has)
    }

    /// The calls of the latest reply, if no request followed it yet.
    fn reply(&self) -> impl Iterator<Item = (usize, &KnownCall)> {
        let first = self.calls.len().saturating_sub(self.reply_len);
        self.calls.iter().enumerate().skip(first)
    }

    fn get(&self, id: &str) -> Option<&KnownCall> {
        self.calls.get(*self.by_id.get(&id_digest(id))?)
    }
}

fn result_digest<'r>(item: &'r Item<'_>) -> Option<(&'r str, u64)> {
    match item {
        Item::ToolResult { id, content, .. } => Some((id.as_ref(), raw_digest(*content))),
        _ => None,
    }
}

/// The text of a user message; `None` for a note that the client itself sends with the role `user`.
fn user_text<'a>(item: &Item<'a>) -> Option<&'a RawValue> {
    match item {
        Item::Message { role: Role::User, text } if !is_client_note(text) => Some(text),
        _ => None,
    }
}

fn value_digest(value: &Value) -> u64 {
    xxh3_64(value.to_string().as_bytes())
}

fn id_digest(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}
