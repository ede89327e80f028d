//! Records are stored in a JSON format that other tools read and write too. It must not change.

use midcourse_core::{
    AgentMessage, GapReason, RunIdentity, RunOutcome, TRAJECTORY_SCHEMA_VERSION, Timestamp,
    TrajectoryPayload, TrajectoryRecord, Usage,
};
use serde_json::{Value, json};

/// One record of every kind and shape, written by clark-agent 0.4, another tool that uses the
/// format.
const CLARK_AGENT: &str = include_str!("../../testdata/clark-agent-0.4.jsonl");

#[test]
fn records_of_clark_agent_read_and_write_without_loss() {
    let mut kinds = Vec::new();
    for line in CLARK_AGENT.lines() {
        let record: TrajectoryRecord = serde_json::from_str(line).expect(line);
        kinds.push(record.payload.kind());
        let (theirs, ours): (Value, Value) =
            (serde_json::from_str(line).unwrap(), serde_json::to_value(&record).unwrap());
        assert_eq!(theirs, ours);
        assert_eq!(ours["payload"]["kind"], record.payload.kind());
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "context_transform_applied",
            "message_appended",
            "output_tokens_escalation",
            "provider_request_prepared",
            "run_ended",
            "run_started",
            "tool_ended",
            "tool_gate_applied",
            "tool_gate_conflict_resolved",
            "tool_started",
            "turn_ended",
            "turn_started",
        ]
    );
}

#[test]
fn a_record_without_a_version_reads_as_version_zero() {
    let old = json!({"seq": 7, "recorded_at_unix_ms": 123, "payload": {"kind": "turn_started"}});
    let record: TrajectoryRecord = serde_json::from_value(old).unwrap();
    assert_eq!((record.schema_version, record.seq, record.depth), (0, 7, 0));
    let new = TrajectoryRecord::new(0, Timestamp::default(), TrajectoryPayload::TurnStarted);
    assert_eq!(new.schema_version, TRAJECTORY_SCHEMA_VERSION);
}

#[test]
fn payloads_that_only_midcourse_writes_have_a_fixed_json() {
    let at = Timestamp::from_unix_ms(5);
    for (payload, expected) in [
        (
            TrajectoryPayload::DeadlineSet { at_unix_ms: Some(at) },
            json!({"kind": "deadline_set", "at_unix_ms": 5}),
        ),
        (
            TrajectoryPayload::ConfigApplied { config: "c".into(), prompt_name: Some("p".into()) },
            json!({"kind": "config_applied", "config": "c", "prompt_name": "p"}),
        ),
        (
            TrajectoryPayload::FileCreated { path: "a.md".into() },
            json!({"kind": "file_created", "path": "a.md"}),
        ),
        (
            TrajectoryPayload::UsageReported {
                usage: Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() },
            },
            json!({"kind": "usage_reported",
                   "usage": {"input_tokens": 7, "output_tokens": 2,
                             "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}),
        ),
        (
            TrajectoryPayload::CostReported { total_micro_usd: 1.5.try_into().unwrap() },
            json!({"kind": "cost_reported", "total_micro_usd": 1_500_000}),
        ),
        (TrajectoryPayload::ProxyAttached, json!({"kind": "proxy_attached"})),
        (
            TrajectoryPayload::RunDescribed {
                folder: Some("/home/me/project".to_owned()),
                command: None,
                host_version: None,
                model: Some("model-1".to_owned()),
                exit_code: Some(0),
            },
            json!({"kind": "run_described", "folder": "/home/me/project", "model": "model-1",
                   "exit_code": 0}),
        ),
        (TrajectoryPayload::Resumed, json!({"kind": "resumed"})),
        (
            TrajectoryPayload::Denied {
                tool_call_id: "c".into(),
                tool_name: "bash".into(),
                reason: None,
            },
            json!({"kind": "denied", "tool_call_id": "c", "tool_name": "bash"}),
        ),
        (
            TrajectoryPayload::ContextCompacted { trigger: Some("auto".into()) },
            json!({"kind": "context_compacted", "trigger": "auto"}),
        ),
        (
            TrajectoryPayload::Gap { lost: 3, reason: GapReason::Overload },
            json!({"kind": "gap", "lost": 3, "reason": "overload"}),
        ),
        (
            TrajectoryPayload::Unread { host: "h".into(), raw: "\u{fffd}".into() },
            json!({"kind": "unread", "host": "h", "raw": "\u{fffd}"}),
        ),
        (
            TrajectoryPayload::RunEnded {
                outcome: RunOutcome::LimitReached,
                new_messages: vec![AgentMessage::user("hi")],
            },
            json!({"kind": "run_ended", "outcome": "limit_reached",
                   "new_messages": [{"role": "user", "content": "hi"}]}),
        ),
    ] {
        assert_eq!(serde_json::to_value(&payload).unwrap(), expected);
        assert_eq!(serde_json::from_value::<TrajectoryPayload>(expected).unwrap(), payload);
    }
}

#[test]
fn a_record_names_its_run_parent_and_depth() {
    let parent = RunIdentity::root("p").with_conversation_id("conversation");
    let child = RunIdentity::child_of(&parent, "p.worker");
    let record =
        TrajectoryRecord::new(0, Timestamp::default(), TrajectoryPayload::Resumed).in_run(&child);
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(
        (&json["run_id"], &json["parent_run_id"], &json["depth"]),
        (&json!("p.worker"), &json!("p"), &json!(1))
    );
    assert_eq!(child.conversation_id.as_deref(), Some("conversation"));
}

#[test]
fn an_unknown_outcome_is_stored_unchanged() {
    let outcome: RunOutcome = serde_json::from_str("\"ended\"").unwrap();
    assert_eq!(outcome, RunOutcome::Other("ended".into()));
    assert_eq!(serde_json::to_string(&outcome).unwrap(), "\"ended\"");
}

#[test]
fn the_list_of_kinds_is_complete() {
    for kind in TrajectoryPayload::KINDS {
        let read = serde_json::from_value::<TrajectoryPayload>(json!({ "kind": kind }));
        let unknown = read.is_err_and(|error| error.to_string().starts_with("unknown variant"));
        assert!(!unknown, "{kind}");
    }
    let error = serde_json::from_value::<TrajectoryPayload>(json!({"kind": "?"})).unwrap_err();
    let known = error.to_string().matches('`').count() / 2 - 1;
    assert_eq!(known, TrajectoryPayload::KINDS.len());
}
