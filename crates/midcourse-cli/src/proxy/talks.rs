//! Which run a request belongs to.
//!
//! Claude Code says so. Others are known by what they send: by the calls in their history, which
//! nobody else has; else by a conversation that goes on. Who begins with the task that another has
//! just given away works for that one. What is not known here is looked for in the store.

use std::collections::HashMap;
use std::time::Duration;

use crate::apis::{Api, Conversation, Request};
use crate::hosts::{Host, session_run};
use midcourse::{RunId, RunIdentity, Store, StoreError, Timestamp};
use uuid::Uuid;

use super::spoken::Spoken;
use super::talk::{Standing, Talk};

/// Runs that are kept in mind; of more, the latest.
const TALKS_MAX: usize = 512;

/// Calls that are kept in mind.
const CALLS_MAX: usize = 65_536;

/// The longest id of a session, in characters.
const ID_MAX: usize = 128;

/// The shortest id of a call that nobody else has, in characters.
const TELLING_MIN: usize = 12;

/// How old a run may be that somebody goes on with.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The runs that are under way.
pub(super) struct Talks {
    talks: HashMap<RunId, Talk>,
    calls: HashMap<String, RunId>,
    clock: u64,
    spoken: Spoken,
}

/// Who asks, as far as the client says so.
pub(super) struct Asker<'a> {
    pub(super) api: Api,
    pub(super) session: Option<&'a str>,
    pub(super) agent: Option<&'a str>,
}

impl Talks {
    pub(super) fn new(spoken: Spoken) -> Self {
        Self { talks: HashMap::new(), calls: HashMap::new(), clock: 0, spoken }
    }

    pub(super) fn get(&mut self, run: &RunId) -> Option<&mut Talk> {
        self.talks.get_mut(run)
    }

