//! The recorder's own thread: what is asked and answered becomes events, the engine is asked, and
//! what is said goes back.
//!
//! A request that nothing is said about goes on before anything is written; where something is said,
//! it is on disk first. What comes while the disk is busy is written with one commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::apis::{Api, Reply, Way};
use midcourse::{
    Batch, DataDir, DeliveryPolicy, Event, Mode, RunId, RunIdentity, StopReason, Store, StoreError,
    StoreSettings, SyncedEngine, Timestamp,
};
use xxhash_rust::xxh3::xxh3_64;

use super::compressed;
use super::recorder::{Asked, Heard, Held, Job, Ticket};
use super::spoken::Spoken;
use super::talk::{Attempt, Places, Standing};
use super::talks::{Asker, Talks};
use crate::log::Log;
use crate::run_settings::RunSettings;

/// Plans written with one commit.
const GROUP_MAX: usize = 64;

/// Engines that are kept ready for their runs.
const WATCHES_MAX: usize = 32;

/// How long a store that could not be opened is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Attempts at writing what another process keeps changing.
const ATTEMPTS: usize = 8;

/// What is kept of a body that cannot be read.
const UNREAD_MAX: usize = 64 * 1024;

/// Questions that may wait for their answers.
const UNDER_WAY_MAX: usize = 4_096;

pub(super) struct Worker {
    home: DataDir,
    settings: StoreSettings,
    run_settings: RunSettings,
    log: Arc<Log>,
    store: Option<Store>,
    /// When the store failed, and how.
    failed: Option<(Instant, StoreError)>,
    talks: Talks,
    watches: HashMap<RunId, SyncedEngine>,
    under_way: HashMap<u64, UnderWay>,
    group: Vec<Planned>,
}

/// A question that was asked.
struct UnderWay {
    api: Api,
    run: RunId,
    is_beside: bool,
}

/// What is to be written.
struct Planned {
    run: RunIdentity,
    batch: Batch,
    watch: SyncedEngine,
    /// The request that waits for it, and where words fit into it.
    waiting: Option<Waiting>,
}

struct Waiting {
    ticket: Ticket,
    places: Places,
    digest: u64,
}

impl Worker {
    pub(super) fn new(
        home: DataDir,
        run_settings: RunSettings,
        log: Arc<Log>,
        spoken: Spoken,
    ) -> Self {
        let settings = StoreSettings::default();
        Self {
            home,
            settings,
            run_settings,
            log,
            store: None,
            failed: None,
            talks: Talks::new(spoken),
            watches: HashMap::new(),
            under_way: HashMap::new(),
            group: Vec::new(),
        }
    }

    /// Records until it is told to stop, or nobody is left to tell it anything.
    pub(super) fn work(mut self, jobs: &Receiver<Held>) {
        self.open();
        while let Ok(mut held) = jobs.recv() {
            loop {
                let job = std::mem::replace(&mut held.job, Job::Stop);
                if matches!(job, Job::Stop) {
                    return self.commit();
                }
                self.take(job);
                drop(held);
                if self.group.is_empty() || self.group.len() >= GROUP_MAX {
                    break;
                }
                match jobs.try_recv() {
                    Ok(next) => held = next,
                    Err(_) => break,
                }
            }
            self.commit();
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Asked { number, at, asked, ticket } => self.asked(number, at, &asked, ticket),
            Job::Heard { number, at, heard } => self.heard(number, at, heard),
            Job::Stop => {}
        }
    }

