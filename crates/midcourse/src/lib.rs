//! Records an LLM agent's run durably, analyses the run while it happens, and returns short
//! messages for the agent when it is in trouble.
//!
//! Create a [`Monitor`], report to it what happens in the agent's loop, and show the agent the text
//! that a report returns:
//!
//! ```
//! use midcourse::{AgentMessage, DataDir, Monitor, RunOutcome, ToolResult};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let data_dir = DataDir::at(folder.path());
//! let monitor = Monitor::open(&data_dir)?.host("my-agent");   // or Monitor::in_memory()
//! let run = monitor.begin_blocking("night-1")?;
//! let run = run.blocking();                                   // or await the same methods
//! run.message(AgentMessage::user("Make the tests pass."))?;
//! for call in ["c1", "c2", "c3"] {
//!     run.model_request("some-model", 3, &["bash"])?;         // its text goes into this request
//!     run.tool_started(call, "bash", serde_json::json!({"command": "make test"}))?;
//!     let mut output = "make: *** No rule to make target 'test'.  Stop.".to_owned();
//!     let report = run.tool_ended(call, "bash", ToolResult::error(output.as_str()))?;
//!     if let Some(text) = report.text() {
//!         output.push_str(&text);                             // its text goes with this result
//!         assert_eq!(call, "c3");
//!     }
//! }
//! run.end(RunOutcome::Failed)?;
//! # Ok(())
//! # }
//! ```
//!
//! When a method such as `tool_ended` returns, the event is on disk and survives `kill -9` and a
//! power cut. Secrets are redacted before anything is written. If the store cannot store an event,
//! for example because the disk is full, the event is dropped and the agent's run continues; once
//! the store works again, it gets a record that says how many events are missing. With
//! [`OnFailure::Escalate`], the caller gets the error instead.
//!
//! | to | use |
//! |---|---|
//! | choose providers, detectors, budgets or shadow mode | [`Monitor::engine`] with an [`Engine`] |
//! | write a provider, detector or classifier | [`FeedbackProvider`], [`GuidanceProvider`], [`PatternDetector`], [`Classifier`] |
//! | only record | [`TrajectoryRecorder`] and a [`TrajectorySink`] |
//! | store records elsewhere | [`RecordWriter`] in a [`SequencedSink`] |
//! | read recorded runs | [`Store::open_read_only`] |
//! | analyse finished runs | [`Engine::step`] on their records |
//!
//! This crate re-exports `midcourse-core`, the engine that analyses runs and does no I/O. So a
//! program needs only this one dependency.

mod clock;
mod data_dir;
mod dedupe;
mod event;
mod label;
mod monitor;
mod recorder;
mod redact;
mod sink;
mod store;

pub use clock::now;
pub use data_dir::{DATA_DIR_VARIABLE, DataDir, NoDataDir, sync_folder};
pub use dedupe::RecordStatus;
pub use event::{Channel, Event, FactKey, ForeignRecord, Source};
pub use label::{Label, LabelVerdict};
pub use monitor::{BlockingRun, Monitor, MonitoredRun, Report};
pub use recorder::{OnFailure, RecordOutcome, TrajectoryRecorder};
pub use redact::{
    InvalidPattern, InvalidPrefix, MarkerKey, Redacted, Redaction, SecretKind, SecretKinds,
};
pub use sink::{
    InMemoryTrajectorySink, RecordWriter, Recorded, Recording, SequencedSink, TrajectoryError,
    TrajectorySink, Writing,
};
pub use store::{
    Backlog, Backup, Batch, BrokenChain, ChainBody, ChainEntry, ChainError, ChainLimit, ChainPart,
    ChainPosition, ChainRecord, ChainReport, Cursor, Deleted, Durability, Entry, EntryFilter,
    EntryOrder, Finding, Findings, Head, Imported, Importer, Ingested, Intake, Link, ListedRun,
    MessageCounts, Outline, OutlineChanges, OutlineStep, PatternCount, Period, PeriodRuns,
    PeriodTotals, PeriodUsage, RecordAtSeq, RecordOfRun, RedactedRun, Repaired, RepairedRun,
    Restored, RunCursor, RunFilter, RunHeader, RunKey, RunOrder, RunSummary, RunTableQuery,
    SearchFilter, SearchHit, SearchIndex, SearchWords, Spilled, StepKind, StepState, Store,
    StoreError, StoreSettings, StoreWriter, StoredRecord, SummaryState, SyncedEngine, TableRun,
    Trouble, has_spilled, ingest, is_kept_in_memory, spill_event,
};

pub use midcourse_core::*;

/// Compiles and runs the code examples of `docs/library.md` when the documentation is tested.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Documents;
