//! The monitor records a run and returns messages for its agent.
//!
//! An agent's loop reports each event to the monitor. The monitor stores the event, shows it to the
//! engine, and returns a [`Report`] with the messages to show to the agent. A message is stored
//! before it is returned; if it cannot be stored, it is not returned. If the sink fails to store an
//! event, the agent's run continues, unless the caller asked for an error
//! ([`OnFailure::Escalate`]).

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

/// Records the agent runs of a program, and returns the messages that the program should show to
/// its agents.
///
/// Cloning a monitor is cheap; clones share one sink.
#[derive(Clone)]
pub struct Monitor {
    sink: Arc<dyn TrajectorySink>,
    /// The data directory of the store that the sink writes to. Earlier records of a run are read
    /// from this store. `None` if the sink does not write to a store.
    store: Option<DataDir>,
    host: CompactString,
    on_failure: OnFailure,
    make_engine: Arc<MakeEngine>,
}

impl Monitor {
    /// Creates a monitor that records into the store in this data directory. If there is no store,
    /// it is created.
    pub fn open(data_dir: &DataDir) -> Result<Self, StoreError> {
        Self::open_with(data_dir, StoreSettings::default())
    }

    /// Creates a monitor that records into the store in this data directory, with settings for
    /// durability, redaction, timeouts and the length of texts.
    pub fn open_with(data_dir: &DataDir, settings: StoreSettings) -> Result<Self, StoreError> {
        let writer = StoreWriter::open(data_dir, settings)?;
        Ok(Self { store: Some(data_dir.clone()), ..Self::with_sink(Arc::new(writer)) })
    }

    /// Creates a monitor that records into memory: nothing is left when the monitor is dropped.
    pub fn in_memory() -> Self {
        Self::with_sink(Arc::new(InMemoryTrajectorySink::new()))
    }

    /// Creates a monitor that records into the caller's own sink. Records cannot be read back from
    /// a sink, so a run that an earlier process began is analysed without its earlier records.
    pub fn with_sink(sink: Arc<dyn TrajectorySink>) -> Self {
        Self {
            sink,
            store: None,
            host: CompactString::const_new("library"),
            on_failure: OnFailure::default(),
            make_engine: Arc::new(|_| Engine::shipped(Budget::default())),
        }
    }

    /// Sets the name of the program, which is shown with its runs. The default is `library`.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.host = name.into();
        self
    }

    /// Sets what happens when the sink fails to store an event. By default the event is dropped and
    /// the agent's run continues.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets the function that makes the engine (the analysis) of each run, to use other providers,
    /// detectors or budgets than the default ones. The function gets the run's identity, or `None`
    /// if the identity is not known when monitoring starts.
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

    /// The blocking version of [`begin`](Self::begin), for callers without an async runtime. Such a
    /// caller reports events with [`MonitoredRun::blocking`].
    pub fn begin_blocking(
        &self,
        run: impl Into<RunIdentity>,
    ) -> Result<MonitoredRun, TrajectoryError> {
        pollster::block_on(self.begin(run))
    }

    /// Prepares to monitor a run whose id may be unknown. Call [`MonitoredRun::identify`] once
    /// it is known; events that are reported before are stored under a temporary id and move into
    /// the run then. If `identity` is given and the run is in the store, the engine reads the run's
    /// earlier records first.
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

    /// Continues a run that this process monitored before. The new `MonitoredRun` takes over the
    /// engine of `run`, which has analysed everything so far; `run` itself then only records.
    pub fn restart(&self, run: &MonitoredRun) -> MonitoredRun {
        self.monitored(run.take_engine())
    }

    fn monitored(&self, engine: Option<Engine>) -> MonitoredRun {
        let sink = Arc::new(EvaluatingSink::new(Arc::clone(&self.sink), engine));
        let source = Source::new(&self.host, Channel::Library);
        let recorder = TrajectoryRecorder::new(Arc::<EvaluatingSink>::clone(&sink), source);
        MonitoredRun::new(recorder.on_failure(self.on_failure), sink)
    }

    /// Shows the engine the stored records of the run. If they cannot be read, the engine starts
    /// without them. Returns `None` if `SyncedEngine::new` fails; the run is then recorded without
    /// analysis.
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
