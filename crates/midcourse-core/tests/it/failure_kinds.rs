//! Measures how well failures are classified, with labelled results of tools in
//! `testdata/failures.jsonl`. `docs/judgement.md` has the figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use midcourse_core::{
    CallId, Engine, FailureKind, Timestamp, ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::Value;

/// The kinds that are right for a label. For `unknown`, only `Other` is right.
fn kinds_of(label: &str) -> Vec<FailureKind> {
    match label {
        "guessed_name" => vec![FailureKind::UnknownName, FailureKind::UnknownTool],
        "unknown" => vec![FailureKind::Other],
        _ => FailureKind::ALL.into_iter().filter(|kind| kind.as_str() == label).collect(),
    }
}

/// The kind of the failure of one call, as the engine sees it.
fn kind_of(case: &Value) -> FailureKind {
    let mut engine = Engine::shipped(Default::default());
    let (id, tool) = (CallId::from("c"), case["tool"].as_str().unwrap());
    let started = TrajectoryPayload::ToolStarted {
        tool_call_id: id.clone(),
        tool_name: tool.into(),
        args: case["args"].clone(),
    };
    let ended = TrajectoryPayload::ToolEnded {
        tool_call_id: id,
        tool_name: tool.into(),
        result: ToolResult::error(case["text"].as_str().unwrap()),
        is_error: true,
    };
    for (seq, payload) in [(1, started), (2, ended)] {
        engine.step(&TrajectoryRecord::new(seq, Timestamp::default(), payload), None);
    }
    // A search that found nothing did not fail, so it has no kind.
    let call = engine.trajectory().latest_call().unwrap();
    call.failure_kind().unwrap_or(FailureKind::Other)
}

#[derive(Default)]
struct Count {
    right: u32,
    other: u32,
    wrong: u32,
}

#[test]
fn no_labelled_failure_gets_a_wrong_kind_and_most_get_one() {
    let cases = include_str!("../../testdata/failures.jsonl");
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut mistakes = String::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let label = case["kind"].as_str().unwrap();
        let also = case["also"].as_array().unwrap();
        let labels = also.iter().map(|label| label.as_str().unwrap()).chain([label]);
        let fitting: Vec<_> = labels.flat_map(kinds_of).collect();
        assert!(!fitting.is_empty(), "{label} is not a label");
        let kind = kind_of(&case);
        let count = counts.entry(label.to_owned()).or_default();
        if kind == FailureKind::Other && label != "unknown" {
            count.other += 1;
        } else if fitting.contains(&kind) {
            count.right += 1;
        } else {
            count.wrong += 1;
            writeln!(mistakes, "{}: {kind:?}, not {fitting:?}", case["id"]).unwrap();
        }
    }
    assert!(mistakes.is_empty(), "{mistakes}");
    let (mut named, mut all) = (0, 0);
    for (label, Count { right, other, wrong }) in counts {
        // `cargo test failure_kinds -- --nocapture` prints the table.
        println!("{label:16} right {right:3}  other {other:3}  wrong {wrong:3}");
        if label != "unknown" {
            named += right;
            all += right + other + wrong;
        }
    }
    assert!(named * 10 >= all * 9, "only {named} of {all} failures have a kind");
}
