//! What was said about results, where the network side finds it: a request that cannot wait for the
//! recorder holds it all the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use midcourse::{Api, Insertion, Item};
use midcourse_core::{CallId, RunId};

/// Words by the call that they are about, and the run that it is of.
#[derive(Clone, Default)]
pub(super) struct Spoken(Arc<Mutex<HashMap<CallId, (RunId, String)>>>);

impl Spoken {
    /// These words stand behind the result of a call from now on.
    pub(super) fn note(&self, run: &RunId, call: CallId, words: String) {
        self.words().insert(call, (run.clone(), words));
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
        let request = std::str::from_utf8(body).ok().and_then(|body| api.request(body));
        let words = self.words();
        let insertion = |item: &Item<'_>| {
            let Item::Returns { id, place, .. } = item else { return None };
            let (_, words) = words.get(&CallId::from(id))?;
            Some((*place)?.insertion(words))
        };
        request.iter().flat_map(|request| &request.items).filter_map(insertion).collect()
    }

    fn words(&self) -> MutexGuard<'_, HashMap<CallId, (RunId, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
