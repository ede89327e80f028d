//! Recognises the messages and tool results of earlier requests in a new request, even if the
//! client has rewritten its history.
//!
//! Some clients trim or drop old messages, drop or rewrite the model's text, or send tool results
//! as user text. Items are compared by digest: first by that of the exact bytes and, only if these
//! differ, by that of the text without white space. [`RequestDigests`] are computed once per
//! request. [`Fit`] says how well a request continues a conversation; a request belongs to the run
//! whose conversation fits best.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::HashSet;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::request::{Item, Request, Role, text_of};

/// How many of a request's latest items are also compared without white space.
const RECENT_ITEMS: usize = 16;

/// If a request does not begin with the task of a conversation, at least this many of its items
/// must be known from that conversation.
const MIN_MATCHES_WITHOUT_TASK: usize = 2;

/// A message or a tool result that a conversation contains. A tool result and a user message with
/// the same text are equal, because some clients send results as user messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownItem {
    pub(super) is_from_model: bool,
    /// Whether the item is a message; otherwise it is a tool result.
    pub(super) is_message: bool,
    /// Digest of the text as it was sent.
    pub(super) exact: u64,
    /// Digest of the text without white space.
    pub(super) loose: u64,
}

impl KnownItem {
    pub(super) fn of_reply(text: &str) -> Self {
        let (exact, loose) = (Item::assistant_digest(text), loose_digest(text, true));
        Self { is_from_model: true, is_message: true, exact, loose }
    }
}

/// The digests of a request's messages and tool results, in order.
#[derive(Debug)]
pub(crate) struct RequestDigests<'a> {
    pub(super) items: Vec<ItemDigest<'a>>,
    /// How many of the items are the model's last message or come before it. The model has not seen
    /// the other items yet.
    history_len: usize,
    system: u64,
    /// Digest of the ids of all tool calls.
    call_ids: u64,
    /// The exact digests of all items, and the loose digests of the latest ones.
    index: OnceCell<HashSet<u64>>,
    /// The model's last text in the request.
    last_text: Option<&'a RawValue>,
}

#[derive(Debug, Clone)]
pub(super) struct ItemDigest<'a> {
    text: Option<&'a RawValue>,
    pub(super) is_from_model: bool,
    pub(super) is_message: bool,
    pub(super) exact: u64,
    loose: OnceCell<u64>,
}

impl ItemDigest<'_> {
    pub(super) fn loose(&self) -> u64 {
        *self.loose.get_or_init(|| {
            let text = self.text.map(text_of).unwrap_or_default();
            loose_digest(&text, self.is_from_model)
        })
    }

    fn is_empty(&self) -> bool {
        self.text.is_none_or(|text| text.get() == "\"\"")
    }

    pub(super) fn is(&self, known: &KnownItem) -> bool {
        self.is_from_model == known.is_from_model
            && (self.exact == known.exact || self.loose() == known.loose)
    }

    /// Converts the item to a known item. If `known` has the same exact digest, its loose digest is
    /// reused instead of computed again.
    pub(super) fn to_known(&self, known: Option<&KnownItem>) -> KnownItem {
        let known = known.filter(|known| known.exact == self.exact);
        let loose = known.map_or_else(|| self.loose(), |known| known.loose);
        let Self { is_from_model, is_message, exact, .. } = *self;
        KnownItem { is_from_model, is_message, exact, loose }
    }
}

impl<'a> RequestDigests<'a> {
    pub(crate) fn of(request: &Request<'a>) -> Self {
        let (mut items, mut history_len) = (Vec::with_capacity(request.items.len()), 0);
        let (mut last_text, mut call_ids) = (None, Xxh3::new());
        for (index, item) in request.items.iter().enumerate() {
            let (text, is_from_model, exact) = match item {
                Item::Message { role, text } => {
                    let is_from_model = *role == Role::Assistant;
                    if is_from_model {
                        last_text = Some(*text);
                    }
                    (Some(*text), is_from_model, Item::message_digest(*role, text))
                }
                Item::ToolResult { content, .. } => (*content, false, raw_digest(*content)),
                Item::ToolCall { id, .. } => {
                    call_ids.update(id.as_bytes());
                    continue;
                }
            };
            let is_message = matches!(item, Item::Message { .. });
            let loose = OnceCell::new();
            items.push(ItemDigest { text, is_from_model, is_message, exact, loose });
            if index < request.tail_start {
                history_len = items.len();
            }
        }
        let mut system = Xxh3::new();
        request.system.iter().for_each(|text| system.update(text.get().as_bytes()));
        let (system, call_ids) = (system.digest(), call_ids.digest());
        Self { items, history_len, system, call_ids, index: OnceCell::new(), last_text }
    }

    /// Whether one of the latest `RECENT_ITEMS` items is a user message or a tool result with this
    /// text. White space may differ. False if the text is empty.
    pub(crate) fn contains_input(&self, text: &str) -> bool {
        let digest = loose_digest(text, false);
        let mut recent = self.items.iter().rev().take(RECENT_ITEMS);
        !text.trim().is_empty() && recent.any(|item| item.loose() == digest)
    }

