//! Tool calls that the benchmarks `scale` and `step` feed to the engine. Each call is about 2 KB
//! long and differs from all others; `Kind` says how many of them fail.

use midcourse_core::{
    CallId, DecisionPoint, Engine, Timestamp, ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::json;

/// The number of different calls in the list. The engine remembers fewer calls than this: when a
/// benchmark goes through the list a second time, the engine has forgotten the first call and does
/// not see a repetition.
pub(crate) const CALLS: usize = 512;

/// Sequence numbers reserved per call: three for the records of the call, the rest for records that
/// the engine adds itself, for example about a message that it delivers.
const RECORDS_PER_CALL: u64 = 10;

/// The records of one call: the turn starts, the tool starts, the tool ends.
pub(crate) type Call = [TrajectoryRecord; 3];

/// How many of the calls in the list fail.
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

/// Feeds the three records of one call to the engine and returns the number of messages that the
/// engine has for the agent. `number` counts the calls of the run and determines the sequence
/// numbers and the time of the records.
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

/// An engine that has already processed `records` records. They come from the list `calls`, which
/// starts over when it ends.
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
