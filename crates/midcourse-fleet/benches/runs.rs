//! Generated runs of coding agents, 100 records each.

#[path = "../../midcourse-cli/benches/generated.rs"]
mod generated;

use std::path::Path;

use midcourse::{
    AgentMessage, Channel, DataDir, Durability, Event, RunIdentity, RunOutcome, Source, Store,
    StoreSettings, Timestamp, ToolResult, TrajectoryPayload,
};

pub(crate) use generated::{Dice, text};

/// The calls of a run of 100 records: each has a start and a result.
pub(crate) const CALLS: usize = 48;

const HOSTS: [&str; 4] = ["claude-code", "codex", "opencode", "pi"];

/// The events of a run: start, task, calls with their results, a last message, end. Half of the results
/// are below 700 bytes, a tenth above 4 KB.
pub(crate) fn run(dice: &mut Dice, id: &str, started: u64, calls: usize) -> Vec<Event> {
    run_as(dice, RunIdentity::root(id), started, calls)
}

/// The events of a run that may be a child of another.
pub(crate) fn run_as(
    dice: &mut Dice,
    identity: RunIdentity,
    started: u64,
    calls: usize,
) -> Vec<Event> {
    let id = identity.run_id.as_str().to_owned();
    let host = HOSTS[usize::try_from(dice.roll(4)).unwrap()];
    let source = Source::new(host, Channel::Hook);
    let (a, b) = (dice.roll(10_000), dice.roll(300));
    let task = format!("Fix the failing test number {a} in module {b}, and explain the change");
    let mut payloads = vec![
        TrajectoryPayload::RunStarted { identity: identity.clone() },
        TrajectoryPayload::MessageAppended { message: AgentMessage::user(task) },
    ];
    let mut failed = 0;
    for call in 0..calls {
        let is_error = dice.roll(10) == 0;
        failed += usize::from(is_error);
        let (file, line) = (dice.roll(300), dice.roll(10_000));
        payloads.push(TrajectoryPayload::ToolStarted {
            tool_call_id: format!("call_{id}_{call}").as_str().into(),
            tool_name: "bash".into(),
            args: serde_json::json!({
                "command": format!("sed -n {line},+40p src/module_{file}.rs && cargo check"),
                "description": "Show a part of the file and check the crate",
            }),
        });
        payloads.push(TrajectoryPayload::ToolEnded {
            tool_call_id: format!("call_{id}_{call}").as_str().into(),
            tool_name: "bash".into(),
            result: ToolResult::text(text(dice, "")),
            is_error,
        });
    }
    let message = AgentMessage::user(text(dice, "Done. "));
    payloads.push(TrajectoryPayload::MessageAppended { message });
    let outcome = if failed > calls / 7 { RunOutcome::Failed } else { RunOutcome::Completed };
    payloads.push(TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() });
    let at = |n: u64| Timestamp::from_unix_ms(started + n * 1_000);
    let events = (0..).zip(payloads);
    events.map(|(n, it)| Event::new(identity.clone(), source.clone(), at(n), it)).collect()
}

/// A store with runs that started one after the other, a minute apart.
pub(crate) fn store(folder: &Path, name: &str, seed: u64, runs: u64, started: u64) -> DataDir {
    let data_dir = DataDir::at(folder.join(name));
    let mut store = open(&data_dir);
    let mut dice = Dice(seed);
    for n in 0..runs {
        let events = run(&mut dice, &format!("{name}-{n}"), started + n * 60_000, CALLS);
        store.append_all(events).unwrap();
    }
    data_dir
}

pub(crate) fn open(data_dir: &DataDir) -> Store {
    let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
    Store::open(data_dir, settings).unwrap()
}
