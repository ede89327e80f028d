//! A conversation as a client sends it, again and again, and what is new in it each time.
//!
//! Calls and results are known by their ids. What is said has none: it is new where the conversation
//! goes on behind what was there before. A client may cut its history, sum it up or change it; then
//! what is said again word by word is taken for what it was. Facts get keys that another process,
//! which has seen nothing yet, finds again.

use std::collections::HashMap;

use midcourse::{AgentMessage, TrajectoryPayload};
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::answer::Answer;
use super::request::{Item, Request, Role, args_of, nth, result_of, text_of};

/// Things that a conversation has before the loss of half of them is a summing up.
const SUMMED_UP_MIN: usize = 4;

/// How notes begin that clients put among a person's words.
const NOTES: [(&str, &str); 1] = [("<system-reminder>", "system_reminder")];

/// What is known of a conversation.
#[derive(Debug, Default, Clone)]
pub struct Conversation {
    /// What was said, in order, as of the latest request and the answer to it.
    texts: Vec<u64>,
    /// How often each thing was said in all.
    said: HashMap<u64, u32>,
    /// Calls by their ids, with what they asked, and results with what they returned.
    calls: HashMap<u64, u64>,
    results: HashMap<u64, u64>,
    /// Calls in the latest request.
    calls_held: usize,
}

/// What is new in a request.
#[derive(Debug, Default)]
pub struct News {
    /// Whether most of what was there before is gone.
    pub is_summed_up: bool,
    /// The facts, in order.
    pub facts: Vec<Fact>,
}

/// A fact of a conversation.
#[derive(Debug)]
pub struct Fact {
    /// What happened.
    pub payload: TrajectoryPayload,
    /// What tells it from others of its kind, where that does not follow from it.
    pub key: Option<String>,
    /// Whether the model has not seen it yet.
    pub is_current: bool,
}

impl Conversation {
    /// How much of what is known the request begins with: all that was said, and something more or
    /// nothing more.
    pub fn continues(&self, request: &Request<'_>) -> Option<usize> {
        let texts = digests(request);
        let begins = !self.texts.is_empty() && texts.starts_with(&self.texts);
        begins.then(|| texts.len().saturating_sub(self.texts.len()))
    }

    /// Whether a request begins as this did.
    pub fn begins_like(&self, request: &Request<'_>) -> bool {
        digests(request).first() == self.texts.first()
    }

    /// Whether it has this call.
    pub fn holds(&self, call: &str) -> bool {
        self.calls.contains_key(&id_digest(call))
    }

    /// How much of a request's calls and results is as it is known here; nothing, if a result is
    /// another. Ids may be the same in several conversations.
    pub fn agrees(&self, request: &Request<'_>) -> Option<usize> {
        let mut same = 0_usize;
        for item in &request.items {
            let (known, met) = match item {
                Item::Says { .. } => continue,
                Item::Calls { id, args, .. } => {
                    (self.calls.get(&id_digest(id)), value_digest(&args_of(*args)))
                }
                Item::Returns { id, content, .. } => {
                    let known = self.results.get(&id_digest(id));
                    let met = raw_digest(*content);
                    if known.is_some_and(|known| *known != met) {
                        return None;
                    }
                    (known, met)
                }
            };
            same = same.saturating_add(usize::from(known == Some(&met)));
        }
        Some(same)
    }

    /// The key of the first thing that a person says in a request.
    pub fn first_words(request: &Request<'_>) -> Option<String> {
        said_by(request, Role::User).next().map(|digest| key(digest, 0))
    }

    /// The key of the model's last words in a request.
    pub fn last_answer(request: &Request<'_>) -> Option<String> {
        said_by(request, Role::Assistant).next_back().map(|digest| key(digest, 0))
    }