    fn asked(&mut self, number: u64, at: Timestamp, asked: &Asked, mut ticket: Ticket) {
        let is_plain = asked.encoding.is_none();
        let unpacked =
            (!is_plain).then(|| compressed::plain(asked.body.to_vec(), asked.encoding.as_deref()));
        let bytes = unpacked.as_ref().map_or(Some(&*asked.body), |bytes| bytes.as_deref());
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let Some(mut request) = text.and_then(|text| asked.api.parse_request(text)) else {
            ticket.answer(Vec::new());
            return self.unread(asked, at);
        };
        if !asked.is_open() {
            request.insertion_point = None;
        }
        let digest = xxh3_64(&asked.body);
        self.open();
        let asker = Asker {
            api: asked.api,
            session: asked.session.as_deref(),
            agent: asked.agent.as_deref(),
        };
        let found = self.talks.find(&asker, &request, digest, self.store.as_ref(), at);
        // Nobody knows whose it is: it is told again with the next request.
        let Some(run) = found else { return };
        let has_session = asked.session.is_some() || request.session.is_some();
        // What Claude Code asks for itself has no tools.
        let is_beside = has_session && request.tools.is_empty();
        self.note(number, UnderWay { api: asked.api, run: run.clone(), is_beside });
        if self.group.iter().any(|planned| planned.run.run_id == run) {
            self.commit();
        }
        let places = if asked.is_open() { Places::of(&request) } else { Places::default() };
        let Some(talk) = self.talks.get(&run) else { return };
        let is_again = talk
            .last
            .as_ref()
            .is_some_and(|last| last.standing == Standing::Unanswered && last.digest == digest);
        if !is_beside && !is_again {
            talk.owe_again();
        }
        let events = if is_beside {
            talk.asked_beside(&request, at)
        } else if is_again {
            talk.asked_again(&request, at)
        } else {
            talk.asked(&request, at)
        };
        if is_again && let Some(last) = &mut talk.last {
            // The very request, once more: what went into it goes into it.
            last.standing = Standing::UnderWay;
            ticket.answer(last.insertions.clone());
        }
        let waiting = (!is_beside && !is_again).then_some(Waiting { ticket, places, digest });
        self.plan(events, waiting);
    }

    fn note(&mut self, number: u64, under_way: UnderWay) {
        if self.under_way.len() >= UNDER_WAY_MAX {
            let oldest = number.saturating_sub(u64::try_from(UNDER_WAY_MAX).unwrap_or(u64::MAX));
            self.under_way.retain(|number, _| *number > oldest);
        }
        self.under_way.insert(number, under_way);
    }

    fn heard(&mut self, number: u64, at: Timestamp, heard: Heard) {
        let Some(UnderWay { api, run, is_beside }) = self.under_way.remove(&number) else { return };
        if self.group.iter().any(|planned| planned.run.run_id == run) {
            self.commit();
        }
        let answer = answer_of(api, heard);
        let Some(talk) = self.talks.get(&run) else { return };
        let events = if is_beside {
            talk.heard_beside(&answer, at).into_iter().collect()
        } else {
            if let Some(last) = &mut talk.last {
                last.standing =
                    if answer.is_complete() { Standing::Answered } else { Standing::Unanswered };
            }
            let calls: Vec<_> = answer.tool_calls().map(|call| call.id.clone()).collect();
            let events = talk.heard(answer, at);
            self.talks.learn(calls.iter().map(|call| call.as_str()), &run);
            events
        };
        self.plan(events, None);
    }

    /// Works out what events lead to. Where nothing is said the request goes on at once.
    fn plan(&mut self, mut events: Vec<Event>, waiting: Option<Waiting>) {
        let Some(run) = events.first().map(|event| event.run.clone()) else { return };
        if events.iter().any(Event::begins_something) {
            for remark in self.run_settings.clone().record_in(&mut events) {
                self.log.write(&remark);
            }
        }
        let mut batch = match Batch::new(asked_about(events), &self.settings) {
            Ok(batch) => batch,
            Err(error) => {
                self.log.write(&format!("a request cannot be recorded: {error}"));
                return self.let_go_with_nothing_new(&run.run_id, waiting);
            }
        };
        let watch = self.watch_of(&run);
        let evaluated = match (watch, &mut self.store) {
            (Some(mut watch), Some(store)) => {
                store.evaluate(&mut batch, &mut watch).map(|()| watch)
            }
            _ => Err(self.why()),
        };
        match evaluated {
            Ok(watch) => {
                for fault in &batch.step().faults {
                    self.log.write(&fault.to_string());
                }
                let mut planned = Planned { run, batch, watch, waiting };
                if planned.batch.step().deliveries.is_empty()
                    || self.run_settings.mode() == Mode::Shadow
                {
                    self.let_go(&mut planned);
                }
                self.group.push(planned);
            }
            Err(error) => {
                self.let_go_with_nothing_new(&run.run_id, waiting);
                self.put_aside(&run.run_id, &batch, &error);
            }
        }
    }

