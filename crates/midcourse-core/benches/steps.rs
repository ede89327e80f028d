//! The calls that the benchmarks feed to the engine: 2 KB each, all different, a few failing.

use midcourse_core::{
    CallId, DecisionPoint, Engine, Timestamp, ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::json;

/// Different calls; more than any window holds, so that each is new when it comes again.
pub(crate) const CALLS: usize = 512;

/// The records of one call.
pub(crate) type Step = [TrajectoryRecord; 3];

/// What the results are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nine calls succeed, the tenth fails: an ordinary run.
    Ordinary,
    /// Every call succeeds.
    Succeeding,
    /// Every call fails with an error text of 1.8 KB.
    Failing,
}

/// Different steps of one kind.
pub(crate) fn steps(kind: Kind) -> Vec<Step> {
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

/// One full step: a call in, feedback and one guidance decision out.
pub(crate) fn take(engine: &mut Engine, step: &mut Step, number: u64) -> usize {
    let now = Timestamp::from_unix_ms(1_767_225_600_000 + number * 1_000);
    for (place, record) in step.iter_mut().enumerate() {
        record.seq = number * 3 + place as u64;
        record.recorded_at_unix_ms = now;
        engine.take_in(record);
    }
    let feedback = engine.feedback(now).said;
    let guidance = engine.guidance(DecisionPoint::PreToolSelection, now).said;
    let said = feedback.len() + guidance.len();
    for feedback in feedback {
        engine.confirm(feedback, number * 3 + 2, now);
    }
    for guidance in guidance {
        engine.confirm(guidance, number * 3 + 2, now);
    }
    said
}

/// An engine that has this many events behind it.
pub(crate) fn engine_after(events: u64, steps: &mut [Step]) -> Engine {
    let mut engine = Engine::shipped(Default::default());
    engine.take_in(&TrajectoryRecord::new(
        0,
        Timestamp::from_unix_ms(1_767_225_600_000),
        TrajectoryPayload::DeadlineSet {
            at_unix_ms: Some(Timestamp::from_unix_ms(4_000_000_000_000)),
        },
    ));
    let count = steps.len() as u64;
    for number in 0..events / 3 {
        let place = usize::try_from(number % count).unwrap_or(0);
        if let Some(step) = steps.get_mut(place) {
            take(&mut engine, step, number);
        }
    }
    engine
}