    /// Whether the request contains `known`. White space may differ only in the latest
    /// `RECENT_ITEMS` items.
    fn contains(&self, known: &KnownItem) -> bool {
        let index = self.index.get_or_init(|| {
            let recent = self.items.iter().rev().take(RECENT_ITEMS).map(ItemDigest::loose);
            self.items.iter().map(|item| item.exact).chain(recent).collect()
        });
        index.contains(&known.exact) || index.contains(&known.loose)
    }
}

/// What is compared with a request: a conversation's latest request and the reply to it.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownHistory {
    /// The items of the latest request, then the texts of its reply.
    pub(super) items: Vec<KnownItem>,
    /// How many of the `items` belong to the request. The others belong to the reply.
    request_len: usize,
    /// How many of the `items` are the model's last message in the request or come before it.
    history_len: usize,
    /// The items of the conversation's first request that are not from the model. The first of them
    /// is the task.
    opening: Vec<KnownItem>,
    /// Digest of the latest system prompt.
    system: u64,
    /// Digest of the ids of the request's tool calls, as the client sent them.
    call_ids: u64,
    /// Texts by which the reply can be recognised in a rewritten message: its call ids, and how its
    /// text begins.
    pub(super) reply_marks: Vec<String>,
}

/// How well a request continues a conversation. A greater value is a better fit; the fields are
/// compared in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fit {
    /// Whether the request contains the conversation's latest reply or the last input before it.
    has_latest_turn: bool,
    /// Whether the last item of the request is new to the conversation.
    is_longer: bool,
    has_same_system: bool,
    matches: usize,
    /// How many known items that are not from the model are missing from the request.
    missing: Reverse<usize>,
}

impl KnownHistory {
    /// Makes this request the latest known one and forgets the reply to the request before it.
    pub(super) fn set_request(&mut self, request: &RequestDigests<'_>) {
        let known = request.items.iter().enumerate();
        self.items = known.map(|(at, item)| item.to_known(self.items.get(at))).collect();
        (self.request_len, self.history_len) = (self.items.len(), request.history_len);
        if self.opening.is_empty() {
            self.opening = self.items.iter().filter(|item| !item.is_from_model).copied().collect();
        }
        (self.system, self.call_ids) = (request.system, request.call_ids);
        self.reply_marks.clear();
    }

    pub(super) fn message_count(&self) -> usize {
        self.items.iter().filter(|item| item.is_message).count()
    }

