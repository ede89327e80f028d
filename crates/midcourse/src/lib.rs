//! midcourse as a library: the durable trajectory and the way into it.
//!
//! The command `midcourse` is built on this crate, and so is every plugin that records in-process.
//! The engine itself is `midcourse-core`; nothing here judges, and nothing there touches a disk.

mod clock;
mod event;
mod home;
mod recorder;
mod redact;
mod relation;
mod sink;
mod store;
mod watch;

pub use clock::now;
pub use event::{Event, FactKey, ForeignRecord, Source};
pub use home::{HOME_VARIABLE, Home, NoHome, sync_folder};
pub use recorder::{OnFailure, TrajectoryRecorder};
pub use redact::{InvalidPrefix, Redacted, Redaction, SecretKind, SecretKinds};
pub use relation::Standing;
pub use sink::{InMemoryTrajectorySink, Recorded, Recording, TrajectoryError, TrajectorySink};
pub use store::{
    Cursor, Durability, Finding, Hit, Imported, Link, Placed, Plan, RunKey, RunSummary,
    SearchIndex, Step, Store, StoreError, StoreSettings, StoreWriter, StoredRecord, Taken,
    has_spilled, spill, take_in, take_in_all,
};
pub use watch::{Seen, Watch, watch};

pub use midcourse_core::*;

/// The examples of the documents compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Documents;