    /// Lets a request go on with what its run has to say by now.
    fn let_go(&mut self, planned: &mut Planned) {
        let waiting = planned.waiting.take();
        self.let_go_with_nothing_new(&planned.run.run_id, waiting);
    }

    fn let_go_with_nothing_new(&mut self, run: &RunId, waiting: Option<Waiting>) {
        let Some(Waiting { mut ticket, places, digest }) = waiting else { return };
        let Some(talk) = self.talks.get(run) else {
            ticket.answer(Vec::new());
            return;
        };
        let insertions = talk.insertions(&places);
        let is_carried = ticket.answer(insertions.clone());
        let carried = if is_carried { talk.carried(&places) } else { Vec::new() };
        let insertions = if is_carried { insertions } else { talk.again(&places) };
        let standing = Standing::UnderWay;
        talk.last = Some(Attempt { digest, insertions, carried, standing });
    }

    /// Writes what is planned, and lets those go on that something is said about.
    fn commit(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        if group.is_empty() {
            return;
        }
        for planned in &mut group {
            // Nothing is said any more to a request that has gone on.
            let is_gone = planned.waiting.as_ref().is_some_and(|it| it.ticket.is_gone());
            if is_gone && !planned.batch.step().deliveries.is_empty() {
                self.plan_late(planned);
            }
        }
        let mut failure = None;
        let written = match &mut self.store {
            None => Vec::new(),
            Some(store) => {
                let mut batches: Vec<_> = group
                    .iter_mut()
                    .map(|planned| (&mut planned.batch, &mut planned.watch))
                    .collect();
                store.commit(&mut batches).unwrap_or_else(|error| {
                    failure = Some(error);
                    Vec::new()
                })
            }
        };
        let mut written = written.into_iter();
        for planned in group {
            match (written.next(), &failure) {
                (Some(Some(_)), _) => self.written(planned),
                (Some(None), _) => self.commit_alone(planned),
                (None, failure) => {
                    let error = failure.clone().unwrap_or_else(|| self.why());
                    self.not_written(planned, &error);
                }
            }
        }
        if let Some(error) = failure {
            self.store = None;
            self.failed = Some((Instant::now(), error));
        }
    }

    /// Writes what another process has made stale.
    fn commit_alone(&mut self, mut planned: Planned) {
        for _ in 0..ATTEMPTS {
            if planned.waiting.is_some() {
                self.plan_anew(&mut planned);
            } else {
                self.plan_late(&mut planned);
            }
            let Some(store) = &mut self.store else { break };
            match store.commit(&mut [(&mut planned.batch, &mut planned.watch)]) {
                Ok(written) if written.iter().all(Option::is_some) => return self.written(planned),
                Ok(_) => {}
                Err(error) => return self.not_written(planned, &error),
            }
        }
        self.not_written(planned, &StoreError::Locked);
    }

    fn plan_anew(&mut self, planned: &mut Planned) {
        if let Some(store) = &self.store {
            // If this fails, the commit finds the batch stale and says so.
            let _ = store.evaluate(&mut planned.batch, &mut planned.watch);
        }
    }

    /// Plans events that nothing can be said about any more.
    fn plan_late(&mut self, planned: &mut Planned) {
        planned.batch.forbid_deliveries();
        self.plan_anew(planned);
    }

    /// It is on disk: what is said about it is said.
    fn written(&mut self, planned: Planned) {
        let Planned { run, batch, watch, waiting } = planned;
        let deliveries = batch.into_step().deliveries;
        if self.run_settings.mode() == Mode::Live
            && !deliveries.is_empty()
            && let Some(talk) = self.talks.get(&run.run_id)
        {
            for delivery in deliveries {
                talk.say(delivery);
            }
            talk.share();
        }
        self.let_go_with_nothing_new(&run.run_id, waiting);
        self.keep(run.run_id, watch);
    }