    /// Takes a request in, and says what is new. What people and clients say is left out if somebody
    /// else reports it.
    pub fn take(&mut self, request: &Request<'_>, with_words: bool) -> News {
        let texts = digests(request);
        let same = self.texts.iter().zip(&texts).take_while(|(known, said)| known == said).count();
        let mut again: HashMap<u64, u32> = HashMap::new();
        for digest in self.texts.iter().skip(same) {
            *again.entry(*digest).or_default() += 1;
        }
        let (mut facts, mut place, mut kept) = (Vec::new(), 0, same);
        let mut tools: HashMap<&str, &str> = HashMap::new();
        let mut calls_held = 0_usize;
        let mut calls_kept = 0_usize;
        for (number, item) in request.items.iter().enumerate() {
            let is_current = number >= request.current;
            match item {
                Item::Says { role, text } => {
                    let digest = Item::digest(*role, text);
                    let is_behind = place >= same;
                    place = place.saturating_add(1);
                    if !is_behind {
                        continue;
                    }
                    if let Some(left) = again.get_mut(&digest).filter(|left| **left > 0) {
                        *left -= 1;
                        kept = kept.saturating_add(1);
                        continue;
                    }
                    let nth = self.count(digest);
                    if with_words || *role == Role::Assistant {
                        let message = said(*role, text_of(text).into_owned());
                        let payload = TrajectoryPayload::MessageAppended { message };
                        facts.push(Fact { payload, key: Some(key(digest, nth)), is_current });
                    }
                }
                Item::Calls { id, tool, args } => {
                    tools.insert(id, tool);
                    calls_held = calls_held.saturating_add(1);
                    if self.holds(id) {
                        calls_kept = calls_kept.saturating_add(1);
                        continue;
                    }
                    let args = args_of(*args);
                    self.calls.insert(id_digest(id), value_digest(&args));
                    let payload = TrajectoryPayload::ToolStarted {
                        tool_call_id: id.into(),
                        tool_name: tool.as_ref().into(),
                        args,
                    };
                    facts.push(Fact { payload, key: None, is_current });
                }
                Item::Returns { id, content, is_error, .. } => {
                    if self.results.contains_key(&id_digest(id)) {
                        continue;
                    }
                    self.results.insert(id_digest(id), raw_digest(*content));
                    let payload = TrajectoryPayload::ToolEnded {
                        tool_call_id: id.into(),
                        tool_name: tools.get(id.as_ref()).copied().unwrap_or_default().into(),
                        result: result_of(*content, *is_error),
                        is_error: *is_error,
                    };
                    facts.push(Fact { payload, key: None, is_current });
                }
            }
        }
        let before = self.texts.len().saturating_add(self.calls_held);
        let left = kept.saturating_add(calls_kept.min(self.calls_held));
        let is_summed_up = before >= SUMMED_UP_MIN && left.saturating_mul(2) < before;
        self.texts = texts;
        self.calls_held = calls_held;
        News { is_summed_up, facts }
    }

    /// Takes the answer in: what the next request will hold.
    pub fn hear(&mut self, answer: Answer) -> Vec<Fact> {
        let mut key_of_message = None;
        // What did not come to its end, the client does not keep.
        if answer.is_whole() {
            for text in answer.texts() {
                let digest = Item::digest_of_answer(text);
                let nth = self.count(digest);
                self.texts.push(digest);
                key_of_message.get_or_insert_with(|| key(digest, nth));
            }
        }
        let mut calls: Vec<_> = answer.calls().cloned().collect();
        for call in &mut calls {
            let id = call.id.as_str();
            let times = (2..).take_while(|times| self.holds(&nth(id, *times)));
            if self.holds(id) {
                call.id = nth(id, times.last().unwrap_or(1).saturating_add(1)).into();
            }
        }
        if let (None, Some(call)) = (&key_of_message, calls.first()) {
            key_of_message = Some(format!("calls:{}", call.id));
        }
        let payload = TrajectoryPayload::MessageAppended { message: answer.into_message() };
        let mut facts = vec![Fact { payload, key: key_of_message, is_current: true }];
        for call in calls {
            let asked = value_digest(&call.arguments);
            self.calls.insert(id_digest(call.id.as_str()), asked);
            self.calls_held = self.calls_held.saturating_add(1);
            let payload = TrajectoryPayload::ToolStarted {
                tool_call_id: call.id,
                tool_name: call.name,
                args: call.arguments,
            };
            facts.push(Fact { payload, key: None, is_current: true });
        }
        facts
    }

    /// How often it was said before.
    fn count(&mut self, digest: u64) -> u32 {
        let count = self.said.entry(digest).or_default();
        let before = *count;
        *count = before.saturating_add(1);
        before
    }
}

fn said_by(request: &Request<'_>, wanted: Role) -> impl DoubleEndedIterator<Item = u64> {
    request.items.iter().filter_map(move |item| match item {
        Item::Says { role, text } if *role == wanted => Some(Item::digest(*role, text)),
        _ => None,
    })
}

fn digests(request: &Request<'_>) -> Vec<u64> {
    let digest = |item: &Item<'_>| match item {
        Item::Says { role, text } => Some(Item::digest(*role, text)),
        _ => None,
    };
    request.items.iter().filter_map(digest).collect()
}

fn key(digest: u64, nth: u32) -> String {
    format!("said:{digest:016x}:{nth}")
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

fn said(role: Role, text: String) -> AgentMessage {
    let note = NOTES.iter().find(|(begins, _)| text.trim_start().starts_with(begins));
    match (role, note) {
        (Role::Assistant, _) => AgentMessage::assistant(text),
        (Role::System, _) => AgentMessage::System { content: text, timestamp: None },
        (Role::User, None) => AgentMessage::user(text),
        (Role::User, Some((_, kind))) => {
            AgentMessage::Custom { kind: (*kind).to_owned(), payload: text.into(), timestamp: None }
        }
    }
}
