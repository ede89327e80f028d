//! The recorder's access to the store, which may fail and recover at any time.
//!
//! Opens the store, keeps one engine per run, and prepares, evaluates, commits and spills batches
//! of events; the worker decides when. Preparing and evaluating write nothing. A commit writes the
//! batches of several runs in one transaction. To spill a batch is to write it to the spill folder
//! because the store cannot be written; a later process stores it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use midcourse::{
    Batch, DataDir, DeliveryPolicy, Event, Mode, RunId, RunIdentity, Store, StoreError,
    StoreSettings, SyncedEngine,
};

use uuid::Uuid;

use crate::hosts::{About, permanent_policy};
use crate::log::Log;
use crate::run_settings::RunSettings;

/// Maximum number of runs whose engine is kept in memory.
const MAX_ENGINES: usize = 32;

/// How long to wait before opening the store again after a failure.
const REOPEN_DELAY: Duration = Duration::from_secs(1);

pub(super) struct StoreWriter {
    data_dir: DataDir,
    settings: StoreSettings,
    run_settings: RunSettings,
    log: Arc<Log>,
    store: Option<Store>,
    /// When and why the store failed last; `None` if it works.
    failure: Option<(Instant, StoreError)>,
    engines: HashMap<RunId, SyncedEngine>,
}

fn store_settings(run_settings: &RunSettings) -> StoreSettings {
    StoreSettings { redaction: run_settings.config.redaction(), ..StoreSettings::default() }
}

impl StoreWriter {
    pub(super) fn new(data_dir: DataDir, run_settings: RunSettings, log: Arc<Log>) -> Self {
        Self {
            settings: store_settings(&run_settings).in_data_dir(&data_dir),
            data_dir,
            run_settings,
            log,
            store: None,
            failure: None,
            engines: HashMap::new(),
        }
    }

    /// Whether messages are delivered. In shadow mode they are only recorded.
    pub(super) fn is_live(&self) -> bool {
        self.run_settings.mode() == Mode::Live
    }

    /// Opens the store, unless it is already open or opening it has just failed.
    pub(super) fn open(&mut self) -> Option<&Store> {
        let failure = self.failure.as_ref();
        let has_just_failed = failure.is_some_and(|(at, _)| at.elapsed() < REOPEN_DELAY);
        if self.store.is_none() && !has_just_failed {
            match Store::open(&self.data_dir, self.settings.clone()) {
                Ok(mut store) => {
                    // First store the events in the spill folder: they are older than the events
                    // that are recorded from now on.
                    let _ = store.ingest_spilled();
                    self.failure = None;
                    self.store = Some(store);
                }
                Err(error) => {
                    self.log.write(&format!(
                        "could not open the store: {error}; nothing new is delivered until it opens"
                    ));
                    self.failure = Some((Instant::now(), error));
                }
            }
        }
        self.store.as_ref()
    }

    /// Makes a batch of one run's events. If one of the events starts or resumes the run or is a
    /// user's prompt, events that record the current settings are added. Returns `None` if the
    /// batch cannot be made; the reason is logged.
    pub(super) fn prepare(&self, mut events: Vec<Event>) -> Option<Batch> {
        if events.iter().any(Event::begins_something) {
            for warning in self.run_settings.clone().record_in(&mut events) {
                self.log.write(&warning);
            }
            self.run_settings.describe(&mut events, None, About::default());
        }
        for event in &mut events {
            // If a commit returns an error, the events may have been written all the same. When
            // they are sent again, the store recognises them by this key and drops them.
            event.fact.get_or_insert_with(|| format!("once:{}", Uuid::now_v7()).into());
        }
        match Batch::new(events, &self.settings) {
            Ok(batch) => Some(batch),
            Err(error) => {
                self.log.write(&format!("could not record a model request: {error}"));
                None
            }
        }
    }

    /// Runs the engine on a batch and returns the engine, in its state after the batch.
    /// `is_permanent` says that what is inserted into the run's requests may stay in the
    /// conversation; then messages are limited.
    pub(super) fn evaluate(
        &mut self,
        run: &RunIdentity,
        batch: &mut Batch,
        is_permanent: bool,
    ) -> Result<SyncedEngine, StoreError> {
        let engine = self.take_engine(run, is_permanent);
        let (Some(mut engine), Some(store)) = (engine, &self.store) else {
            return Err(self.failure());
        };
        store.evaluate(batch, &mut engine)?;
        for fault in &batch.step().faults {
            self.log.write(&fault.to_string());
        }
        Ok(engine)
    }

    /// Runs the engine on a batch again, because the batch has changed or another process has
    /// written to its run.
    pub(super) fn evaluate_again(
        &self,
        batch: &mut Batch,
        engine: &mut SyncedEngine,
    ) -> Result<(), StoreError> {
        self.store.as_ref().ok_or_else(|| self.failure())?.evaluate(batch, engine)
    }

    /// Commits batches in one transaction. Returns for each batch whether it was committed. A batch
    /// is not committed if another process has written to its run since the batch was evaluated.
    pub(super) fn commit(
        &mut self,
        batches: &mut [(&mut Batch, &mut SyncedEngine)],
    ) -> Result<Vec<bool>, StoreError> {
        let Some(store) = &mut self.store else { return Err(self.failure()) };
        match store.commit(batches) {
            Ok(committed) => Ok(committed.iter().map(Option::is_some).collect()),
            Err(error) => {
                self.store = None;
                self.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Keeps the engine of a committed batch in memory, for the run's next events.
    pub(super) fn keep_engine(&mut self, run: RunId, engine: SyncedEngine) {
        if self.engines.len() >= MAX_ENGINES
            && let Some(other) = self.engines.keys().next().cloned()
        {
            self.engines.remove(&other);
        }
        self.engines.insert(run, engine);
    }

    /// Writes a batch that could not be stored to the spill folder. Returns whether that succeeded.
    pub(super) fn spill(&self, batch: &Batch, why: &StoreError) -> bool {
        let spilled = batch.spill(&self.data_dir);
        let run = batch.run_id();
        self.log.write(&match &spilled {
            Ok(events) if events.iter().any(|event| event.disk_error.is_some()) => {
                format!("could not store events of run {run}: {why}; keeps them in memory")
            }
            Ok(_) => format!("could not store events of run {run}: {why}; spilled them"),
            Err(error) => {
                format!("could not store events of run {run}: {why}; nor spill them: {error}")
            }
        });
        spilled.is_ok()
    }

    fn failure(&self) -> StoreError {
        self.failure.as_ref().map_or(StoreError::Locked, |(_, error)| error.clone())
    }

    fn take_engine(&mut self, run: &RunIdentity, is_permanent: bool) -> Option<SyncedEngine> {
        if let Some(engine) = self.engines.remove(&run.run_id) {
            return Some(engine);
        }
        let policy = if is_permanent { permanent_policy() } else { DeliveryPolicy::default() };
        SyncedEngine::new(self.run_settings.engine(policy, run.parent_run_id.is_some())).ok()
    }
}
