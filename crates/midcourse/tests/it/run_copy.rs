//! Exact copies of runs: whatever a store contains, a copy that was made in any number of parts has
//! the same records, reports, links and summaries.

use midcourse::{
    AgentMessage, ChainEntry, ChainError, ChainLimit, ChainPosition, Channel, DataDir, Durability,
    Event, Label, LabelVerdict, RunHeader, RunId, RunIdentity, RunOutcome, Source, Store,
    StoreSettings, Timestamp, ToolResult, TrajectoryPayload,
};
use proptest::prelude::*;

use crate::events::findings;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> Store {
        let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
        Store::open(&DataDir::at(self.0.path().join("home")), settings).unwrap()
    }
}

const RUNS: [&str; 3] = ["run", "run.child", "other\u{0}id"];

fn identity(run: usize) -> RunIdentity {
    match run {
        1 => RunIdentity::child_of(&RunIdentity::root(RUNS[0]), RUNS[1]),
        _ => RunIdentity::root(RUNS[run]),
    }
}

fn payload() -> impl Strategy<Value = TrajectoryPayload> {
    let call = 0..6_u8;
    let text = prop_oneof![
        Just("error: no rule".to_owned()),
        Just("long ".repeat(2_000)),
        Just("zero \u{0} and ’ quotes".to_owned()),
        "[a-z ]{0,40}",
    ];
    prop_oneof![
        text.clone().prop_map(|text| TrajectoryPayload::MessageAppended {
            message: AgentMessage::user(text)
        }),
        call.clone().prop_map(|call| TrajectoryPayload::ToolStarted {
            tool_call_id: call.to_string().as_str().into(),
            tool_name: "bash".into(),
            args: serde_json::json!({"command": "make"}),
        }),
        (call, text, any::<bool>()).prop_map(|(call, text, is_error)| {
            TrajectoryPayload::ToolEnded {
                tool_call_id: call.to_string().as_str().into(),
                tool_name: "bash".into(),
                result: ToolResult::text(text),
                is_error,
            }
        }),
        Just(TrajectoryPayload::TurnStarted),
        Just(TrajectoryPayload::RunEnded { outcome: RunOutcome::Failed, new_messages: Vec::new() }),
    ]
}

/// An event of one of the runs. Two channels report some calls twice, which makes reports.
fn event() -> impl Strategy<Value = Event> {
    (0..RUNS.len(), payload(), any::<bool>(), 0..1_000_u64).prop_map(|(run, payload, proxy, at)| {
        let channel = if proxy { Channel::Proxy } else { Channel::Hook };
        let at = Timestamp::from_unix_ms(1_790_000_000_000 + at * 1_000);
        Event::new(identity(run), Source::new("test", channel), at, payload)
    })
}

fn label(store: &mut Store, run: usize, seq: Option<u64>) {
    let label = Label {
        seq,
        verdict: LabelVerdict::Bad,
        cause: Some("doom_loop".to_owned()),
        call: seq,
        text_hash: seq.map(|_| Label::hash_of("stop")),
        note: Some("too early".to_owned()),
        labelled_at_unix_ms: Timestamp::from_unix_ms(1_790_000_000_000),
    };
    if store.run(RUNS[run]).unwrap().is_some() {
        store.set_label(&RUNS[run].into(), &label).unwrap();
    }
}

/// Copies what a run has after a position, in parts of this many entries.
fn copy(
    from: &Store,
    to: &mut Store,
    run_id: &RunId,
    start: ChainPosition,
    entries: usize,
) -> ChainPosition {
    let mut position = start;
    loop {
        let limit = ChainLimit { entries, bytes: usize::MAX };
        let part = from.chain_after(run_id, &position, limit).unwrap();
        to.add_to_copy(&part.header, &part.entries).unwrap();
        position = part.end;
        if position == part.header.end() {
            return position;
        }
        assert!(!part.entries.is_empty(), "the end of the chain is reached");
    }
}

