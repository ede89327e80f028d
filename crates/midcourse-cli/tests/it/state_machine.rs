//! Random histories of a store against a model that remembers everything.
//!
//! Whatever is appended, reported twice, contradicted, started as a child, spilled, cut off in the
//! middle or opened again: the store holds what the model holds, at the same places, and verifies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use midcourse::{
    AgentMessage, Budget, DataDir, DecisionPoint, Engine, Event, RecordStatus, RunIdentity, Source,
    Store, SyncedEngine, ToolResult, TrajectoryPayload, spill_event,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::events::{at, findings, quick};

/// Something that happens to a store.
#[derive(Debug, Clone)]
enum Happening {
    /// A call ends, or is said to end again; the source and the content may be others.
    Call { run: u8, call: u8, text: u8, source: u8, narrated: bool },
    /// A message, which has no key.
    Message { run: u8, text: u8 },
    /// A subagent's message.
    Child { run: u8, child: u8 },
    /// An event that the store did not take in time.
    Spilled { run: u8, call: u8, text: u8 },
    /// Several events with one commit.
    Batch { run: u8, calls: Vec<u8> },
    /// An event in the middle of whose transaction the process dies.
    Torn { run: u8 },
    /// The process dies, and another one goes on with what is on disk.
    Crash,
    /// The store is closed and opened.
    Reopen,
    /// The log is folded into the database.
    Fold,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let run = || 0..3_u8;
    let happening = prop_oneof![
        8 => (run(), 0..6_u8, 0..3_u8, 0..2_u8, any::<bool>()).prop_map(
            |(run, call, text, source, narrated)| Happening::Call { run, call, text, source, narrated }
        ),
        3 => (run(), 0..9_u8).prop_map(|(run, text)| Happening::Message { run, text }),
        2 => (run(), 0..2_u8).prop_map(|(run, child)| Happening::Child { run, child }),
        2 => (run(), 0..6_u8, 0..2_u8)
            .prop_map(|(run, call, text)| Happening::Spilled { run, call, text }),
        1 => (run(), vec(0..9_u8, 1..5)).prop_map(|(run, calls)| Happening::Batch { run, calls }),
        1 => run().prop_map(|run| Happening::Torn { run }),
        2 => Just(Happening::Crash),
        1 => Just(Happening::Reopen),
        1 => Just(Happening::Fold),
    ];
    vec(happening, 1..40)
}

/// What a record is in the model: its kind, its key, who said it first, and its payload.
#[derive(Debug, Clone, PartialEq)]
struct Fact {
    key: Option<String>,
    source: String,
    /// What the source said before others filled it in.
    first: Value,
    payload: Value,
}

#[derive(Debug, Default)]
struct Model(BTreeMap<String, Vec<Fact>>);

