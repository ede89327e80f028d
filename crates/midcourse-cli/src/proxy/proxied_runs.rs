//! Finds the run to which a model request belongs.
//!
//! Claude Code sends its session id in a header. A request of another client belongs to the run
//! that made the tool calls in the request's history, or got the response that the request names. If
//! the client has changed or dropped these calls, the request belongs to the run whose conversation it continues best. If a conversation
//! begins with a task that a tool call of another run delegates, it is a child of that run. Runs
//! that are not in memory are looked up in the store.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use crate::apis::{Conversation, Request, RequestDigests, is_unique_call_id};
use crate::hosts::{Host, session_run};
use midcourse::{
    AgentMessage, RunId, RunIdentity, RunSummary, Store, StoreError, StoredRecord, Timestamp,
    TrajectoryPayload, UserContent,
};
use uuid::Uuid;

use super::feedback_cache::FeedbackCache;
use super::model_traffic::ModelRequest;
use super::proxied_run::{AttemptState, ProxiedRun, RECENT_RECORDS};

/// How many runs are kept in memory at most. If there are more, the least recently used runs are
/// dropped from memory.
const MAX_RUNS: usize = 512;

/// How many tool calls are kept in memory, in all runs together.
const MAX_CALLS: usize = 65_536;

/// The longest session id that is accepted, in bytes.
const MAX_SESSION_ID_LEN: usize = 128;

/// A request is taken as the continuation of a stored run only if the run's latest record is not
/// older than this.
const MAX_RUN_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Like `MAX_RUN_AGE`, for a request in which the client has rewritten the model's reply. The run
/// of such a request is harder to recognise, so this limit is lower.
const MAX_REWRITTEN_RUN_AGE: Duration = Duration::from_secs(60 * 60);

/// How many stored runs that contain the request's reply or task are compared with the request.
const MAX_CANDIDATES: usize = 8;

pub(super) struct ProxiedRuns {
    runs: HashMap<RunId, ProxiedRun>,
    /// The run in which each tool call was made, by call id.
    calls: HashMap<String, RunId>,
    /// The run that got each response, by the id of the response.
    responses: HashMap<String, RunId>,
    /// Number of requests so far, used to find the least recently used runs.
    clock: u64,
    cache: FeedbackCache,
}

impl ProxiedRuns {
    pub(super) fn new(cache: FeedbackCache) -> Self {
        let (runs, calls, responses) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { runs, calls, responses, clock: 0, cache }
    }

    pub(super) fn get(&mut self, run: &RunId) -> Option<&mut ProxiedRun> {
        self.runs.get_mut(run)
    }

    /// Finds the run of a request and loads the run into memory. `digest` is the digest of the
    /// request body. Returns `None` if the run can be found only in the store, and the store cannot
    /// be read.
    pub(super) fn find(
        &mut self,
        sent: &ModelRequest,
        request: &Request<'_>,
        digest: u64,
        store: Option<&Store>,
        now: Timestamp,
    ) -> Option<RunId> {
        let session = sent.session.as_deref().or(request.session.as_deref());
        let session = session.filter(|id| is_safe_id(id));
        let agent = sent.agent.as_deref().filter(|id| is_safe_id(id));
        let identity = match session {
            Some(session) => session_run(session, agent),
            None => {
                let known = self.find_by_response(request);
                let known = known.or_else(|| self.find_by_calls(request));
                let known = known.or_else(|| self.find_by_messages(request, digest));
                let has_history = request.has_history();
                match (known, store) {
                    (Some(run), _) => run,
                    (None, None) if has_history => return None,
                    (None, None) => self.new_identity(request),
                    (None, Some(store)) => match self.find_stored(store, request, now) {
                        Ok(Some(run)) => run,
                        Ok(None) => self.new_identity(request),
                        Err(_) => return None,
                    },
                }
            }
        };
        let id = identity.run_id.clone();
        if !self.runs.contains_key(&id) {
            let mut run = ProxiedRun::new(identity, sent.api, self.cache.clone());
            let stored = store.map(|store| store.run(id.as_str()).map(|run| (store, run)));
            match stored {
                Some(Ok((_, None))) => {}
                Some(Ok((store, Some(summary)))) => run.resume(store, &summary).ok()?,
                // The store cannot be read. The run may have earlier feedback (messages about tool
                // results), which would have to be in this request too.
                Some(Err(_)) => return None,
                None if request.has_history() => return None,
                None => {}
            }
            // A subagent's first request may come before its first hook event. If hooks report the
            // parent's run, they will report the subagent's run too.
            let parent = run.run.parent_run_id.clone().filter(|_| session.is_some());
            let parent = parent.and_then(|parent| store?.run(parent.as_str()).ok().flatten());
            if parent.is_some_and(|parent| Host::named(&parent.host).is_some()) {
                run.set_has_hooks();
            }
            if self.runs.len() >= MAX_RUNS {
                self.drop_oldest_quarter();
            }
            self.runs.insert(id.clone(), run);
        }
        self.clock = self.clock.saturating_add(1);
        if let Some(run) = self.runs.get_mut(&id) {
            run.last_used = self.clock;
        }
        self.add_calls(request.call_ids(), &id);
        Some(id)
    }

