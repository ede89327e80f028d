//! Random operations on a store, compared with a model that keeps everything in memory.
//!
//! Events are new, repeated, repeated with other content, from child runs, or spilled (put into a
//! folder because the store was busy). In between, the store is closed and opened, or its process
//! is killed, also in the middle of a transaction. At the end the store and the model must have the
//! same records in the same order, and `verify` must find nothing wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use midcourse::{
    AgentMessage, Budget, Channel, DataDir, DecisionPoint, Engine, Event, RecordStatus,
    RunIdentity, Source, Store, SyncedEngine, ToolResult, TrajectoryPayload, spill_event,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::events::{at, findings, test_settings};

#[derive(Debug, Clone)]
enum Operation {
    /// A report that a tool call ended. Because `call` is random, the same call may be reported
    /// several times, by one source or two and with different results.
    Call { run: u8, call: u8, text: u8, source: u8, narrated: bool },
    /// A user message. Two messages are always two records, even if their texts are equal.
    Message { run: u8, text: u8 },
    /// A message in a child run.
    Child { run: u8, child: u8 },
    /// An event that was spilled because the store was busy.
    Spilled { run: u8, call: u8, text: u8 },
    /// Several events in one transaction.
    Batch { run: u8, calls: Vec<u8> },
    /// The process is killed in the middle of a transaction.
    TornTransaction { run: u8 },
    /// The process is killed, and another continues with the files on disk.
    Crash,
    /// The store is closed and opened again.
    Reopen,
    /// SQLite moves its write-ahead log into the database file.
    WalCheckpoint,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let run = || 0..3_u8;
    let operation = prop_oneof![
        8 => (run(), 0..6_u8, 0..3_u8, 0..2_u8, any::<bool>()).prop_map(
            |(run, call, text, source, narrated)| Operation::Call { run, call, text, source, narrated }
        ),
        3 => (run(), 0..9_u8).prop_map(|(run, text)| Operation::Message { run, text }),
        2 => (run(), 0..2_u8).prop_map(|(run, child)| Operation::Child { run, child }),
        2 => (run(), 0..6_u8, 0..2_u8)
            .prop_map(|(run, call, text)| Operation::Spilled { run, call, text }),
        1 => (run(), vec(0..9_u8, 1..5)).prop_map(|(run, calls)| Operation::Batch { run, calls }),
        1 => run().prop_map(|run| Operation::TornTransaction { run }),
        2 => Just(Operation::Crash),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::WalCheckpoint),
    ];
    vec(operation, 1..40)
}

/// A record that the model expects in the store.
#[derive(Debug, Clone, PartialEq)]
struct Fact {
    /// Identifies what the record reports, for example one tool call. Further reports with the same
    /// key and kind add no record. `None` if each report gets a record of its own.
    key: Option<String>,
    source: Source,
    /// The payload of the first report, before other sources added missing fields.
    first: Value,
    payload: Value,
}

#[derive(Debug, Default)]
struct Model(BTreeMap<String, Vec<Fact>>);

impl Model {
    /// Adds an event to the model. Returns the status and the seq that the store should report.
    fn ingest(&mut self, event: &Event) -> (RecordStatus, u64) {
        if let Some(parent) = &event.run.parent_run_id {
            let identity = RunIdentity::root(parent.as_str());
            self.0.entry(parent.to_string()).or_insert_with(|| {
                vec![Fact {
                    key: Some("run".into()),
                    source: Source::new("midcourse", Channel::Store),
                    first: Value::Null,
                    payload: json!({"kind": "run_started", "identity": identity}),
                }]
            });
        }
        let run = self.0.entry(event.run.run_id.to_string()).or_default();
        let payload = serde_json::to_value(&event.payload).unwrap();
        let key = event.fact.as_ref().map(|fact| fact.as_str().to_owned());
        let known = run.iter_mut().enumerate().find(|(_, fact)| {
            key.is_some() && fact.key == key && fact.payload["kind"] == payload["kind"]
        });
        let Some((index, known)) = known else {
            let (source, first) = (event.source.clone(), payload.clone());
            run.push(Fact { key, source, first, payload });
            return (RecordStatus::New, run.len() as u64 - 1);
        };
        let status = if known.source == event.source {
            if known.first == payload { RecordStatus::Duplicate } else { RecordStatus::Conflict }
        } else if known.payload["result"]["narration"].is_null()
            && !payload["result"]["narration"].is_null()
        {
            known.payload["result"]["narration"] = payload["result"]["narration"].clone();
            RecordStatus::Merged
        } else {
            RecordStatus::Duplicate
        };
        (status, index as u64)
    }
}

