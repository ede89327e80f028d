//! The monitor: record a run and get messages for the agent, in one object.
//!
//! An agent's loop reports what happens. Each report is recorded first and then evaluated, and the
//! [`Report`] that comes back says which messages to deliver, and where. A message whose delivery
//! could not be recorded is not returned. A failing sink does not fail the run unless the caller
//! wants it to ([`OnFailure::Escalate`]).

mod blocking;
mod evaluating_sink;
mod run;

pub use blocking::BlockingRun;
pub use run::{MonitoredRun, Report};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use compact_str::CompactString;
use midcourse_core::{Budget, Engine, RunId, RunIdentity};

use crate::data_dir::DataDir;
use crate::event::{Channel, Source};
use crate::recorder::{OnFailure, TrajectoryRecorder};
use crate::sink::{InMemoryTrajectorySink, TrajectoryError, TrajectorySink};
use crate::store::{Store, StoreError, StoreSettings, StoreWriter, SyncedEngine};
use evaluating_sink::EvaluatingSink;

type MakeEngine = dyn Fn(Option<&RunIdentity>) -> Engine + Send + Sync;

/// Records the runs of a program and tells it which messages to give to its agents.
///
/// Cloning it is cheap; clones share one sink.
#[derive(Clone)]
pub struct Monitor {
    sink: Arc<dyn TrajectorySink>,
    /// The data directory of the store that the sink writes to, from which stored runs are
    /// continued. `None` for other sinks.
    store: Option<DataDir>,
    host: CompactString,
    on_failure: OnFailure,
    make_engine: Arc<MakeEngine>,
}

impl Monitor {
    /// Records durably into the store in this data directory.
    pub fn open(data_dir: &DataDir) -> Result<Self, StoreError> {
        Self::open_with(data_dir, StoreSettings::default())
    }

    /// Like [`open`](Self::open), with settings for durability, redaction, timeouts and text
    /// length.
    pub fn open_with(data_dir: &DataDir, settings: StoreSettings) -> Result<Self, StoreError> {
        let writer = StoreWriter::open(data_dir, settings)?;
        Ok(Self { store: Some(data_dir.clone()), ..Self::with_sink(Arc::new(writer)) })
    }

    /// Records into memory: nothing is left when the monitor is dropped.
    pub fn in_memory() -> Self {
        Self::with_sink(Arc::new(InMemoryTrajectorySink::new()))
    }

    /// Records into the caller's own sink.
    pub fn with_sink(sink: Arc<dyn TrajectorySink>) -> Self {
        Self {
            sink,
            store: None,
            host: CompactString::const_new("library"),
            on_failure: OnFailure::default(),
            make_engine: Arc::new(|_| Engine::shipped(Budget::default())),
        }
    }

    /// Sets the name under which the program's runs are listed.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.host = name.into();
        self
    }

    /// Sets what happens when the sink fails to store an event.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets a function that makes the engine of each run, with other providers, detectors or
    /// budgets. It gets the run's identity if that is known when the run starts.
    #[must_use]
    pub fn engine(
        mut self,
        make: impl Fn(Option<&RunIdentity>) -> Engine + Send + Sync + 'static,
    ) -> Self {
        self.make_engine = Arc::new(make);
        self
    }

    /// Begins a run, or continues it if the store has records of it.
    pub async fn begin(
        &self,
        run: impl Into<RunIdentity>,
    ) -> Result<MonitoredRun, TrajectoryError> {
        let identity = run.into();
        let run = self.start(Some(&identity));
        run.identify(identity).await?;
        Ok(run)
    }

    /// [`begin`](Self::begin) for callers without a runtime; see [`MonitoredRun::blocking`].
    pub fn begin_blocking(
        &self,
        run: impl Into<RunIdentity>,
    ) -> Result<MonitoredRun, TrajectoryError> {
        pollster::block_on(self.begin(run))
    }

    /// Starts recording. If the identity is not known yet, call [`MonitoredRun::identify`] later;
    /// until then, events belong to a provisional run. If it is known and the run is stored, the
    /// run is continued.
    pub fn start(&self, identity: Option<&RunIdentity>) -> MonitoredRun {
        let made = catch_unwind(AssertUnwindSafe(|| (self.make_engine)(identity)));
        if made.is_err() {
            tracing::warn!("the engine could not be made; the run is recorded without analysis");
        }
        let engine = made.ok();
        self.monitored(match identity {
            Some(identity) => engine.and_then(|engine| self.restored(engine, &identity.run_id)),
            None => engine,
        })
    }

    /// Continues a run that this process monitored before. The new monitored run takes over the
    /// engine, so it knows everything that happened.
    pub fn restart(&self, run: &MonitoredRun) -> MonitoredRun {
        self.monitored(run.take_engine())
    }

    fn monitored(&self, engine: Option<Engine>) -> MonitoredRun {
        let sink = Arc::new(EvaluatingSink::new(Arc::clone(&self.sink), engine));
        let source = Source::new(&self.host, Channel::Library);
        let recorder = TrajectoryRecorder::new(Arc::<EvaluatingSink>::clone(&sink), source);
        MonitoredRun::new(recorder.on_failure(self.on_failure), sink)
    }

    /// The engine after it has read the stored records of the run. If they cannot be read, the
    /// engine starts without them. `None` if the engine's state cannot be saved: the wrapper that
    /// reads the records starts by saving the empty state.
    fn restored(&self, engine: Engine, run_id: &RunId) -> Option<Engine> {
        let Some(data_dir) = &self.store else { return Some(engine) };
        let mut synced = SyncedEngine::new(engine).ok()?;
        let folded = match Store::open_read_only(data_dir) {
            Ok(Some(store)) => store.fold(run_id.as_str(), &mut synced).map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = folded {
            tracing::warn!(%run_id, %error, "the run's earlier records are not analysed");
        }
        Some(synced.into_engine())
    }
}
