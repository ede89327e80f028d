//! When a run is reminded of its deadline: before the work, as time passes, after a compaction.

use midcourse_core::{
    AgentMessage, Budget, DecisionPoint, Delivery, Engine, Timestamp, ToolResult,
    TrajectoryPayload, TrajectoryRecord,
};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// The messages that the agent gets after a record at `ms` milliseconds.
fn messages(engine: &mut Engine, ms: u64, payload: TrajectoryPayload) -> Vec<String> {
    let seq = engine.trajectory().latest_seq() + 1;
    let record = TrajectoryRecord::new(seq, Timestamp::from_unix_ms(ms), payload);
    let step = engine.step(&record, Some(DecisionPoint::PreRender));
    step.deliveries.iter().map(Delivery::text).collect()
}

fn deadline_at(ms: u64) -> TrajectoryPayload {
    TrajectoryPayload::DeadlineSet { at_unix_ms: Some(Timestamp::from_unix_ms(ms)) }
}

fn call(number: u64) -> TrajectoryPayload {
    TrajectoryPayload::ToolEnded {
        tool_call_id: format!("c{number}").into(),
        tool_name: "read".into(),
        result: ToolResult::text(format!("text {number}")),
        is_error: false,
    }
}

fn prompt() -> TrajectoryPayload {
    TrajectoryPayload::MessageAppended { message: AgentMessage::user("go") }
}

const COMPACTION: TrajectoryPayload = TrajectoryPayload::ContextCompacted { trigger: None };

#[test]
fn the_deadline_is_announced_before_the_work_and_not_again_after_the_first_call() {
    let mut engine = Engine::shipped(Budget::default());
    let announced = messages(&mut engine, 0, deadline_at(2 * HOUR));
    assert_eq!(announced, ["There is a deadline: 2.0 hours remaining."]);
    assert!(messages(&mut engine, 1_000, prompt()).is_empty());
    assert!(messages(&mut engine, 2_000, call(1)).is_empty());
    let half = messages(&mut engine, HOUR + 1, call(2));
    assert_eq!(half, ["[Feedback - Deadline]\n\nYou have 59 minutes remaining."]);
    assert!(messages(&mut engine, HOUR + 2, call(3)).is_empty());
    let message = AgentMessage::assistant("I stop here.");
    let response = TrajectoryPayload::MessageAppended { message };
    assert!(messages(&mut engine, HOUR + 3, response).is_empty());
    let again = messages(&mut engine, 90 * MINUTE, COMPACTION);
    assert_eq!(again, ["There is a deadline: 30 minutes remaining."]);
    assert!(messages(&mut engine, 90 * MINUTE + 1, COMPACTION).is_empty(), "the same text");
    let quarter = messages(&mut engine, 105 * MINUTE, call(4));
    assert_eq!(quarter, ["[Feedback - Deadline]\n\nYou have 15 minutes remaining."]);
}

#[test]
fn a_deadline_announced_late_is_not_repeated_after_the_next_call() {
    let mut engine = Engine::shipped(Budget::default());
    // Half of the time is over when the first message of the user arrives.
    let set = TrajectoryRecord::new(0, Timestamp::from_unix_ms(0), deadline_at(6 * MINUTE));
    engine.step(&set, None);
    let announced = messages(&mut engine, 3 * MINUTE, prompt());
    assert_eq!(announced, ["There is a deadline: 3 minutes remaining."]);
    assert!(messages(&mut engine, 3 * MINUTE + 1, call(1)).is_empty());
    let next = messages(&mut engine, 5 * MINUTE, call(2));
    assert!(next.concat().contains("You have 60 seconds remaining."), "{next:?}");
}

#[test]
fn a_deadline_announced_after_a_compaction_is_not_repeated_after_the_next_call() {
    let mut engine = Engine::shipped(Budget::default());
    messages(&mut engine, 0, deadline_at(120 * MINUTE));
    let announced = messages(&mut engine, 90 * MINUTE, COMPACTION);
    assert_eq!(announced, ["There is a deadline: 30 minutes remaining."]);
    assert!(messages(&mut engine, 91 * MINUTE, call(1)).is_empty());
    let tenth = messages(&mut engine, 109 * MINUTE, call(2));
    assert_eq!(tenth, ["[Feedback - Deadline]\n\nYou have 11 minutes remaining."]);
}
