//! Events for tests, stores in temporary folders, and the sinks (places that store events) that the
//! tests in `contract.rs` check.
//!
//! The time of every event is relative to a fixed moment, so that tests do not depend on the clock.

use std::sync::Arc;
use std::time::Duration;

use midcourse::{
    AgentMessage, DataDir, Durability, Event, InMemoryTrajectorySink, Recorded, Recording, RunId,
    RunIdentity, Source, Store, StoreError, StoreSettings, StoreWriter, Timestamp, ToolResult,
    TrajectoryError, TrajectoryPayload, TrajectoryRecord, TrajectorySink,
};
use serde_json::json;
use tempfile::TempDir;

/// The time `seconds` after a fixed moment.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_790_000_000_000 + seconds * 1_000)
}

pub(crate) fn hook() -> Source {
    Source::new("test", midcourse::Channel::Hook)
}

pub(crate) fn root(run: &str) -> RunIdentity {
    RunIdentity::root(run)
}

pub(crate) fn tool_started(run: &str, call: &str) -> Event {
    let payload = TrajectoryPayload::ToolStarted {
        tool_call_id: call.into(),
        tool_name: "bash".into(),
        args: json!({"command": "make"}),
    };
    Event::new(root(run), hook(), at(0), payload)
}

pub(crate) fn tool_ended(run: &str, call: &str, text: &str) -> Event {
    let payload = TrajectoryPayload::ToolEnded {
        tool_call_id: call.into(),
        tool_name: "bash".into(),
        result: ToolResult::text(text),
        is_error: false,
    };
    Event::new(root(run), hook(), at(0), payload)
}

pub(crate) fn user_message(run: &str, text: &str) -> Event {
    let payload = TrajectoryPayload::MessageAppended { message: AgentMessage::user(text) };
    Event::new(root(run), hook(), at(0), payload)
}

/// The text of a record's tool result or user message; the kind of any other record.
/// A text without the hashes in its markers, which differ from store to store: `[redacted:KIND]`.
pub(crate) fn without_hashes(text: &str) -> String {
    let mut parts = text.split("[redacted:");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (marker, rest) = part.split_once(']').unwrap();
        let (kind, hash) = marker.split_once(':').unwrap();
        assert_eq!(hash.len(), 6, "{marker}");
        all.push_str(&format!("[redacted:{kind}]{rest}"));
    }
    all
}

pub(crate) fn text_of(record: &TrajectoryRecord) -> String {
    match &record.payload {
        TrajectoryPayload::ToolEnded { result, .. } => result.comparable_text().into_owned(),
        TrajectoryPayload::MessageAppended { message: AgentMessage::User { content, .. } } => {
            match content {
                midcourse::UserContent::Text(text) => text.clone(),
                midcourse::UserContent::Blocks(_) => String::new(),
            }
        }
        other => other.kind().to_owned(),
    }
}

/// Settings for tests in which the store itself need not survive a power cut: fewer syncs make them
/// fast. A write waits up to two minutes for a locked store, so that a busy machine fails no test.
pub(crate) fn test_settings() -> StoreSettings {
    StoreSettings {
        durability: Durability::Normal,
        busy_timeout: Duration::from_secs(120),
        ..StoreSettings::default()
    }
}

/// A data directory in a temporary folder, which is removed on drop.
pub(crate) struct TempStore {
    folder: TempDir,
}

impl TempStore {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn data_dir(&self) -> DataDir {
        DataDir::at(self.folder.path().join("home"))
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(&self.data_dir(), test_settings()).unwrap()
    }

    pub(crate) fn findings(&self) -> Vec<String> {
        findings(&self.open())
    }
}

/// The problems that `verify` finds in the whole store, or the error if the store cannot be read.
pub(crate) fn findings(store: &Store) -> Vec<String> {
    let found = || -> Result<Vec<String>, StoreError> {
        let mut findings = store.verify_file()?;
        for run in store.runs(usize::MAX)? {
            findings.extend(store.verify_run(&run.run_id)?);
        }
        Ok(findings.iter().map(ToString::to_string).collect())
    };
    found().unwrap_or_else(|error| vec![error.to_string()])
}

/// A kind of sink that the tests in `contract.rs` check.
pub(crate) trait SinkUnderTest {
    /// Opens a sink. If a test opens two, both write to the same records, as two processes would.
    fn sink(&self) -> Arc<dyn TrajectorySink>;
    fn records(&self, run: &str) -> Vec<TrajectoryRecord>;
}

#[derive(Default)]
pub(crate) struct InMemory(Arc<InMemoryTrajectorySink>);

impl SinkUnderTest for InMemory {
    fn sink(&self) -> Arc<dyn TrajectorySink> {
        Arc::clone(&self.0) as Arc<dyn TrajectorySink>
    }

    fn records(&self, run: &str) -> Vec<TrajectoryRecord> {
        self.0.records(&RunId::from(run))
    }
}

/// A sink that opens the store for every event, as each hook process does.
pub(crate) struct OpenedPerEvent(pub(crate) TempStore);

struct OpenPerEventSink(DataDir);

impl TrajectorySink for OpenPerEventSink {
    fn record(&self, event: Event) -> Recording<'_> {
        let recorded: Result<Recorded, TrajectoryError> = Store::open(&self.0, test_settings())
            .and_then(|mut store| store.append(event))
            .map_err(TrajectoryError::from);
        Box::pin(std::future::ready(recorded))
    }
}

impl SinkUnderTest for OpenedPerEvent {
    fn sink(&self) -> Arc<dyn TrajectorySink> {
        Arc::new(OpenPerEventSink(self.0.data_dir()))
    }

    fn records(&self, run: &str) -> Vec<TrajectoryRecord> {
        self.0.open().trajectory(run).unwrap()
    }
}

/// A store behind a writer thread. Each opened sink has its own thread; all write to one file.
pub(crate) struct WithWriterThread(pub(crate) TempStore);

impl SinkUnderTest for WithWriterThread {
    fn sink(&self) -> Arc<dyn TrajectorySink> {
        Arc::new(StoreWriter::open(&self.0.data_dir(), test_settings()).unwrap())
    }

    fn records(&self, run: &str) -> Vec<TrajectoryRecord> {
        self.0.open().trajectory(run).unwrap()
    }
}

/// Removes the events that are kept in memory, as a restart of the machine does.
pub(crate) fn empty_memory(data_dir: &DataDir) {
    let hash = blake3::hash(data_dir.path().as_os_str().as_encoded_bytes()).to_hex();
    let name = hash.get(..16).unwrap();
    for user in std::fs::read_dir("/dev/shm").unwrap() {
        let folder = user.unwrap().path().join(name);
        if folder.is_dir() {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
