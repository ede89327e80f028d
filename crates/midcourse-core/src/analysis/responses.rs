//! Counts the model's responses that have no tool call, repeat the same text, or only announce an
//! action. The counts start again when a tool call ends and when the user sends a message.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::text::{Excerpt, Talk, repeats_itself, similarity};

/// How many of the latest responses a new response is compared with.
const MAX_RECENT_RESPONSES: usize = 8;

/// If the beginnings of two responses are at least this similar, they count as the same text.
const MIN_SAME_TEXT_SIMILARITY: f64 = 0.9;

/// What is remembered about the model's responses. After a tool call or a user message, all counts
/// start again at 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Responses {
    /// Number of responses without a tool call.
    pub(super) without_call: u32,
    /// Number of responses with nearly the same text as the latest one, including the latest one.
    pub(super) same_text: u32,
    /// Number of consecutive responses that only announce an action.
    pub(super) announcements: u32,
    /// Number of consecutive responses since the latest tool call that only announce an action or
    /// say that the agent waits, and that ask nothing. User messages do not reset it.
    pub(super) announcements_since_call: u32,
    /// Number of consecutive responses without a tool call that only announce an action, say that
    /// the agent waits, ask, thank, or say that the work is done.
    pub(super) idle: u32,
    /// Whether a tool call was made since the latest response.
    follows_call: bool,
    /// Digests of the latest responses since the counts last started again, at most
    /// `MAX_RECENT_RESPONSES`.
    recent: VecDeque<Digest>,
    /// Whether the latest response repeats one piece of text over and over.
    #[serde(skip)]
    pub(super) repeats_itself: bool,
    /// Digest of the latest response of the run; `last_excerpt` is the beginning of that response.
    /// Both fields keep their values when a tool call or a user message resets the counts.
    last_digest: Option<Digest>,
    last_excerpt: Excerpt,
    /// Whether a model request has offered tools.
    pub(super) tools_offered: bool,
}

impl Responses {
    /// Starts counting again, after a tool call or a user message.
    pub(super) fn reset_counts(&mut self) {
        self.without_call = 0;
        self.same_text = 0;
        self.announcements = 0;
        self.idle = 0;
        self.recent.clear();
        self.repeats_itself = false;
    }

    /// Starts counting again, after a tool call.
    pub(super) fn end_of_call(&mut self) {
        self.reset_counts();
        self.announcements_since_call = 0;
        self.follows_call = true;
    }

    /// Counts a response of the model. `text` must not be empty.
    pub(super) fn add(&mut self, text: &str, has_calls: bool) {
        let (digest, excerpt) = (Digest::of(text.as_bytes()), Excerpt::of(text));
        let is_same = self.last_digest == Some(digest)
            || similarity(self.last_excerpt.as_str(), excerpt.as_str()) >= MIN_SAME_TEXT_SIMILARITY;
        let consecutive = if is_same { self.same_text.saturating_add(1) } else { 1 };
        let equal_before = self.recent.iter().filter(|known| **known == digest).count();
        self.same_text = consecutive.max(u32::try_from(equal_before).unwrap_or(0) + 1);
        self.repeats_itself = repeats_itself(text);
        self.last_digest = Some(digest);
        self.last_excerpt = excerpt;
        if self.recent.len() == MAX_RECENT_RESPONSES {
            self.recent.pop_front();
        }
        self.recent.push_back(digest);
        if has_calls {
            return;
        }
        self.without_call = self.without_call.saturating_add(1);
        let talk = Talk::of(text);
        // A response such as "The tests pass. Next I will …" after a call reports the result of the
        // call, so it does not count as an announcement.
        let is_report = std::mem::take(&mut self.follows_call) && !talk.begins_with_announcement;
        let announces = talk.announces && !is_report;
        let count = |count: u32, goes_on: bool| if goes_on { count.saturating_add(1) } else { 0 };
        self.announcements = count(self.announcements, announces);
        self.announcements_since_call =
            count(self.announcements_since_call, (announces || talk.waits) && !talk.asks);
        self.idle = count(self.idle, announces || talk.idles || talk.waits);
    }

    /// The beginning of the latest response; `None` if the model has not responded with text.
    pub(super) fn last(&self) -> Option<&str> {
        self.last_digest.map(|_| self.last_excerpt.as_str())
    }
}
