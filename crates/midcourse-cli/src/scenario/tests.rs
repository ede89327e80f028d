//! Tests that the engine delivers the same messages in a run, no matter how it processes the run:
//! in one go, restored from a checkpoint (the saved state of an engine) before every record, while
//! the records are stored, or in a replay of the stored records.

use std::path::{Path, PathBuf};

use midcourse::{
    Budget, Checkpoint, DataDir, DecisionPoint, Delivery, Durability, Engine, Event, RunIdentity,
    Rung, Source, Store, StoreSettings, SyncedEngine, TrajectoryPayload, TrajectoryRecord,
};

use super::{Expected, Scenario, evaluate, parse_scenarios};

/// The number of the event after which a message was delivered, and the text of the message.
type Message = (usize, String);

fn scenarios() -> Vec<Scenario> {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scenarios");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(suite).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files
        .iter()
        .flat_map(|file| parse_scenarios(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

fn engine() -> Engine {
    Engine::shipped(Budget::default())
}

/// Adds the delivered messages, except those about a deadline or a budget, which do not count in a
/// scenario.
fn add_messages<'a>(
    messages: &mut Vec<Message>,
    event: usize,
    deliveries: impl IntoIterator<Item = &'a Delivery>,
) {
    let counts = |it: &&Delivery| it.why().is_none_or(|why| !why.cause.is_limit());
    let deliveries = deliveries.into_iter().filter(counts);
    messages.extend(deliveries.map(|delivery| (event, delivery.text())));
}

fn at_once(scenario: &Scenario) -> Vec<Message> {
    let result = evaluate(scenario, &mut engine());
    result.deliveries().map(|it| (it.event, it.delivery.text())).collect()
}

/// The records of a scenario, after a record for the start of the run. Each item is the number of
/// the event that the record belongs to, the record, and the point of the agent's turn at which a
/// message can be delivered after this record; `None` if no message can be delivered.
fn records(scenario: &Scenario) -> Vec<(usize, TrajectoryRecord, Option<DecisionPoint>)> {
    let identity = RunIdentity::root(scenario.name.as_str());
    let start = TrajectoryPayload::RunStarted { identity: identity.clone() };
    let started_at = scenario.events.iter().flatten().next().unwrap().at();
    let start = TrajectoryRecord::new(0, started_at, start).in_run(&identity);
    let mut records = vec![(0, start, None)];
    for (event, of_event) in (1..).zip(&scenario.events) {
        for (index, record) in of_event.iter().enumerate() {
            let is_last = index + 1 == of_event.len();
            let decision_point = is_last.then_some(DecisionPoint::PreToolSelection);
            records.push((event, record.clone().in_run(&identity), decision_point));
        }
    }
    records
}

/// The messages if each record is processed by a new engine, which is restored from the checkpoint
/// of the engine that processed the previous record.
fn from_checkpoints(scenario: &Scenario) -> Vec<Message> {
    let (mut messages, mut seq) = (Vec::new(), 0);
    let mut checkpoint: Option<Vec<u8>> = None;
    for (event, record, decision_point) in records(scenario) {
        let mut engine = engine();
        if let Some(bytes) = &checkpoint {
            engine.restore(&Checkpoint::from(bytes.clone())).unwrap();
        }
        let step = engine.step(&TrajectoryRecord { seq, ..record }, decision_point);
        seq = step.records.last().map_or(seq, |record| record.seq) + 1;
        add_messages(&mut messages, event, &step.deliveries);
        checkpoint = Some(engine.checkpoint().unwrap().as_bytes().to_vec());
    }
    messages
}

/// The messages if each record is stored and processed by a new engine. Hooks work in this way,
/// because each hook is a new process.
fn through_the_store(scenario: &Scenario, store: &mut Store) -> Vec<Message> {
    let mut messages = Vec::new();
    for (event, record, decision_point) in records(scenario) {
        let mut engine = SyncedEngine::new(engine()).unwrap();
        let (run, at) = (RunIdentity::root(scenario.name.as_str()), record.at());
        let mut reported =
            Event::new(run, Source::new("test", midcourse::Channel::Hook), at, record.payload);
        reported.decision_point = decision_point;
        let (_, step) = store.step(reported, &mut engine).unwrap();
        add_messages(&mut messages, event, &step.deliveries);
    }
    messages
}

/// The messages if the stored records are replayed. Records that the engine added when the run was
/// stored are left out, because the replay produces them again.
fn replayed_from_the_store(scenario: &Scenario, store: &Store) -> Vec<Message> {
    let (mut engine, mut messages) = (engine(), Vec::new());
    let stored = store.records(&scenario.name, 0, usize::MAX).unwrap();
    let stored = stored.into_iter().map(|stored| (stored.decision_point, stored.into_record()));
    let stored = stored.filter(|(_, record)| !record.payload.is_conclusion());
    for ((decision_point, record), (event, ..)) in stored.zip(records(scenario)) {
        add_messages(&mut messages, event, &engine.step(&record, decision_point).deliveries);
    }
    messages
}

#[test]
fn the_suite_has_enough_scenarios_of_both_kinds() {
    let all = scenarios();
    let with_message = all.iter().filter(|one| one.expected != Expected::Quiet).count();
    let quiet = all.len() - with_message;
    assert!(with_message >= 60 && quiet >= 60, "{with_message} with a message, {quiet} quiet");
    assert!(all.iter().all(|one| one.why.is_some()), "every scenario has a reason");
}

#[test]
fn a_run_restored_from_checkpoints_brings_the_same_messages() {
    for scenario in scenarios() {
        assert_eq!(at_once(&scenario), from_checkpoints(&scenario), "{}", scenario.name);
    }
}

#[test]
fn a_run_through_the_store_brings_the_same_messages_live_and_in_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::at(folder.path().join("data"));
    let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
    let mut store = Store::open(&data_dir, settings).unwrap();
    for scenario in scenarios().into_iter().step_by(3) {
        let expected = at_once(&scenario);
        assert_eq!(expected, through_the_store(&scenario, &mut store), "{}", scenario.name);
        assert_eq!(expected, replayed_from_the_store(&scenario, &store), "{}", scenario.name);
    }
}

#[test]
fn a_preview_at_the_number_of_a_message_is_this_message() {
    let (mut previewed, mut others) = (0, 0);
    for scenario in scenarios() {
        // One engine delivers; the other gets all records as they are stored.
        let (mut live, mut folded, mut seq) = (engine(), engine(), 0);
        for (_, record, decision_point) in records(&scenario) {
            let record = TrajectoryRecord { seq, ..record };
            let step = live.step(&record, decision_point);
            folded.fold(&record);
            let (messages, outcomes): (Vec<_>, Vec<_>) = step
                .records
                .iter()
                .partition(|it| !matches!(it.payload, TrajectoryPayload::Outcome { .. }));
            outcomes.iter().for_each(|outcome| folded.fold(outcome));
            let is_problem = |it: &&Delivery| it.why().is_some_and(|why| !why.cause.is_limit());
            for delivery in step.deliveries.iter().filter(is_problem) {
                let (why, point) = (delivery.why().unwrap(), decision_point.unwrap());
                let before = folded.checkpoint().unwrap();
                let preview = folded.preview(&record, point, &why.cause, why.rung);
                assert_eq!(preview.as_ref(), Some(delivery), "{}", scenario.name);
                let next = Rung(why.rung.0 + 1);
                let next = folded.preview(&record, point, &why.cause, next);
                others += usize::from(next.is_some_and(|next| next.text() != delivery.text()));
                assert_eq!(folded.checkpoint().unwrap(), before, "{}", scenario.name);
                previewed += 1;
            }
            messages.iter().for_each(|message| folded.fold(message));
            seq = step.records.last().map_or(seq, |record| record.seq) + 1;
        }
    }
    assert!(previewed > 200 && others > 100, "{previewed} previews, {others} with other texts");
}

/// Where the engine finds which pattern, in all scenarios, as one hash. What an earlier engine found
/// is kept in the store and computed again only if `Engine::VERSION` is another one.
#[test]
fn a_changed_judgement_has_a_new_engine_version() {
    let mut found = String::new();
    for scenario in scenarios() {
        let mut engine = engine();
        for (event, record, _) in records(&scenario) {
            for pattern in engine.step(&record, None).patterns {
                found.push_str(&format!("{} {event} {}\n", scenario.name, pattern.pattern_type()));
            }
        }
    }
    let hash = blake3::hash(found.as_bytes()).to_hex();
    let hash = hash.get(..16).unwrap();
    assert_eq!(
        (Engine::VERSION, hash),
        (1, "57526b22b8165cb9"),
        "the engine finds something else; raise Engine::VERSION and put both here"
    );
}
