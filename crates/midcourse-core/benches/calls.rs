//! The calls that the benchmarks feed to the engine: 2 KB each, all different, a few failing.

use midcourse_core::{
    CallId, DecisionPoint, Engine, Timestamp, ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::json;

/// The number of different calls. The engine remembers fewer calls than this, so when the list
/// starts over, its first call is new to the engine again.
pub(crate) const CALLS: usize = 512;

/// Sequence numbers reserved per call: three for its own records, the rest for the records that the
/// engine adds after them.
const RECORDS_PER_CALL: u64 = 10;

/// The records of one call: the turn starts, the tool starts, the tool ends.
pub(crate) type Call = [TrajectoryRecord; 3];

/// Which calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every tenth call fails.
    Ordinary,
    /// No call fails.
    Succeeding,
    /// All calls fail, each with an error text of 1.8 KB.
    Failing,
}

/// [`CALLS`] different calls of one kind.
pub(crate) fn calls(kind: Kind) -> Vec<Call> {
    (0..CALLS)
        .map(|n| {
            let fails = match kind {
                Kind::Ordinary => n % 10 == 9,
                Kind::Succeeding => false,
                Kind::Failing => true,
            };
            let id = CallId::from(format!("toolu_{n:024}"));
            let path = format!("/home/agent/project/src/module_{}/file_{n}.rs", n % 7);
            let args = json!({"file_path": path, "offset": n, "limit": 40, "note": "x".repeat(64)});
            let line = if fails {
                format!("error[E0{n:03}]: mismatched types in {path}:{n}:7\n")
            } else {
                format!("{n:4}  pub fn name_{n}(argument: &Context) -> Result<Value, Error> {{\n")
            };
            let mut text = String::new();
            while text.len() < 1_800 {
                text.push_str(&line);
                text.push_str("        let total = items.iter().map(|item| item.len()).sum();\n");
            }
            let record = |payload| TrajectoryRecord::new(0, Timestamp::default(), payload);
            [
                record(TrajectoryPayload::TurnStarted),
                record(TrajectoryPayload::ToolStarted {
                    tool_call_id: id.clone(),
                    tool_name: "Read".into(),
                    args,
                }),
                record(TrajectoryPayload::ToolEnded {
                    tool_call_id: id,
                    tool_name: "Read".into(),
                    result: ToolResult::text(text),
                    is_error: fails,
                }),
            ]
        })
        .collect()
}

/// Feeds the three records of one call to the engine, which may send messages after the last one;
/// returns the number of messages.
pub(crate) fn run_call(engine: &mut Engine, call: &mut Call, number: u64) -> usize {
    let now = Timestamp::from_unix_ms(1_767_225_600_000 + number * 1_000);
    let mut deliveries = 0;
    for (place, record) in call.iter_mut().enumerate() {
        record.seq = number * RECORDS_PER_CALL + place as u64;
        record.recorded_at_unix_ms = now;
        let point = (place == 2).then_some(DecisionPoint::PreToolSelection);
        deliveries += engine.step(record, point).deliveries.len();
    }
    deliveries
}

/// An engine that has already processed this many records; `calls` is repeated as often as
/// necessary.
pub(crate) fn engine_after(records: u64, calls: &mut [Call]) -> Engine {
    let mut engine = Engine::shipped(Default::default());
    let deadline = TrajectoryPayload::DeadlineSet {
        at_unix_ms: Some(Timestamp::from_unix_ms(4_000_000_000_000)),
    };
    let at = Timestamp::from_unix_ms(1_767_225_600_000);
    engine.step(&TrajectoryRecord::new(0, at, deadline), None);
    let count = calls.len() as u64;
    for number in 0..records / 3 {
        let place = usize::try_from(number % count).unwrap_or(0);
        if let Some(call) = calls.get_mut(place) {
            run_call(&mut engine, call, number);
        }
    }
    engine
}
