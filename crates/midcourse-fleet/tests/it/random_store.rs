//! Stores with random runs, and what tests compare of them.

use midcourse::{
    AgentMessage, ChainEntry, ChainLimit, ChainPosition, Channel, DataDir, Durability, Event,
    RunHeader, RunId, RunIdentity, RunOutcome, Source, Store, StoreError, StoreSettings, Timestamp,
    ToolResult, TrajectoryPayload,
};
use midcourse_fleet::archive::{ArchiveError, ArchivePlace, ArchiveWriter, WrittenArchive};
use proptest::prelude::*;

/// A folder with a store.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn open(&self) -> Store {
        let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
        Store::open(&DataDir::at(self.0.path().join("home")), settings).unwrap()
    }
}

const RUNS: [&str; 4] = ["run", "run.child", "other\u{0}id", "third/ü\""];

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
        Just("\u{0}many zeros".repeat(700)),
        (0..4_u8).prop_map(|n| format!("text {n}: {}", "ü𝄞 ".repeat(3_000))),
        "[a-z ]{0,40}",
    ];
    prop_oneof![
        text.clone().prop_map(|text| TrajectoryPayload::MessageAppended {
            message: AgentMessage::user(text)
        }),
        (call.clone(), text.clone()).prop_map(|(call, text)| TrajectoryPayload::ToolStarted {
            tool_call_id: format!("{call}\u{0}").as_str().into(),
            tool_name: "bash".into(),
            args: serde_json::json!({"command": "make", "key\u{0}/~": text}),
        }),
        (call, text, any::<bool>()).prop_map(|(call, text, is_error)| {
            TrajectoryPayload::ToolEnded {
                tool_call_id: format!("{call}\u{0}").as_str().into(),
                tool_name: "bash".into(),
                result: ToolResult::text(text),
                is_error,
            }
        }),
        Just(TrajectoryPayload::TurnStarted),
        Just(TrajectoryPayload::RunEnded { outcome: RunOutcome::Failed, new_messages: Vec::new() }),
    ]
}

/// An event of one of the runs, in the course of eleven days. Two channels report some calls twice,
/// which makes reports.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    (0..RUNS.len(), payload(), any::<bool>(), 0..1_000_u64).prop_map(|(run, payload, proxy, at)| {
        let channel = if proxy { Channel::Proxy } else { Channel::Hook };
        let at = Timestamp::from_unix_ms(1_790_000_000_000 + at * 1_000_000);
        Event::new(identity(run), Source::new("test", channel), at, payload)
    })
}

/// A message of the user in a run.
pub(crate) fn message(run: usize, number: u64) -> Event {
    let message = AgentMessage::user(format!("message {number} {}", "word ".repeat(1_000)));
    let payload = TrajectoryPayload::MessageAppended { message };
    let at = Timestamp::from_unix_ms(1_790_000_000_000 + number);
    Event::new(identity(run), Source::new("test", Channel::Hook), at, payload)
}

/// Everything in a store, sorted by run id.
pub(crate) fn contents(store: &Store) -> Vec<(RunHeader, Vec<ChainEntry>)> {
    let runs = store.chain_ends().unwrap();
    let read = |(run_id, _): (RunId, _)| {
        let start = ChainPosition::start(&run_id);
        let part = store.chain_after(&run_id, &start, ChainLimit::NONE).unwrap();
        (part.header, part.entries)
    };
    sorted(runs.into_iter().map(read).collect())
}

pub(crate) fn sorted(
    mut runs: Vec<(RunHeader, Vec<ChainEntry>)>,
) -> Vec<(RunHeader, Vec<ChainEntry>)> {
    runs.sort_by(|(a, _), (b, _)| a.run_id().cmp(b.run_id()));
    runs
}

/// What a header says, without whether it is that of the present engine, which no copy says.
pub(crate) fn header_json(runs: &[(RunHeader, Vec<ChainEntry>)]) -> Vec<(String, &[ChainEntry])> {
    let json = |header| serde_json::to_string(header).unwrap();
    runs.iter().map(|(header, entries)| (json(header), entries.as_slice())).collect()
}

pub(crate) fn findings(store: &Store) -> Vec<String> {
    let runs = store.chain_ends().unwrap();
    let found = runs.iter().flat_map(|(run_id, _)| store.verify_run(run_id).unwrap());
    found.map(|finding| finding.to_string()).collect()
}

/// The entries of a run in pieces of this many.
pub(crate) fn pieces(
    store: &Store,
    header: &RunHeader,
    entries: usize,
) -> Vec<Result<Vec<ChainEntry>, StoreError>> {
    let mut end = ChainPosition::start(header.run_id());
    let mut pieces = Vec::new();
    while end != header.end() {
        let limit = ChainLimit { entries, bytes: usize::MAX };
        let part = store.chain_after(header.run_id(), &end, limit).unwrap();
        end = part.end;
        pieces.push(Ok(part.entries));
    }
    pieces
}

/// Adds all runs of a store to an archive, in pieces of this many entries.
pub(crate) fn add_store(
    writer: &mut ArchiveWriter<'_>,
    store: &Store,
    entries: usize,
) -> Result<(), ArchiveError> {
    let mut headers: Vec<RunHeader> =
        contents(store).into_iter().map(|(header, _)| header).collect();
    headers.sort_by_key(|header| header.summary().started);
    for header in headers {
        writer.add(&header, pieces(store, &header, entries))?;
    }
    Ok(())
}

/// Archives a store.
pub(crate) fn archive(place: &ArchivePlace, store: &Store) -> WrittenArchive {
    let mut writer = ArchiveWriter::new(place);
    add_store(&mut writer, store, 5).unwrap();
    writer.finish().unwrap().unwrap()
}