/// A text for an event. Every third one is so long that the store compresses it separately.
fn text(n: u8) -> String {
    format!("text {n} ").repeat(if n % 3 == 2 { 900 } else { 1 })
}

fn call(run: u8, call: u8, n: u8, source: u8, narrated: bool) -> Event {
    let mut result = ToolResult::text(text(n));
    result.narration = narrated.then(|| format!("narrated by {source}"));
    let payload = TrajectoryPayload::ToolEnded {
        tool_call_id: call.to_string().into(),
        tool_name: "bash".into(),
        result,
        is_error: n == 1,
    };
    let source = Source::new("test", if source == 0 { Channel::Hook } else { Channel::Proxy });
    Event::new(RunIdentity::root(run.to_string()), source, at(u64::from(n)), payload)
}

fn message(run: RunIdentity, n: u8) -> Event {
    let payload = TrajectoryPayload::MessageAppended { message: AgentMessage::user(text(n)) };
    Event::new(run, Source::new("test", Channel::Hook), at(u64::from(n)), payload)
}

struct Comparison {
    folder: TempDir,
    store: Option<Store>,
    engine: SyncedEngine,
    model: Model,
    spilled: Vec<Event>,
    steps: u64,
}

impl Comparison {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        let mut comparison = Self {
            folder,
            store: None,
            engine,
            model: Model::default(),
            spilled: Vec::new(),
            steps: 0,
        };
        comparison.open();
        comparison
    }

    fn data_dir(&self) -> DataDir {
        DataDir::at(self.folder.path().join("home"))
    }

    fn open(&mut self) {
        self.store = None;
        self.store = Some(Store::open(&self.data_dir(), test_settings()).unwrap());
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }

    fn ingest(&mut self, event: Event) -> Result<(), TestCaseError> {
        // The store takes in spilled events before it writes others.
        let ingested = self.store().ingest_spilled().unwrap();
        prop_assert_eq!(ingested, self.spilled.len());
        for event in std::mem::take(&mut self.spilled) {
            self.model.ingest(&event);
        }
        let (status, seq) = self.model.ingest(&event);
        self.steps += 1;
        let recorded = if self.steps.is_multiple_of(3) {
            self.store().append(event).unwrap()
        } else {
            let Self { store, engine, .. } = self;
            let event_with_point = event.clone().at_decision_point(DecisionPoint::PreToolSelection);
            let store = store.as_mut().unwrap();
            let (recorded, step) = store.step(event_with_point, engine).unwrap();
            // The messages that the engine sends, and what followed them (outcomes), are stored
            // right after the event. The model has no engine, so it copies these records.
            let (run_id, conclusions) =
                (event.run.run_id.as_str(), step.outcomes.len() + step.deliveries.len());
            let first = recorded.record.seq + 1;
            let records = store.records(run_id, first, conclusions).unwrap();
            prop_assert_eq!(records.len(), conclusions);
            self.model.0.get_mut(run_id).unwrap().extend(records.into_iter().map(|stored| Fact {
                key: None,
                source: Source::new("midcourse", Channel::Engine),
                first: Value::Null,
                payload: stored.value,
            }));
            recorded
        };
        prop_assert_eq!((recorded.status, recorded.record.seq), (status, seq));
        Ok(())
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Call { run, call: id, text, source, narrated } => {
                self.ingest(call(*run, *id, *text, *source, *narrated))?;
            }
            Operation::Message { run, text } => {
                self.ingest(message(RunIdentity::root(run.to_string()), *text))?;
            }
            Operation::Child { run, child } => {
                let parent = RunIdentity::root(run.to_string());
                let run = RunIdentity::child_of(&parent, format!("{run}.{child}"));
                self.ingest(message(run, *child))?;
            }
            Operation::Spilled { run, call: id, text } => {
                let event = call(*run, *id, *text, 0, false);
                spill_event(&self.data_dir(), event.clone(), &test_settings()).unwrap();
                self.spilled.push(event);
                // The store takes spilled events in the order of their times; events with the same
                // time stay in the order in which they were spilled.
                self.spilled.sort_by_key(|event| event.at.unix_ms());
            }
            Operation::Batch { run, calls } => {
                let events: Vec<_> = calls.iter().map(|id| call(*run, *id, 0, 0, false)).collect();
                let expected: Vec<_> =
                    events.iter().map(|event| self.model.ingest(event)).collect();
                let recorded = self.store().append_all(events).unwrap();
                let found = recorded.into_iter().map(Result::unwrap);
                let found: Vec<_> = found.map(|done| (done.status, done.record.seq)).collect();
                prop_assert_eq!(found, expected);
            }
            Operation::TornTransaction { run } => {
                let connection = rusqlite::Connection::open(self.data_dir().store_file()).unwrap();
                connection
                    .execute_batch(&format!(
                        "BEGIN IMMEDIATE; UPDATE runs SET next_seq = next_seq + 1;
                         UPDATE records SET payload = 'torn' WHERE seq = {run};"
                    ))
                    .unwrap();
                self.crash();
                drop(connection);
            }
            Operation::Crash => self.crash(),
            Operation::Reopen => self.open(),
            Operation::WalCheckpoint => {
                let connection = rusqlite::Connection::open(self.data_dir().store_file()).unwrap();
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            }
        }
        Ok(())
    }

    /// Simulates a kill: copies the files as they are, and opens the copy as a new process would.
    fn crash(&mut self) {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(&self.data_dir(), &copy.path().join("home"));
        self.store = None;
        self.folder = copy;
        self.engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        self.open();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        while self.store().ingest_spilled().unwrap() > 0 {}
        for event in std::mem::take(&mut self.spilled) {
            self.model.ingest(&event);
        }
        let store = self.store.as_ref().unwrap();
        prop_assert_eq!(findings(store), Vec::<String>::new());
        prop_assert_eq!(store.run_count().unwrap(), self.model.0.len() as u64);
        for (run, facts) in &self.model.0 {
            let records = store.records(run, 0, usize::MAX).unwrap();
            let found: Vec<_> = records
                .iter()
                .map(|record| (record.source.clone(), record.value.clone()))
                .collect();
            let expected: Vec<_> =
                facts.iter().map(|fact| (fact.source.clone(), fact.payload.clone())).collect();
            prop_assert_eq!(found, expected);
            let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
            prop_assert!(store.fold(run, &mut engine).unwrap());
        }
        Ok(())
    }
}

fn copy_folder(data_dir: &DataDir, to: &Path) {
    fs::create_dir_all(to.join("spill")).unwrap();
    for (from, to) in
        [(data_dir.path().to_owned(), to.to_owned()), (data_dir.spill_folder(), to.join("spill"))]
    {
        for entry in fs::read_dir(from).into_iter().flatten() {
            let path = entry.unwrap().path();
            // SQLite builds its shared-memory file again after all its processes were killed.
            if path.is_file() && !path.to_string_lossy().ends_with("-shm") {
                fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn the_store_has_the_same_records_as_the_model(operations in operations()) {
        let mut comparison = Comparison::new();
        for operation in &operations {
            comparison.apply(operation)?;
        }
        comparison.check()?;
    }
}