impl Model {
    /// What becomes of an event, and the place of its record.
    fn take(&mut self, event: &Event) -> (RecordStatus, u64) {
        if let Some(parent) = &event.run.parent_run_id {
            let identity = RunIdentity::root(parent.as_str());
            self.0.entry(parent.to_string()).or_insert_with(|| {
                vec![Fact {
                    key: Some("run".into()),
                    source: "midcourse/store".into(),
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
        let Some((place, known)) = known else {
            let (source, first) = (event.source.as_str().into(), payload.clone());
            run.push(Fact { key, source, first, payload });
            return (RecordStatus::New, run.len() as u64 - 1);
        };
        let standing = if known.source == event.source.as_str() {
            if known.first == payload { RecordStatus::Duplicate } else { RecordStatus::Conflict }
        } else if known.payload["result"]["narration"].is_null()
            && !payload["result"]["narration"].is_null()
        {
            known.payload["result"]["narration"] = payload["result"]["narration"].clone();
            RecordStatus::Merged
        } else {
            RecordStatus::Duplicate
        };
        (standing, place as u64)
    }
}

/// A text; every third is long enough to be a body of its own.
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
    let source = Source::new("test", if source == 0 { "hook" } else { "proxy" });
    Event::new(RunIdentity::root(run.to_string()), source, at(u64::from(n)), payload)
}

fn message(run: RunIdentity, n: u8) -> Event {
    let payload = TrajectoryPayload::MessageAppended { message: AgentMessage::user(text(n)) };
    Event::new(run, Source::new("test", "hook"), at(u64::from(n)), payload)
}

struct World {
    folder: TempDir,
    store: Option<Store>,
    watch: SyncedEngine,
    model: Model,
    spilled: Vec<Event>,
    steps: u64,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let watch = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        let mut world = Self {
            folder,
            store: None,
            watch,
            model: Model::default(),
            spilled: Vec::new(),
            steps: 0,
        };
        world.open();
        world
    }

    fn home(&self) -> DataDir {
        DataDir::at(self.folder.path().join("home"))
    }

    fn open(&mut self) {
        self.store = None;
        self.store = Some(Store::open(&self.home(), quick()).unwrap());
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }

    fn take(&mut self, event: Event) -> Result<(), TestCaseError> {
        // Whatever was spilled comes first.
        let taken = self.store().ingest_spilled().unwrap();
        prop_assert_eq!(taken, self.spilled.len());
        for event in std::mem::take(&mut self.spilled) {
            self.model.take(&event);
        }
        let (standing, seq) = self.model.take(&event);
        self.steps += 1;
        let recorded = if self.steps.is_multiple_of(3) {
            self.store().append(event).unwrap()
        } else {
            let Self { store, watch, .. } = self;
            let asked = event.clone().at_decision_point(DecisionPoint::PreToolSelection);
            let store = store.as_mut().unwrap();
            let (recorded, step) = store.step(asked, watch).unwrap();
            // Deliveries and outcomes are records too, which the model does not predict.
            let (run_id, conclusions) =
                (event.run.run_id.as_str(), step.outcomes.len() + step.deliveries.len());
            let first = recorded.record.seq + 1;
            let records = store.records(run_id, first, conclusions).unwrap();
            prop_assert_eq!(records.len(), conclusions);
            self.model.0.get_mut(run_id).unwrap().extend(records.into_iter().map(|stored| Fact {
                key: None,
                source: "midcourse/engine".into(),
                first: Value::Null,
                payload: stored.value,
            }));
            recorded
        };
        prop_assert_eq!((recorded.status, recorded.record.seq), (standing, seq));
        Ok(())
    }

    fn happen(&mut self, happening: &Happening) -> Result<(), TestCaseError> {
        match happening {
            Happening::Call { run, call: id, text, source, narrated } => {
                self.take(call(*run, *id, *text, *source, *narrated))?;
            }
            Happening::Message { run, text } => {
                self.take(message(RunIdentity::root(run.to_string()), *text))?;
            }
            Happening::Child { run, child } => {
                let parent = RunIdentity::root(run.to_string());
                let run = RunIdentity::child_of(&parent, format!("{run}.{child}"));
                self.take(message(run, *child))?;
            }
            Happening::Spilled { run, call: id, text } => {
                let event = call(*run, *id, *text, 0, false);
                spill_event(&self.home(), event.clone(), &quick()).unwrap();
                self.spilled.push(event);
                // They are taken in by the time of the event, then in the order they came.
                self.spilled.sort_by_key(|event| event.at.unix_ms());
            }
            Happening::Batch { run, calls } => {
                let events: Vec<_> = calls.iter().map(|id| call(*run, *id, 0, 0, false)).collect();
                let expected: Vec<_> = events.iter().map(|event| self.model.take(event)).collect();
                let recorded = self.store().append_all(events).unwrap();
                let found = recorded.into_iter().map(Result::unwrap);
                let found: Vec<_> = found.map(|done| (done.status, done.record.seq)).collect();
                prop_assert_eq!(found, expected);
            }
            Happening::Torn { run } => {
                let other = rusqlite::Connection::open(self.home().store_file()).unwrap();
                other
                    .execute_batch(&format!(
                        "BEGIN IMMEDIATE; UPDATE runs SET next_seq = next_seq + 1;
                         UPDATE records SET payload = 'torn' WHERE seq = {run};"
                    ))
                    .unwrap();
                self.crash();
                drop(other);
            }
            Happening::Crash => self.crash(),
            Happening::Reopen => self.open(),
            Happening::Fold => {
                let other = rusqlite::Connection::open(self.home().store_file()).unwrap();
                other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            }
        }
        Ok(())
    }

    /// Goes on with the files as they are at this moment, as after a kill.
    fn crash(&mut self) {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(&self.home(), &copy.path().join("home"));
        self.store = None;
        self.folder = copy;
        self.watch = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        self.open();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        while self.store().ingest_spilled().unwrap() > 0 {}
        for event in std::mem::take(&mut self.spilled) {
            self.model.take(&event);
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
            let mut watch = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
            prop_assert!(store.fold(run, &mut watch).unwrap());
        }
        Ok(())
    }
}

fn copy_folder(home: &DataDir, to: &Path) {
    fs::create_dir_all(to.join("spill")).unwrap();
    for (from, to) in
        [(home.path().to_owned(), to.to_owned()), (home.spill_folder(), to.join("spill"))]
    {
        for entry in fs::read_dir(from).into_iter().flatten() {
            let path = entry.unwrap().path();
            // The shared memory dies with the processes.
            if path.is_file() && !path.to_string_lossy().ends_with("-shm") {
                fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn the_store_holds_what_a_model_holds(happenings in happenings()) {
        let mut world = World::new();
        for happening in &happenings {
            world.happen(happening)?;
        }
        world.check()?;
    }
}
