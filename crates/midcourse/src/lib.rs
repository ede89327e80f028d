//! midcourse as a library: the durable trajectory and the way into it.
//!
//! The command `midcourse` is built on this crate, and so is every plugin that records in-process.
//! The engine itself is `midcourse-core`; nothing here judges, and nothing there touches a disk.

mod apis;
mod backtest;
mod blocks;
mod clock;
mod config;
mod event;
mod formats;
mod home;
mod hosts;
mod launch;
mod length;
mod recorder;
mod redact;
mod relation;
mod scenario;
mod shell;
mod sink;
mod store;
mod watch;

pub use apis::{
    Answer, Api, Conversation, Fact, Insertion, Item, News, Place, Request, Role, Way, insert,
};
pub use backtest::{Spoken, Verdict, backtest};
pub use clock::now;
pub use config::{
    Approval, Config, ConfigError, Flags, InForce, InvalidConfig, ProjectFile, SpeakingLimits,
    TrustError, Trusted,
};
pub use event::{Event, FactKey, ForeignRecord, Source};
pub use formats::events::{ForeignEvent, ForeignRun, read_run};
pub use formats::records::{LineDefaults, LineError, read_line};
pub use home::{HOME_VARIABLE, Home, NoHome};
pub use hosts::{Carrier, Decoded, Host, session_run};
pub use launch::{LAUNCH_VARIABLE, Launch, LaunchFolder};
pub use length::parse_length;
pub use recorder::{OnFailure, TrajectoryRecorder};
pub use redact::{InvalidPrefix, Redacted, Redaction, SecretShape, SecretShapes};
pub use relation::Standing;
pub use scenario::{
    Expected, Judgement, Scenario, ScenarioError, ScenarioVerdict, judge, read_scenarios,
};
pub use shell::in_shell;
pub use sink::{InMemoryTrajectorySink, Recorded, Recording, TrajectoryError, TrajectorySink};
pub use store::{
    Cursor, Durability, Finding, Hit, Imported, Link, Placed, Plan, RunKey, RunSummary,
    SearchIndex, Step, Store, StoreError, StoreSettings, StoreWriter, StoredRecord, Taken,
    has_spilled, spill, take_in, take_in_all,
};
pub use watch::{Seen, Watch, watch};

/// The examples of the documents compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Documents;