    /// Remembers that these calls belong to `run`. Stops at the first call that is already known,
    /// so calls that may be known must come after the new ones.
    pub(super) fn add_calls<'a>(&mut self, calls: impl Iterator<Item = &'a str>, run: &RunId) {
        for call in calls {
            if self.calls.get(call).is_some_and(|known| known == run) {
                // This call is known, so all older calls of the run are known too.
                break;
            }
            self.calls.insert(call.to_owned(), run.clone());
        }
        if self.calls.len() > MAX_CALLS {
            self.drop_oldest_quarter();
        }
    }

    /// Remembers that this run got the response with this id.
    pub(super) fn add_response(&mut self, response: String, run: &RunId) {
        if self.responses.len() >= MAX_CALLS {
            self.drop_oldest_quarter();
        }
        self.responses.insert(response, run.clone());
    }

    fn find_by_response(&self, request: &Request<'_>) -> Option<RunIdentity> {
        let run = self.responses.get(request.previous_response.as_ref()?)?;
        self.runs.get(run).map(|run| run.run.clone())
    }

    fn find_by_calls(&self, request: &Request<'_>) -> Option<RunIdentity> {
        let newest = request.call_ids().next()?;
        let run = if is_unique_call_id(newest) {
            let run = request.call_ids().find_map(|call| self.calls.get(call))?;
            self.runs.get(run)
        } else {
            let digests = RequestDigests::of(request);
            let has_call = |run: &&ProxiedRun| run.conversation.has_call(newest);
            let candidates = self.runs.values().filter(has_call).filter_map(|run| {
                let matches = run.conversation.count_matches(request)?;
                Some((run, (run.conversation.has_same_start(&digests), matches, run.last_used)))
            });
            candidates.max_by_key(|(_, rank)| *rank).map(|(run, _)| run)
        };
        run.map(|run| run.run.clone())
    }

    /// Finds the run whose latest request failed and is repeated by this request, or else the run
    /// whose conversation this request continues. If several runs fit equally well, it is the one
    /// that got its response last.
    fn find_by_messages(&self, request: &Request<'_>, digest: u64) -> Option<RunIdentity> {
        let digests = RequestDigests::of(request);
        let rank = |run: &ProxiedRun| {
            let last = run.last_attempt.as_ref()?;
            let is_retry = last.state == AttemptState::Failed && last.digest == digest;
            let fit = match last.state {
                AttemptState::InFlight => return None,
                AttemptState::Failed if is_retry => None,
                AttemptState::Failed | AttemptState::Completed => {
                    Some(run.conversation.fit(&digests)?)
                }
            };
            Some((is_retry, fit, run.answered_at, run.last_used))
        };
        let candidates = self.runs.values().filter_map(|run| Some((run, rank(run)?)));
        candidates.max_by_key(|(_, rank)| *rank).map(|(run, _)| run.run.clone())
    }

    /// The identity of a new run that begins with this request. If its first user message is a task
    /// that a tool call of another run delegates to a subagent, it is a child of that run.
    fn new_identity(&self, request: &Request<'_>) -> RunIdentity {
        let text = request.first_user_text().unwrap_or_default();
        let text = text.trim();
        let parents = self.runs.values().filter_map(|run| Some((run, run.call_delegating(text)?)));
        match parents.max_by_key(|(run, _)| run.last_used) {
            Some((parent, call)) if is_safe_id(call.as_str()) => {
                let mut id = format!("{}.{call}", parent.run.run_id);
                // One call may start several subagents, so make the id unique.
                if self.runs.contains_key(&RunId::from(&id)) {
                    id = format!("{id}.{}", Uuid::now_v7().simple());
                }
                RunIdentity::child_of(&parent.run, id)
            }
            _ => RunIdentity::root(Uuid::now_v7().to_string()),
        }
    }

    /// Finds the run in the store that this request continues.
    fn find_stored(
        &self,
        store: &Store,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Option<RunIdentity>, StoreError> {
        let task = Conversation::first_user_key(request);
        if let Some(call) = request.call_ids().next() {
            let runs = store.runs_with_fact("tool_started", call, before(now, MAX_RUN_AGE))?;
            for (run, _) in runs.into_iter().rev() {
                let has_message =
                    |key: &String| store.has_fact(run.run_id.as_str(), "message_appended", key);
                if is_unique_call_id(call) || task.as_ref().map_or(Ok(false), has_message)? {
                    return Ok(Some(identity(run)));
                }
            }
        }
        let (Some(task), Some(reply)) = (task, Conversation::last_assistant_key(request)) else {
            return Ok(None);
        };
        let digests = RequestDigests::of(request);
        // Search for the model's last message first. If the client has rewritten this message, only
        // the task can be found.
        for (key, max_age) in [(&reply, MAX_RUN_AGE), (&task, MAX_REWRITTEN_RUN_AGE)] {
            let runs = store.runs_with_fact("message_appended", key, before(now, max_age))?;
            let mut runs: Vec<_> = runs.into_iter().map(|(run, _)| run).collect();
            // Runs in memory were already compared with the whole request.
            runs.retain(|run| !self.runs.contains_key(&run.run_id));
            runs.sort_by_key(|run| Reverse(run.latest));
            for run in runs.into_iter().take(MAX_CANDIDATES) {
                if store.has_fact(run.run_id.as_str(), "message_appended", &task)?
                    && digests.contains_input(&latest_input(store, &run)?)
                {
                    return Ok(Some(identity(run)));
                }
            }
        }
        Ok(None)
    }

    /// Drops the least recently used quarter of the runs from memory. They can be loaded from the
    /// store again.
    fn drop_oldest_quarter(&mut self) {
        let mut used: Vec<u64> = self.runs.values().map(|run| run.last_used).collect();
        used.sort_unstable();
        let limit = used.get(used.len() / 4).copied().unwrap_or_default();
        self.runs.retain(|_, run| run.last_used > limit);
        let runs = &self.runs;
        self.calls.retain(|_, run| runs.contains_key(run));
        self.responses.retain(|_, run| runs.contains_key(run));
        self.cache.retain(|run| runs.contains_key(run));
    }
}

