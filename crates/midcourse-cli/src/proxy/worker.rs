//! The recorder's thread: converts model traffic to events and replies with the text to insert.
//!
//! If a request results in no new message to the agent, it is forwarded before its events are
//! written. Otherwise it is forwarded with the message, after the events and the message were
//! written to disk. Jobs that arrive while the disk is busy are written together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::apis::Api;
use midcourse::{Batch, DataDir, Event, RunId, RunIdentity, StoreError, SyncedEngine, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use super::feedback_cache::FeedbackCache;
use super::jobs::{Job, PendingReply, QueuedJob};
use super::model_traffic::{ModelRequest, ModelResponse};
use super::proxied_run::{Attempt, AttemptState, InsertionPoints, source};
use super::proxied_runs::ProxiedRuns;
use super::store_writer::StoreWriter;
use crate::log::Log;
use crate::run_settings::RunSettings;

/// Maximum number of batches (each with the events of one job) in one commit.
const MAX_GROUP_LEN: usize = 64;

/// How often a commit is tried again if other processes keep writing to the same run.
const MAX_COMMIT_ATTEMPTS: usize = 8;

/// How many bytes of a request are stored if it cannot be parsed.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

/// How many requests that have no response yet are remembered at most. If there are more, the
/// oldest are forgotten, and their responses are not recorded.
const MAX_IN_FLIGHT: usize = 4_096;

pub(super) struct Worker {
    writer: StoreWriter,
    log: Arc<Log>,
    runs: ProxiedRuns,
    /// Requests that have no response yet, by their number.
    in_flight: HashMap<u64, InFlight>,
    /// Batches to commit together, at most one per run.
    group: Vec<PendingBatch>,
}

struct InFlight {
    api: Api,
    run: RunId,
    is_side_request: bool,
}

/// Events of one run that the engine has evaluated but that are not on disk yet.
struct PendingBatch {
    batch: Batch,
    engine: SyncedEngine,
    /// The request that is held until the batch is committed.
    waiting: Option<WaitingRequest>,
}

/// A request that is held until the engine has evaluated its events. If the engine chooses messages
/// for the agent, the request is held until they are committed.
struct WaitingRequest {
    reply: PendingReply,
    points: InsertionPoints,
    digest: u64,
}

impl Worker {
    pub(super) fn new(
        data_dir: DataDir,
        run_settings: RunSettings,
        log: Arc<Log>,
        cache: FeedbackCache,
    ) -> Self {
        Self {
            writer: StoreWriter::new(data_dir, run_settings, Arc::clone(&log)),
            log,
            runs: ProxiedRuns::new(cache),
            in_flight: HashMap::new(),
            group: Vec::new(),
        }
    }

    /// Handles jobs until `Job::Stop` arrives or all senders are gone.
    pub(super) fn run(mut self, jobs: &Receiver<QueuedJob>) {
        self.writer.open();
        while let Ok(mut queued) = jobs.recv() {
            loop {
                match std::mem::replace(&mut queued.job, Job::Stop) {
                    Job::Request { number, at, request, reply } => {
                        self.handle_request(number, at, &request, reply);
                    }
                    Job::Response { number, at, response } => {
                        self.handle_response(number, at, response);
                    }
                    Job::Flush(done) => {
                        self.commit();
                        // This fails if nobody waits any more.
                        let _ = done.send(());
                    }
                    Job::Stop => return self.commit(),
                }
                drop(queued);
                if self.group.is_empty() || self.group.len() >= MAX_GROUP_LEN {
                    break;
                }
                match jobs.try_recv() {
                    Ok(next) => queued = next,
                    Err(_) => break,
                }
            }
            self.commit();
        }
    }

    fn handle_request(
        &mut self,
        number: u64,
        at: Timestamp,
        sent: &ModelRequest,
        mut reply: PendingReply,
    ) {
        let text = sent.text();
        let request = text.as_deref().and_then(|text| sent.api.parse_request(text));
        let Some(mut request) = request else {
            reply.send(Vec::new());
            return self.keep_unread(sent, at);
        };
        request.model = request.model.or_else(|| sent.model.clone());
        if !sent.is_modifiable() {
            request.insertion_point = None;
        }
        let digest = xxh3_64(&sent.body);
        let store = self.writer.open();
        // If the run is not found, record nothing: the next request contains this history again.
        let Some(run) = self.runs.find(sent, &request, digest, store, at) else { return };
        let has_session = sent.session.is_some() || request.session.is_some();
        // Claude Code also makes side requests, for example to generate a title. They offer no
        // tools.
        let is_side_request = has_session && request.tools.is_empty();
        self.add_in_flight(number, InFlight { api: sent.api, run: run.clone(), is_side_request });
        self.commit_before(&run);
        let Some(proxied) = self.runs.get(&run) else { return };
        if is_side_request {
            // Dropping the reply makes the network side forward the request at once, with feedback
            // from earlier requests and no new messages.
            drop(reply);
            let events = proxied.side_request_events(&request, at);
            return self.evaluate(events, None);
        }
        match &mut proxied.last_attempt {
            Some(last) if last.state == AttemptState::Failed && last.digest == digest => {
                // A retry gets the same insertions as the request that failed.
                last.state = AttemptState::InFlight;
                reply.send(last.insertions.clone());
                let events = proxied.retry_events(&request, at);
                self.evaluate(events, None);
            }
            _ => {
                proxied.reclaim_guidance();
                let events = proxied.request_events(&mut request, at);
                let points = if sent.is_modifiable() {
                    InsertionPoints::of(&request)
                } else {
                    InsertionPoints::default()
                };
                self.evaluate(events, Some(WaitingRequest { reply, points, digest }));
            }
        }
    }

    fn add_in_flight(&mut self, number: u64, request: InFlight) {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            let oldest = number.saturating_sub(u64::try_from(MAX_IN_FLIGHT).unwrap_or(u64::MAX));
            self.in_flight.retain(|number, _| *number > oldest);
        }
        self.in_flight.insert(number, request);
    }

    fn handle_response(&mut self, number: u64, at: Timestamp, response: ModelResponse) {
        let Some(request) = self.in_flight.remove(&number) else { return };
        let InFlight { api, run, is_side_request } = request;
        self.commit_before(&run);
        let reply = response.parse(api);
        let Some(proxied) = self.runs.get(&run) else { return };
        let events = if is_side_request {
            proxied.side_reply_event(&reply, at).into_iter().collect()
        } else {
            if let Some(last) = &mut proxied.last_attempt {
                let is_complete = reply.is_complete();
                last.state =
                    if is_complete { AttemptState::Completed } else { AttemptState::Failed };
            }
            let calls: Vec<_> = reply.tool_calls().map(|call| call.id.clone()).collect();
            let response_id = reply.response_id.clone().filter(|_| reply.is_complete());
            let events = proxied.reply_events(reply, at);
            if let Some(id) = response_id {
                self.runs.add_response(id, &run);
            }
            self.runs.add_calls(calls.iter().map(|call| call.as_str()), &run);
            events
        };
        self.evaluate(events, None);
    }

    /// Stores the beginning of a request that cannot be parsed.
    fn keep_unread(&mut self, sent: &ModelRequest, at: Timestamp) {
        let run = RunIdentity::root(format!("{}.unread", sent.api.name()));
        self.log.write(&format!(
            "could not parse a model request of {} bytes; forwarded it unchanged and kept its \
             beginning in run {}",
            sent.body.len(),
            run.run_id
        ));
        self.commit_before(&run.run_id);
        let kept = sent.body.get(..MAX_UNREAD_BYTES).unwrap_or(&sent.body);
        let event = Event::unread(run, source(sent.api), at, kept);
        self.evaluate(vec![event], None);
    }

    /// Commits the group if it contains a batch of this run, because the engine can evaluate the
    /// run's next batch only after the previous batch is stored.
    fn commit_before(&mut self, run: &RunId) {
        if self.group.iter().any(|pending| pending.batch.run_id() == run) {
            self.commit();
        }
    }

    /// Runs the engine on events of one run. If the engine chooses no message for the agent, the
    /// waiting request is forwarded at once, otherwise after the commit. A message that is withheld
    /// is treated the same way.
    fn evaluate(&mut self, events: Vec<Event>, mut waiting: Option<WaitingRequest>) {
        let Some(run) = events.first().map(|event| event.run.clone()) else { return };
        let Some(mut batch) = self.writer.prepare(events) else {
            return self.reply(&run.run_id, waiting);
        };
        let proxied = self.runs.get(&run.run_id);
        let is_permanent = proxied.is_some_and(|proxied| proxied.is_kept_by_server);
        match self.writer.evaluate(&run, &mut batch, is_permanent) {
            Ok(engine) => {
                if !batch.step().has_messages() || !self.writer.is_live() {
                    self.reply(&run.run_id, waiting.take());
                }
                self.group.push(PendingBatch { batch, engine, waiting });
            }
            Err(error) => {
                self.reply(&run.run_id, waiting);
                self.spill(&batch, &error);
            }
        }
    }

    /// Commits the group, then forwards the requests that waited for it.
    fn commit(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        if group.is_empty() {
            return;
        }
        for PendingBatch { batch, engine, waiting } in &mut group {
            // The network side may have stopped waiting and forwarded the request. Then the new
            // messages cannot reach the agent and must not be recorded as delivered.
            let is_expired = waiting.as_ref().is_some_and(|waiting| waiting.reply.is_expired());
            if is_expired && batch.step().has_messages() {
                batch.forbid_deliveries();
                // If this fails, the engine evaluates these events together with the run's next
                // batch.
                let _ = self.writer.evaluate_again(batch, engine);
            }
        }
        let mut batches: Vec<_> =
            group.iter_mut().map(|pending| (&mut pending.batch, &mut pending.engine)).collect();
        let committed = self.writer.commit(&mut batches);
        for (index, mut pending) in group.into_iter().enumerate() {
            let result = match &committed {
                Err(error) => Err(error.clone()),
                Ok(committed) if committed.get(index) == Some(&true) => Ok(()),
                Ok(_) => self.commit_stale(&mut pending),
            };
            match result {
                Ok(()) => self.deliver(pending),
                Err(error) => {
                    self.reply(pending.batch.run_id(), pending.waiting);
                    self.spill(&pending.batch, &error);
                }
            }
        }
    }

    /// Evaluates and commits a batch again, after a commit that failed because another process had
    /// written to the same run.
    fn commit_stale(&mut self, pending: &mut PendingBatch) -> Result<(), StoreError> {
        let PendingBatch { batch, engine, waiting } = pending;
        if waiting.is_none() {
            // No request waits for this batch, so no message can be delivered with it.
            batch.forbid_deliveries();
        }
        for _ in 0..MAX_COMMIT_ATTEMPTS {
            self.writer.evaluate_again(batch, engine)?;
            if self.writer.commit(&mut [(&mut *batch, &mut *engine)])? == [true] {
                return Ok(());
            }
        }
        Err(StoreError::Locked)
    }

    /// Called after the commit of a batch. Passes the batch's messages to the run, and forwards the
    /// waiting request with these messages in it.
    fn deliver(&mut self, pending: PendingBatch) {
        let PendingBatch { batch, engine, waiting } = pending;
        let run = batch.run_id().clone();
        let deliveries = batch.into_step().deliveries;
        if self.writer.is_live()
            && !deliveries.is_empty()
            && let Some(proxied) = self.runs.get(&run)
        {
            let points = waiting.as_ref().map(|waiting| &waiting.points);
            for delivery in deliveries {
                proxied.deliver(delivery, points);
            }
            proxied.publish_feedback();
        }
        self.reply(&run, waiting);
        self.writer.keep_engine(run, engine);
    }

    /// Forwards a request with all feedback and guidance that its run has by now.
    fn reply(&mut self, run: &RunId, waiting: Option<WaitingRequest>) {
        let Some(WaitingRequest { mut reply, points, digest }) = waiting else { return };
        let Some(proxied) = self.runs.get(run) else {
            reply.send(Vec::new());
            return;
        };
        let insertions = proxied.insertions(&points);
        // If sending fails, the request was already forwarded, with feedback from the cache only.
        let (insertions, guidance) = if reply.send(insertions.clone()) {
            (insertions, proxied.take_guidance(&points))
        } else {
            (proxied.feedback_insertions(&points), Vec::new())
        };
        let state = AttemptState::InFlight;
        proxied.last_attempt = Some(Attempt { digest, insertions, guidance, state });
    }

    /// Writes a batch that could not be stored to the spill folder, from which a later process
    /// stores it. If that fails too, forgets the run's conversation, so that the events of the
    /// client's next request include this batch's events again.
    fn spill(&mut self, batch: &Batch, why: &StoreError) {
        if !self.writer.spill(batch, why)
            && let Some(proxied) = self.runs.get(batch.run_id())
        {
            proxied.forget_conversation();
        }
    }
}
