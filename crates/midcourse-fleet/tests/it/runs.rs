//! Generated runs: long texts, NUL characters, child runs, and events that two channels report.

use midcourse::{
    AgentMessage, Channel, Event, RunIdentity, RunOutcome, Source, Timestamp, ToolResult,
    TrajectoryPayload,
};
use proptest::prelude::*;

/// The time of the first events.
pub(crate) const START: u64 = 1_790_000_000_000;

const IDS: [&str; 3] = ["run", "run.child", "o'ther\"; DROP TABLE runs; --"];

fn identity(run: usize) -> RunIdentity {
    match run {
        1 => RunIdentity::child_of(&RunIdentity::root(IDS[0]), IDS[1]),
        _ => RunIdentity::root(IDS[run]),
    }
}

fn payload() -> impl Strategy<Value = TrajectoryPayload> {
    let call = 0..6_u8;
    let text = prop_oneof![
        Just("error: no rule".to_owned()),
        Just("long ".repeat(2_000)),
        Just("zero \u{0} and ’ quotes'); DROP TABLE runs; --".to_owned()),
        "[a-z ]{0,40}",
    ];
    let user = text
        .clone()
        .prop_map(|text| TrajectoryPayload::MessageAppended { message: AgentMessage::user(text) });
    let started = call.clone().prop_map(|call| TrajectoryPayload::ToolStarted {
        tool_call_id: format!("{call}\u{0}").as_str().into(),
        tool_name: "bash".into(),
        args: serde_json::json!({"command": "make", "zero\u{0}": "long ".repeat(900)}),
    });
    let ended = (call, text, any::<bool>()).prop_map(|(call, text, is_error)| {
        TrajectoryPayload::ToolEnded {
            tool_call_id: format!("{call}\u{0}").as_str().into(),
            tool_name: "bash".into(),
            result: ToolResult::text(text),
            is_error,
        }
    });
    let end = TrajectoryPayload::RunEnded { outcome: RunOutcome::Failed, new_messages: Vec::new() };
    prop_oneof![user, started, ended, Just(TrajectoryPayload::TurnStarted), Just(end)]
}

/// An event of one of the runs.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    (0..IDS.len(), payload(), any::<bool>(), 0..200_000_u64).prop_map(
        |(run, payload, proxy, at)| {
            let channel = if proxy { Channel::Proxy } else { Channel::Hook };
            let at = Timestamp::from_unix_ms(START + at * 1_000);
            Event::new(identity(run), Source::new("test", channel), at, payload)
        },
    )
}

/// A user's message in a run.
pub(crate) fn message(run: &str, n: u64) -> Event {
    let payload = TrajectoryPayload::MessageAppended {
        message: AgentMessage::user(format!("message {n} of {run}")),
    };
    let at = Timestamp::from_unix_ms(START + n * 1_000);
    Event::new(RunIdentity::root(run), Source::new("test", Channel::Hook), at, payload)
}
