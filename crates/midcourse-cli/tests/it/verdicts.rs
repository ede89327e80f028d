//! The judgement on our own suite, and that it is the same however a run comes in: at once, event by
//! event from a checkpoint, in fresh processes, or from the store.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use midcourse::{
    Budget, Checkpoint, DecisionPoint, Delivery, Engine, RunIdentity, TrajectoryPayload,
    TrajectoryRecord,
};
use midcourse::{Event, Source, Store, SyncedEngine};
use midcourse_cli::scenario::{Scenario, judge, read_scenarios};
use serde_json::Value;

use crate::events::{Place, quick};

/// A word about trouble, and the event it came with.
type Word = (usize, String);

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scenarios")
}

fn scenarios() -> Vec<Scenario> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(suite()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files
        .iter()
        .flat_map(|file| read_scenarios(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

fn engine() -> Engine {
    Engine::shipped(Budget::default())
}

fn is_about_trouble(delivery: &Delivery) -> bool {
    delivery.why().is_none_or(|why| !why.cause.is_limit())
}

fn at_once(scenario: &Scenario) -> Vec<Word> {
    let words = judge(scenario, &mut engine()).words;
    words.into_iter().map(|word| (word.event, word.delivery.text())).collect()
}

/// The facts of a scenario, its beginning included: the event, its records, and whether the engine
/// is asked after them.
fn facts(scenario: &Scenario) -> Vec<(usize, TrajectoryRecord, bool)> {
    let identity = RunIdentity::root(scenario.name.as_str());
    let begins = TrajectoryPayload::RunStarted { identity: identity.clone() };
    let started = scenario.events.iter().flatten().next().unwrap().at();
    let mut facts = vec![(0, TrajectoryRecord::new(0, started, begins).in_run(&identity), false)];
    for (event, records) in (1..).zip(&scenario.events) {
        for (at, record) in records.iter().enumerate() {
            let is_last = at + 1 == records.len();
            facts.push((event, record.clone().in_run(&identity), is_last));
        }
    }
    facts
}

/// Each record meets an engine that knows nothing but the checkpoint's bytes.
fn from_checkpoints(scenario: &Scenario) -> Vec<Word> {
    let (mut words, mut next_seq) = (Vec::new(), 0_u64);
    let mut saved: Option<Vec<u8>> = None;
    for (event, record, is_asked) in facts(scenario) {
        let mut engine = engine();
        if let Some(bytes) = &saved {
            engine.restore(&Checkpoint::from(bytes.clone())).unwrap();
        }
        let record = TrajectoryRecord { seq: next_seq, ..record };
        let point = is_asked.then_some(DecisionPoint::PreToolSelection);
        let step = engine.step(&record, point);
        next_seq += 1 + step.records.len() as u64;
        let deliveries = step.deliveries.iter().filter(|delivery| is_about_trouble(delivery));
        words.extend(deliveries.map(|delivery| (event, delivery.text())));
        saved = Some(engine.checkpoint().unwrap().as_bytes().to_vec());
    }
    words
}

fn event_of(record: TrajectoryRecord, run: &str) -> Event {
    let (at, source) = (record.at(), Source::new("test", "hook"));
    Event::new(RunIdentity::root(run), source, at, record.payload)
}

/// Each record is a step of a hook that opens what the one before has left.
fn through_the_store(scenario: &Scenario, store: &mut Store) -> Vec<Word> {
    let mut words = Vec::new();
    for (event, record, is_asked) in facts(scenario) {
        let mut watch = SyncedEngine::new(engine()).unwrap();
        let point = is_asked.then_some(DecisionPoint::PreToolSelection);
        let mut told = event_of(record, &scenario.name);
        told.decision_point = point;
        let (_, step) = store.step(told, &mut watch).unwrap();
        let deliveries = step.deliveries.iter().filter(|delivery| is_about_trouble(delivery));
        words.extend(deliveries.map(|delivery| (event, delivery.text())));
    }
    words
}

/// What was stored, formed into opinions anew.
fn from_the_store(scenario: &Scenario, store: &Store) -> Vec<Word> {
    let (mut engine, mut words) = (engine(), Vec::new());
    let asked: Vec<(usize, bool)> =
        facts(scenario).into_iter().map(|(event, _, is_asked)| (event, is_asked)).collect();
    let stored = store.trajectory(&scenario.name).unwrap();
    let stored = stored.iter().filter(|record| !record.payload.is_opinion());
    for (record, (event, is_asked)) in stored.zip(asked) {
        let point = is_asked.then_some(DecisionPoint::PreToolSelection);
        let step = engine.step(record, point);
        let deliveries = step.deliveries.iter().filter(|delivery| is_about_trouble(delivery));
        words.extend(deliveries.map(|delivery| (event, delivery.text())));
    }
    words
}

/// Each record is a process.
fn in_fresh_processes(scenario: &Scenario, home: &Path) -> Vec<Word> {
    let mut words = Vec::new();
    for (event, record, _) in facts(scenario) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_midcourse"))
            .args(["record", "--run", &scenario.name])
            .env("MIDCOURSE_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{}", serde_json::to_string(&record).unwrap())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        for said in answer["said"].as_array().unwrap() {
            if said["provider"] == "course_correction" {
                words.push((event, said["text"].as_str().unwrap().to_owned()));
            }
        }
    }
    words
}

#[test]
fn our_own_suite_is_held() {
    let output = Command::new(env!("CARGO_BIN_EXE_midcourse"))
        .arg("eval")
        .arg(suite())
        .args(["--min-caught", "95", "--max-early", "0", "--max-spoken", "2"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_suite_is_as_large_and_as_mixed_as_it_claims() {
    let all = scenarios();
    let due =
        all.iter().filter(|one| one.expected != midcourse_cli::scenario::Expected::Quiet).count();
    assert!(due >= 60 && all.len() - due >= 60, "{due} of {}", all.len());
    assert!(all.iter().all(|one| one.why.is_some()), "each says why");
}

#[test]
fn a_verdict_is_the_same_from_checkpoints() {
    for scenario in scenarios() {
        assert_eq!(at_once(&scenario), from_checkpoints(&scenario), "{}", scenario.name);
    }
}

#[test]
fn a_verdict_is_the_same_through_the_store_and_from_it() {
    let place = Place::new();
    let mut store = Store::open(&place.home(), quick()).unwrap();
    for scenario in scenarios().into_iter().step_by(3) {
        let expected = at_once(&scenario);
        assert_eq!(expected, through_the_store(&scenario, &mut store), "{}", scenario.name);
        assert_eq!(expected, from_the_store(&scenario, &store), "{}", scenario.name);
    }
}

#[test]
fn a_verdict_is_the_same_in_fresh_processes() {
    let home = tempfile::tempdir().unwrap();
    for scenario in scenarios().into_iter().step_by(29) {
        assert_eq!(
            at_once(&scenario),
            in_fresh_processes(&scenario, home.path()),
            "{}",
            scenario.name
        );
    }
}
