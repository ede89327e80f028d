//! midcourse as a library: record an agent's run durably, analyse it, and get messages for the agent.

#![warn(missing_docs)]

mod clock;
mod data_dir;
mod dedupe;
mod event;
mod monitor;
mod recorder;
mod redact;
mod sink;
mod store;

pub use clock::now;
pub use data_dir::{DATA_DIR_VARIABLE, DataDir, NoDataDir, sync_folder};
pub use dedupe::RecordStatus;
pub use event::{Event, FactKey, ForeignRecord, Source};
pub use monitor::{BlockingRun, Monitor, MonitoredRun, Report};
pub use recorder::{OnFailure, RecordOutcome, TrajectoryRecorder};
pub use redact::{InvalidPrefix, Redacted, Redaction, SecretKind, SecretKinds};
pub use sink::{
    InMemoryTrajectorySink, RecordWriter, Recorded, Recording, SequencedSink, TrajectoryError,
    TrajectorySink, Writing,
};
pub use store::{
    Batch, Cursor, Durability, Finding, Imported, Ingested, Link, RecordAtSeq, RunKey, RunSummary,
    SearchHit, SearchIndex, Store, StoreError, StoreSettings, StoreWriter, StoredRecord,
    SyncedEngine, has_spilled, ingest, ingest_all, spill_event,
};

pub use midcourse_core::*;

/// Compiles and runs the examples in the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Documents;