fn contents(store: &Store) -> Vec<(RunHeader, Vec<ChainEntry>)> {
    let runs = store.chain_ends().unwrap();
    let read = |(run_id, _): (RunId, _)| {
        let start = ChainPosition::start(&run_id);
        let part = store.chain_after(&run_id, &start, ChainLimit::NONE).unwrap();
        (part.header, part.entries)
    };
    let mut contents: Vec<_> = runs.into_iter().map(read).collect();
    contents.sort_by(|(a, _), (b, _)| a.run_id().cmp(b.run_id()));
    contents
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_in_any_number_of_parts_equals_the_run(
        events in prop::collection::vec(event(), 1..60),
        cut in 0..60_usize,
        entries in 1..20_usize,
        labelled in prop::collection::vec((0..RUNS.len(), prop::option::of(0..9_u64)), 0..3),
    ) {
        let (original, copied) = (Place::new(), Place::new());
        let (mut from, mut to) = (original.open(), copied.open());
        let cut = cut.min(events.len());
        let mut positions = std::collections::HashMap::new();
        for (n, event) in events.into_iter().enumerate() {
            from.append(event).unwrap();
            if n == cut {
                for (run_id, _) in from.chain_ends().unwrap() {
                    let start = ChainPosition::start(&run_id);
                    positions.insert(run_id.clone(), copy(&from, &mut to, &run_id, start, entries));
                }
            }
        }
        for (run, seq) in labelled {
            label(&mut from, run, seq);
        }
        for (run_id, _) in from.chain_ends().unwrap() {
            let start = positions.get(&run_id).copied();
            let start = start.unwrap_or_else(|| ChainPosition::start(&run_id));
            copy(&from, &mut to, &run_id, start, entries);
        }
        prop_assert_eq!(contents(&from), contents(&to));
        prop_assert_eq!(findings(&to), Vec::<String>::new());
        for run in RUNS {
            prop_assert_eq!(from.trajectory(run).unwrap(), to.trajectory(run).unwrap());
            prop_assert_eq!(from.run(run).unwrap(), to.run(run).unwrap());
        }
        // The header survives JSON, and a third store takes complete copies at once.
        for (header, _) in contents(&from) {
            let json = serde_json::to_string(&header).unwrap();
            let read: RunHeader = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read.summary(), from.run(header.run_id().as_str()).unwrap().unwrap());
        }
        let third = Place::new();
        let mut third = third.open();
        third.add_copies(&contents(&from)).unwrap();
        prop_assert_eq!(contents(&from), contents(&third));
        third.add_copies(&contents(&from)).unwrap_err();
    }
}

#[test]
fn a_changed_entry_and_a_rewritten_run_are_found() {
    let (original, copied) = (Place::new(), Place::new());
    let (mut from, mut to) = (original.open(), copied.open());
    let source = || Source::new("test", Channel::Hook);
    for n in 0..4 {
        let message = AgentMessage::user(format!("message {n}"));
        let payload = TrajectoryPayload::MessageAppended { message };
        let at = Timestamp::from_unix_ms(1_790_000_000_000 + n);
        from.append(Event::new(identity(0), source(), at, payload)).unwrap();
    }
    let run_id = RunId::from(RUNS[0]);
    let start = ChainPosition::start(&run_id);
    let part = from.chain_after(&run_id, &start, ChainLimit::NONE).unwrap();
    let mut changed = part.entries.clone();
    if let ChainEntry::Record(record) = &mut changed[2] {
        record.payload = record.payload.replace("message 2", "message 7");
    }
    let error = to.add_copies(&[(part.header.clone(), changed)]).unwrap_err().to_string();
    assert!(error.contains("record 2 was changed after it was stored"), "{error}");
    let short = part.entries[..3].to_vec();
    let error = to.add_copies(&[(part.header.clone(), short)]).unwrap_err().to_string();
    assert!(error.contains("the copy is not complete"), "{error}");
    let gap = vec![part.entries[0].clone(), part.entries[2].clone()];
    let error = to.add_copies(&[(part.header.clone(), gap)]).unwrap_err().to_string();
    assert!(error.contains("record 2 does not follow 1 records"), "{error}");
    assert!(to.chain_ends().unwrap().is_empty(), "nothing was added");

    let elsewhere = ChainPosition { records: 2, ..part.end };
    assert_eq!(
        from.chain_after(&run_id, &elsewhere, ChainLimit::NONE).unwrap_err(),
        ChainError::Diverged(2)
    );
    let none = from.chain_after(&RunId::from("none"), &start, ChainLimit::NONE);
    assert_eq!(none.unwrap_err(), ChainError::NoRun);
}

#[test]
fn a_damaged_text_of_one_run_does_not_damage_the_same_text_of_another() {
    let (place, copies) = (Place::new(), Place::new());
    let mut store = place.open();
    for run in [0, 2] {
        let message = AgentMessage::user("a text that is long enough ".repeat(1_000));
        let payload = TrajectoryPayload::MessageAppended { message };
        let at = Timestamp::from_unix_ms(1_790_000_000_000);
        let source = Source::new("test", Channel::Hook);
        store.append(Event::new(identity(run), source, at, payload)).unwrap();
    }
    let mut copies = copies.open();
    for run in [RUNS[0], RUNS[2]] {
        let run_id = RunId::from(run);
        let start = ChainPosition::start(&run_id);
        let mut part = store.chain_after(&run_id, &start, ChainLimit::NONE).unwrap();
        if run == RUNS[0]
            && let ChainEntry::Record(record) = &mut part.entries[0]
        {
            record.bodies[0].zstd = b"damaged".to_vec();
        }
        copies.add_to_copy(&part.header, &part.entries).unwrap();
        if run == RUNS[0] {
            assert_eq!(copies.verify_run(&run_id).unwrap().len(), 1, "the text is damaged");
        }
    }
    for run in [RUNS[0], RUNS[2]] {
        assert_eq!(copies.verify_run(&run.into()).unwrap(), Vec::new(), "{run}");
    }
}
