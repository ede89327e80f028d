//! What was said about results, where the network side finds it: a request that cannot wait for the
//! recorder holds it all the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::apis::{Api, Conversation, Insertion, Item};
use midcourse::{CallId, RunId};

use super::talks::is_telling;

/// Words by the call that they are about, with the run that it is of.
#[derive(Clone, Default)]
pub(super) struct Spoken(Arc<Mutex<Words>>);

type Words = HashMap<About, (RunId, String)>;

/// A call. If its id does not say whose it is, how its conversation begins says so.
#[derive(PartialEq, Eq, Hash)]
struct About {
    call: CallId,
    begins: Option<String>,
}

impl About {
    fn new(call: &str, begins: Option<&String>) -> Self {
        let begins = if is_telling(call) { None } else { begins.cloned() };
        Self { call: call.into(), begins }
    }
}

impl Spoken {
    /// These words stand behind the result of a call from now on.
    pub(super) fn note(&self, run: &RunId, begins: Option<&String>, call: &str, words: String) {
        self.words().insert(About::new(call, begins), (run.clone(), words));
    }

    /// Forgets runs.
    pub(super) fn retain(&self, is_kept: impl Fn(&RunId) -> bool) {
        self.words().retain(|_, (run, _)| is_kept(run));
    }

    /// What goes into a request again.
    pub(super) fn again(&self, api: Api, body: &[u8]) -> Vec<Insertion> {
        if self.words().is_empty() {
            return Vec::new();
        }
        let request = std::str::from_utf8(body).ok().and_then(|body| api.parse_request(body));
        let begins = request.as_ref().and_then(Conversation::first_user_key);
        let words = self.words();
        let insertion = |item: &Item<'_>| {
            let Item::ToolResult { id, insertion_point: place, .. } = item else { return None };
            let (_, words) = words.get(&About::new(id, begins.as_ref()))?;
            Some((*place)?.insertion(words))
        };
        request.iter().flat_map(|request| &request.items).filter_map(insertion).collect()
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
