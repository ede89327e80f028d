//! Delivered feedback, shared between the recorder and the network side.
//!
//! Feedback about a tool result must be in every later request. A request that cannot wait for the
//! recorder takes it from this cache instead. The recorder's thread writes it, the network side
//! reads it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::apis::{Api, Conversation, Insertion, Item, is_unique_call_id};
use midcourse::{CallId, RunId};

#[derive(Clone, Default)]
pub(super) struct FeedbackCache(Arc<Mutex<Entries>>);

/// The text after each call's result, and the run that the call belongs to.
type Entries = HashMap<CallKey, (RunId, String)>;

/// Identifies a call across runs. Short call ids occur in several conversations, so the
/// conversation's first user message is part of their key.
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
    /// Sets the text that follows the result of a call from now on.
    pub(super) fn insert(
        &self,
        run: &RunId,
        first_user_key: Option<&String>,
        call: &str,
        text: String,
    ) {
        self.entries().insert(CallKey::new(call, first_user_key), (run.clone(), text));
    }

    /// Drops the entries of runs for which `is_kept` is false.
    pub(super) fn retain(&self, is_kept: impl Fn(&RunId) -> bool) {
        self.entries().retain(|_, (run, _)| is_kept(run));
    }

    /// The insertions that repeat delivered feedback in a request.
    pub(super) fn insertions(&self, api: Api, body: &[u8]) -> Vec<Insertion> {
        // Parsing the body is the expensive part.
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