    fn not_written(&mut self, planned: Planned, error: &StoreError) {
        let Planned { run, batch, waiting, .. } = planned;
        self.let_go_with_nothing_new(&run.run_id, waiting);
        self.put_aside(&run.run_id, &batch, error);
    }

    /// Puts events aside that the store does not take; if that fails too, they are told again when
    /// the client sends them again.
    fn put_aside(&mut self, run: &RunId, batch: &Batch, why: &StoreError) {
        self.log.write(&format!("the store does not take what was asked: {why}"));
        let is_kept = batch.spill(&self.home).is_ok();
        if let (false, Some(talk)) = (is_kept, self.talks.get(run)) {
            talk.forget();
        }
    }

    fn unread(&mut self, asked: &Asked, at: Timestamp) {
        self.log.write(&format!("a request of {} bytes is not understood", asked.body.len()));
        let run = RunIdentity::root(format!("{}.unread", asked.api.name()));
        if self.group.iter().any(|planned| planned.run.run_id == run.run_id) {
            self.commit();
        }
        let kept = asked.body.get(..UNREAD_MAX).unwrap_or(&asked.body);
        let event = Event::unread(run, asked.api.source(Way::Late), at, kept);
        self.plan(vec![event], None);
    }

    /// The store, if it can be had.
    fn open(&mut self) {
        let failed = self.failed.as_ref();
        let is_left_alone = failed.is_some_and(|(failed, _)| failed.elapsed() < AGAIN);
        if self.store.is_some() || is_left_alone {
            return;
        }
        match Store::open(&self.home, self.settings.clone()) {
            Ok(mut store) => {
                // What waits there came before.
                let _ = store.ingest_spilled();
                self.failed = None;
                self.store = Some(store);
            }
            Err(error) => {
                self.log.write(&format!("the store cannot be opened: {error}"));
                self.failed = Some((Instant::now(), error));
            }
        }
    }

    /// Why there is no store.
    fn why(&self) -> StoreError {
        self.failed.as_ref().map_or(StoreError::Locked, |(_, error)| error.clone())
    }

    fn watch_of(&mut self, run: &RunIdentity) -> Option<SyncedEngine> {
        if let Some(watch) = self.watches.remove(&run.run_id) {
            return Some(watch);
        }
        let engine =
            self.run_settings.engine(DeliveryPolicy::default(), run.parent_run_id.is_some());
        SyncedEngine::new(engine).ok()
    }

    fn keep(&mut self, run: RunId, watch: SyncedEngine) {
        if self.watches.len() >= WATCHES_MAX
            && let Some(other) = self.watches.keys().next().cloned()
        {
            self.watches.remove(&other);
        }
        self.watches.insert(run, watch);
    }
}

/// Each event with the point at which it may be spoken about.
fn asked_about(events: Vec<Event>) -> impl Iterator<Item = Event> {
    events.into_iter().map(|event| {
        let decision_point = Api::point_of(&event.source, &event.payload);
        Event { decision_point, ..event }
    })
}

fn answer_of(api: Api, heard: Heard) -> Reply {
    let (status, encoding, tape) = match heard {
        Heard::Broken(why) => return Reply::failed(StopReason::Aborted, why),
        Heard::Answered { status, encoding, tape } => (status, encoding, tape),
    };
    let bytes = tape.pieces.concat();
    let read = compressed::plain(bytes, encoding.as_deref());
    let answer = read.and_then(|body| api.parse_response(status, &body));
    match (answer, tape.broken) {
        (Some(answer), _) => answer,
        (None, Some(why)) => Reply::failed(StopReason::Aborted, why),
        (None, None) => Reply::failed(
            StopReason::Error,
            format!("an answer of status {status} is not understood"),
        ),
    }
}