    /// For each message of the request: whether it is known, or is probably a known message of the
    /// model that the client rewrote. `is_continued` says that the request goes on after the latest
    /// reply, `has_reply_calls` that it contains the tool calls of that reply.
    pub(super) fn known_messages(
        &self,
        request: &RequestDigests<'_>,
        is_continued: bool,
        has_reply_calls: bool,
    ) -> Vec<bool> {
        let messages = |item: &&KnownItem| item.is_message;
        let known: Vec<&KnownItem> = self.items.iter().filter(messages).collect();
        let tail_start = self.items.iter().take(self.history_len).filter(messages).count();
        let tail_end = self.items.iter().take(self.request_len).filter(messages).count();
        let sent: Vec<(usize, &ItemDigest<'_>)> =
            request.items.iter().enumerate().filter(|(_, item)| item.is_message).collect();
        let is_new = |index: usize| is_continued && index >= request.history_len;
        let prefix = known.iter().zip(&sent);
        let prefix =
            prefix.take_while(|(known, (at, item))| !is_new(*at) && item.is(known)).count();
        let mut is_known = vec![true; prefix];
        let (mut is_used, mut position) = (vec![false; known.len()], prefix);
        is_used.iter_mut().take(prefix).for_each(|is_used| *is_used = true);
        for (index, item) in sent.iter().skip(prefix) {
            // A client may send the same message at the end of every request. Such a message was at
            // the end of the latest request and is now at the end of this one. Any other message
            // after a reply is new.
            let (from, to) = if is_new(*index) { (tail_start, tail_end) } else { (0, known.len()) };
            let is_same = |at: &usize| {
                is_used.get(*at) == Some(&false) && known.get(*at).is_some_and(|it| item.is(it))
            };
            let found = (position.max(from)..to).find(is_same);
            let found = found.or_else(|| (from..to).find(is_same));
            if let Some(at) = found {
                position = position.max(at.saturating_add(1));
                is_used.get_mut(at).into_iter().for_each(|is_used| *is_used = true);
            }
            is_known.push(found.is_some());
        }
        // Every known message of the model that was not found may be in the request in rewritten
        // form. So may a reply that has only tool calls, if the request lacks these calls.
        let has_text = self.items.len() > self.request_len;
        let unused = known.iter().zip(&is_used).filter(|(it, used)| it.is_from_model && !**used);
        let is_reply_lost = is_continued && !has_text && !has_reply_calls;
        let mut rewritten = unused.count().saturating_add(usize::from(is_reply_lost));
        for ((_, item), is_known) in sent.iter().zip(&mut is_known) {
            if !item.is_from_model || *is_known {
                continue;
            }
            // A client may send an empty text of the model beside the model's tool calls.
            *is_known = item.is_empty() || rewritten > 0;
            rewritten = rewritten.saturating_sub(usize::from(!item.is_empty()));
        }
        is_known
    }

    /// Whether the request goes on after the latest reply, so that everything after the model's last
    /// message is new. Otherwise the client dropped the reply and repeats an earlier request.
    pub(super) fn is_continued_by(&self, request: &RequestDigests<'_>) -> bool {
        let mut history = request.items.iter().take(request.history_len);
        let Some(last) = history.clone().rfind(|item| item.is_from_model) else { return false };
        if self.is_resent_by(request) {
            return false;
        }
        let (known, reply) = self.items.split_at(self.request_len.min(self.items.len()));
        let count = history.by_ref().filter(|item| item.is_from_model).count();
        count > known.iter().filter(|item| item.is_from_model).count()
            || reply.iter().any(|text| last.is(text))
            || !known.iter().any(|item| last.is(item))
            || self.has_reply(request)
    }

    /// Whether the request contains exactly the items and call ids of the latest one.
    pub(super) fn is_resent_by(&self, request: &RequestDigests<'_>) -> bool {
        let known = self.items.iter().take(self.request_len).map(|known| known.exact);
        self.call_ids == request.call_ids
            && self.request_len == request.items.len()
            && known.eq(request.items.iter().map(|item| item.exact))
    }

    /// How well this request continues the conversation; `None` if it does not, or if it only
    /// begins with the same task: then it is the beginning of another conversation.
    pub(super) fn fit(&self, request: &RequestDigests<'_>) -> Option<Fit> {
        let has_opening = self.has_opening(request);
        if has_opening && request.items.len() <= self.opening.len() {
            return None;
        }
        let has_reply = self.has_reply(request);
        let last_input =
            self.items.iter().take(self.request_len).rev().find(|item| !item.is_from_model);
        // If the last input is part of the opening, another conversation with the same task may
        // contain it too. So it counts only if the request has the whole opening.
        let has_last_input = last_input.is_some_and(|input| {
            (has_opening || !self.opening.iter().any(|item| item.loose == input.loose))
                && request.contains(input)
        });
        let has_latest_turn = has_reply || has_last_input;
        if !has_opening && !has_latest_turn {
            return None;
        }
        let (mut position, mut matches, mut matched_inputs) = (0_usize, 0_usize, 0_usize);
        let mut is_longer = false;
        for item in &request.items {
            let rest = self.items.get(position..).unwrap_or_default();
            let found = rest.iter().position(|known| item.is(known));
            is_longer = found.is_none();
            if let Some(skipped) = found {
                position = position.saturating_add(skipped).saturating_add(1);
                matches = matches.saturating_add(1);
                matched_inputs = matched_inputs.saturating_add(usize::from(!item.is_from_model));
            }
        }
        let is_enough =
            matches >= MIN_MATCHES_WITHOUT_TASK && matches.saturating_mul(2) >= request.history_len;
        let inputs = self.items.iter().filter(|item| !item.is_from_model).count();
        (has_opening || is_enough).then_some(Fit {
            has_latest_turn,
            is_longer,
            has_same_system: self.system == request.system,
            matches: matches.saturating_add(usize::from(has_reply)),
            missing: Reverse(inputs.saturating_sub(matched_inputs)),
        })
    }

    /// Whether the request begins with the task and contains everything else that the client sent
    /// with its first request, in order.
    fn has_opening(&self, request: &RequestDigests<'_>) -> bool {
        let mut inputs = request.items.iter().filter(|item| !item.is_from_model);
        let mut opening = self.opening.iter();
        let (Some(task), Some(first)) = (opening.next(), inputs.next()) else { return false };
        first.is(task) && opening.all(|known| inputs.any(|item| item.is(known)))
    }

    /// Whether the request contains the latest reply, or a message made from it.
    fn has_reply(&self, request: &RequestDigests<'_>) -> bool {
        let mut texts = self.items.iter().skip(self.request_len);
        if texts.any(|text| request.contains(text)) {
            return true;
        }
        if self.reply_marks.is_empty() {
            return false;
        }
        let text = request.last_text.map(text_of).unwrap_or_default();
        self.reply_marks.iter().any(|mark| text.contains(mark.as_str()))
    }
}

/// The digest of a text without its white space.
fn loose_digest(text: &str, is_from_model: bool) -> u64 {
    let mut digest = Xxh3::with_seed(u64::from(is_from_model));
    text.split_whitespace().for_each(|word| digest.update(word.as_bytes()));
    digest.digest()
}

pub(super) fn raw_digest(raw: Option<&RawValue>) -> u64 {
    xxh3_64(raw.map_or(&[], |raw| raw.get().as_bytes()))
}