    /// The run that a request belongs to; nothing, if only the store could tell and cannot be read.
    pub(super) fn find(
        &mut self,
        asker: &Asker<'_>,
        request: &Request<'_>,
        digest: u64,
        store: Option<&Store>,
        now: Timestamp,
    ) -> Option<RunId> {
        let session = asker.session.or(request.session.as_deref()).filter(|id| is_plain(id));
        let agent = asker.agent.filter(|id| is_plain(id));
        let run = match session {
            Some(session) => session_run(session, agent),
            None => {
                let known = self.by_calls(request).or_else(|| self.by_words(request, digest));
                let has_history = request.tail_start > 0;
                match (known, store) {
                    (Some(run), _) => run,
                    (None, None) if has_history => return None,
                    (None, None) => self.begun(request),
                    (None, Some(store)) => match stored(store, request, now) {
                        Ok(Some(run)) => run,
                        Ok(None) => self.begun(request),
                        Err(_) => return None,
                    },
                }
            }
        };
        let id = run.run_id.clone();
        if !self.talks.contains_key(&id) {
            let mut talk = Talk::new(run, asker.api, self.spoken.clone());
            let known = store.map(|store| store.run(id.as_str()).map(|run| (store, run)));
            match known {
                Some(Ok((_, None))) => {}
                Some(Ok((store, Some(run)))) => talk.resume(store, &run).ok()?,
                // It may have begun long ago, and what was said then is not known.
                Some(Err(_)) => return None,
                None if request.tail_start > 0 => return None,
                None => {}
            }
            // A helper's hooks may come behind its first request.
            let parent = talk.run.parent_run_id.clone().filter(|_| session.is_some());
            let above = parent.and_then(|parent| store?.run(parent.as_str()).ok().flatten());
            if above.is_some_and(|above| Host::named(&above.host).is_some()) {
                talk.hooked();
            }
            self.make_room();
            self.talks.insert(id.clone(), talk);
        }
        self.clock = self.clock.saturating_add(1);
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.used = self.clock;
        }
        self.learn(request.call_ids(), &id);
        Some(id)
    }

    /// These calls are of this run.
    pub(super) fn learn<'a>(&mut self, calls: impl Iterator<Item = &'a str>, run: &RunId) {
        for call in calls {
            if self.calls.get(call).is_some_and(|known| known == run) {
                // Those before it are known as well.
                break;
            }
            self.calls.insert(call.to_owned(), run.clone());
        }
        if self.calls.len() > CALLS_MAX {
            self.forget_a_quarter();
        }
    }

    fn by_calls(&self, request: &Request<'_>) -> Option<RunIdentity> {
        let last = request.call_ids().next()?;
        let talk = if is_telling(last) {
            let run = request.call_ids().find_map(|call| self.calls.get(call))?;
            self.talks.get(run)
        } else {
            let has_it = |talk: &&Talk| talk.conversation.has_call(last);
            let agreeing = self.talks.values().filter(has_it).filter_map(|talk| {
                let same = talk.conversation.count_matches(request)?;
                Some((talk, (talk.conversation.has_same_start(request), same, talk.used)))
            });
            agreeing.max_by_key(|(_, likeness)| *likeness).map(|(talk, _)| talk)
        };
        talk.map(|talk| talk.run.clone())
    }

    /// A conversation that goes on, or a request that is sent again because it failed.
    fn by_words(&self, request: &Request<'_>, digest: u64) -> Option<RunIdentity> {
        let mut found: Option<(&Talk, usize)> = None;
        for talk in self.talks.values() {
            let Some(more) = talk.conversation.messages_added_by(request) else { continue };
            let is_this = match talk.last.as_ref().map(|last| (last.standing, last.digest)) {
                Some((Standing::Unanswered, same)) => more > 0 || same == digest,
                Some((Standing::Answered, _)) => more > 0,
                _ => false,
            };
            let is_better = found
                .is_none_or(|(best, left)| more < left || (more == left && talk.used > best.used));
            if is_this && is_better {
                found = Some((talk, more));
            }
        }
        found.map(|(talk, _)| talk.run.clone())
    }

    /// A run that begins: of its own, or for another.
    fn begun(&self, request: &Request<'_>) -> RunIdentity {
        let words = request.first_user_text().unwrap_or_default();
        let words = words.trim();
        let parent = self.talks.values().filter_map(|talk| Some((talk, talk.call_about(words)?)));
        match parent.max_by_key(|(talk, _)| talk.used) {
            Some((talk, call)) if is_plain(call.as_str()) => {
                let id = format!("{}.{call}", talk.run.run_id);
                if self.talks.contains_key(&RunId::from(&id)) {
                    // One call may start several.
                    let id = format!("{id}.{}", Uuid::now_v7().simple());
                    return RunIdentity::child_of(&talk.run, id);
                }
                RunIdentity::child_of(&talk.run, id)
            }
            _ => RunIdentity::root(Uuid::now_v7().to_string()),
        }
    }

    fn make_room(&mut self) {
        if self.talks.len() >= TALKS_MAX {
            self.forget_a_quarter();
        }
    }

    /// Forgets the runs that were not needed for longest. If one goes on, the store knows it.
    fn forget_a_quarter(&mut self) {
        let mut used: Vec<u64> = self.talks.values().map(|talk| talk.used).collect();
        used.sort_unstable();
        let limit = used.get(used.len() / 4).copied().unwrap_or_default();
        self.talks.retain(|_, talk| talk.used > limit);
        let talks = &self.talks;
        self.calls.retain(|_, run| talks.contains_key(run));
        self.spoken.retain(|run| talks.contains_key(run));
    }
}

/// The run of the store that a request goes on with.
fn stored(
    store: &Store,
    request: &Request<'_>,
    now: Timestamp,
) -> Result<Option<RunIdentity>, StoreError> {
    let since = Timestamp::from_unix_ms(
        now.unix_ms().saturating_sub(u64::try_from(AGE_MAX.as_millis()).unwrap_or(u64::MAX)),
    );
    let (kind, fact, is_telling) = match request.call_ids().next() {
        Some(call) => ("tool_started", call.to_owned(), is_telling(call)),
        None => match Conversation::last_assistant_key(request) {
            Some(key) => ("message_appended", key, false),
            None => return Ok(None),
        },
    };
    let first = Conversation::first_user_key(request);
    let mut found = None;
    for (run, seq) in store.runs_with_fact(kind, &fact, since)? {
        let begins_so = |key: &String| store.has_fact(run.run_id.as_str(), "message_appended", key);
        if is_telling || first.as_ref().map_or(Ok(false), begins_so)? {
            found = Some((run, seq));
        }
    }
    Ok(found.map(|(run, _)| match run.parent_run_id {
        None => RunIdentity::root(run.run_id.as_str()),
        Some(parent) => {
            RunIdentity::child_of(&RunIdentity::root(parent.as_str()), run.run_id.as_str())
        }
    }))
}

/// Whether the id of a call says whose it is. Some servers count anew with every conversation.
pub(super) const fn is_telling(call: &str) -> bool {
    call.len() >= TELLING_MIN
}

/// Whether an id may be part of a run's: it meets paths and addresses there.
fn is_plain(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !id.is_empty() && id.len() <= ID_MAX && id.bytes().all(is_plain)
}
