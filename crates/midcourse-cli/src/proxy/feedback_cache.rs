//! A cache of delivered feedback, written by the recorder's thread and read by the network side.
//!
//! Feedback is a message to the agent about a tool result, and must be repeated in every later
//! request. If a request cannot wait for the recorder, the network side takes the feedback from
//! this cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::apis::{Api, Conversation, Insertion, Item, is_unique_call_id};
use midcourse::{CallId, RunId};

#[derive(Clone, Default)]
pub(super) struct FeedbackCache(Arc<Mutex<Entries>>);

/// For each call: its run, and the feedback to insert after the call's result.
type Entries = HashMap<CallKey, (RunId, String)>;

/// Identifies a tool call among the calls of all runs. A short call id may occur in several
/// conversations, so its key also contains the key of the conversation's first user message.
#[derive(PartialEq, Eq, Hash)]
struct CallKey {
    call: CallId,
    first_user_key: Option<String>,
}

impl CallKey {
    fn new(call: &str, first_user_key: Option<&String>) -> Self {
        let first_user_key = if is_unique_call_id(call) { None } else { first_user_key.cloned() };
        Self { call: call.into(), first_user_key }
    }
}

impl FeedbackCache {
    /// Sets the feedback that later requests get after the result of this call.
    pub(super) fn insert(
        &self,
        run: &RunId,
        first_user_key: Option<&String>,
        call: &str,
        text: String,
    ) {
        self.entries().insert(CallKey::new(call, first_user_key), (run.clone(), text));
    }

    /// Removes the feedback of runs for which `is_kept` returns false.
    pub(super) fn retain(&self, is_kept: impl Fn(&RunId) -> bool) {
        self.entries().retain(|_, (run, _)| is_kept(run));
    }

    /// The insertions that put all feedback from earlier requests into this request.
    pub(super) fn insertions(&self, api: Api, body: &[u8]) -> Vec<Insertion> {
        // Parsing the body is expensive, so skip it if there is no feedback.
        if self.entries().is_empty() {
            return Vec::new();
        }
        let request = std::str::from_utf8(body).ok().and_then(|body| api.parse_request(body));
        let first_user_key = request.as_ref().and_then(Conversation::first_user_key);
        let entries = self.entries();
        let insertion = |item: &Item<'_>| {
            let Item::ToolResult { id, insertion_point, .. } = item else { return None };
            let (_, text) = entries.get(&CallKey::new(id, first_user_key.as_ref()))?;
            Some((*insertion_point)?.insertion(text))
        };
        request.iter().flat_map(|request| &request.items).filter_map(insertion).collect()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