/// The user message or tool result that a run got last; empty if its latest records contain none.
fn latest_input(store: &Store, run: &RunSummary) -> Result<String, StoreError> {
    let first = run.records.saturating_sub(RECENT_RECORDS);
    let records = store.records(run.run_id.as_str(), first, usize::MAX)?;
    let input = |record: StoredRecord| match record.into_record().payload {
        TrajectoryPayload::MessageAppended {
            message: AgentMessage::User { content: UserContent::Text(text), .. },
        } => Some(text),
        TrajectoryPayload::ToolEnded { result, .. } => Some(result.comparable_text().into_owned()),
        _ => None,
    };
    Ok(records.into_iter().rev().find_map(input).unwrap_or_default())
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_unix_ms(now.unix_ms().saturating_sub(age))
}

fn identity(run: RunSummary) -> RunIdentity {
    match run.parent_run_id {
        None => RunIdentity::root(run.run_id.as_str()),
        Some(parent) => {
            RunIdentity::child_of(&RunIdentity::root(parent.as_str()), run.run_id.as_str())
        }
    }
}

/// Whether an id is safe to use in a run id, which appears in paths and URLs.
fn is_safe_id(id: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !id.is_empty() && id.len() <= MAX_SESSION_ID_LEN && id.bytes().all(is_safe)
}
