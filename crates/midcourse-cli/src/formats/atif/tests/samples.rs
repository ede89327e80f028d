//! Samples of every version, made according to Harbor's models.

use std::fmt::Write as _;

use midcourse::Event;
use serde_json::json;

use super::read;

const SAMPLES: [&str; 9] = [
    include_str!("../../../../../../testdata/sessions/atif/v1.0.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.1.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.2.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.3.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.4.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.5.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.6.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.7.json"),
    include_str!("../../../../../../testdata/sessions/atif/v1.8.json"),
];

fn events(document: &str) -> Vec<Event> {
    let found = read(document.as_bytes());
    assert_eq!(found.problem, None);
    let total = found.counts.total();
    assert_eq!((total.unknown, total.invalid), (0, 0));
    found.records.into_iter().flat_map(|record| record.events).collect()
}

/// One line per event, without the start of the run.
fn lines(document: &str) -> String {
    let mut lines = String::new();
    for event in events(document) {
        let mut payload = json!(event.payload);
        payload.as_object_mut().unwrap().shift_remove("kind");
        let at = event.at.unix_ms() % 1_000_000 / 1_000;
        let (run, kind) = (event.run.run_id, event.payload.kind());
        if kind != "run_started" {
            writeln!(lines, "{run} {at} {kind} {payload}").unwrap();
        }
    }
    lines
}

#[test]
fn every_version_is_read_completely() {
    for (minor, sample) in SAMPLES.iter().enumerate() {
        let events = events(sample);
        assert_eq!(events[0].run.run_id.as_str(), format!("sample-1-{minor}"));
        assert_eq!(events[0].payload.kind(), "run_started");
        assert_eq!(events[0].source.host(), "sample-agent");
        let has = |kind: &str| events.iter().any(|event| event.payload.kind() == kind);
        for kind in ["run_described", "message_appended", "turn_started", "tool_ended"] {
            assert!(has(kind), "1.{minor} has no {kind}");
        }
    }
}

#[test]
fn results_without_calls_and_other_media_are_kept() {
    insta::assert_snapshot!(lines(SAMPLES[8]), @r#"
    sample-1-8 0 run_described {"host_version":"2.1"}
    sample-1-8 0 message_appended {"message":{"role":"user","content":[{"type":"text","text":"Do what I said."},{"type":"text","text":"[audio/wav: https://example.com/task.wav]"}]}}
    sample-1-8 5 turn_started {}
    sample-1-8 5 message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"cat notes.txt"}],"stop_reason":"end_turn"}}
    sample-1-8 5 tool_started {"tool_call_id":"atif:sample-1-8:2:result:0","tool_name":"environment","args":{"input":"cat notes.txt"}}
    sample-1-8 5 tool_ended {"tool_call_id":"atif:sample-1-8:2:result:0","tool_name":"environment","result":{"content":[{"type":"text","text":"nothing here"}],"is_error_unknown":true},"is_error":false}
    sample-1-8 9 turn_started {}
    sample-1-8 9 message_appended {"message":{"role":"assistant","content":[{"type":"text","text":"I listen again."},{"type":"tool_call","id":"call_1","name":"play","arguments":null}],"stop_reason":"tool_use"}}
    sample-1-8 9 tool_started {"tool_call_id":"call_1","tool_name":"play","args":{"file":"task.wav"}}
    sample-1-8 9 tool_ended {"tool_call_id":"call_1","tool_name":"play","result":{"content":[{"type":"text","text":"[audio/mp3: https://example.com/out.mp3]"}],"is_error_unknown":true},"is_error":false}
    "#);
}

#[test]
fn subagents_are_child_runs_and_repeated_call_ids_are_told_apart() {
    let events = events(SAMPLES[7]);
    let calls = events.iter().filter(|event| event.payload.kind() == "tool_ended");
    let calls: Vec<_> = calls
        .map(|event| (event.run.run_id.as_str(), event.payload.call_id().unwrap().as_str()))
        .collect();
    let main = "sample-1-7";
    let repeated = "call_1:atif:main:4:0";
    let worker = "sample-1-7.worker-1";
    assert_eq!(calls, [(main, "call_1"), (main, "call_2"), (main, repeated), (worker, "call_1")]);
    let child = &events.last().unwrap().run;
    assert_eq!((child.parent_run_id.as_ref().unwrap().as_str(), child.depth), (main, 1));
    assert!(events.iter().any(|event| event.payload.kind() == "context_compacted"));
}

#[test]
fn turns_that_were_copied_from_another_trajectory_are_left_out() {
    let found = read(SAMPLES[5].as_bytes());
    let (_, agent) = found.counts.iter().find(|(kind, _)| *kind == "agent").unwrap();
    assert_eq!((agent.used, agent.ignored), (1, 1));
}

#[test]
fn tokens_and_costs_are_counted_once() {
    let of = |minor: usize| {
        let events = events(SAMPLES[minor]);
        let kinds = events.iter().map(|event| event.payload.kind());
        let kinds: Vec<_> = kinds.filter(|kind| kind.ends_with("_reported")).collect();
        let cost = events.iter().map(|event| json!(event.payload)["total_micro_usd"].as_u64());
        (kinds.join(" "), cost.flatten().sum::<u64>())
    };
    assert_eq!(of(0), ("usage_reported cost_reported".to_owned(), 450));
    assert_eq!(of(1), ("usage_reported cost_reported".to_owned(), 450));
    let total = r#"{"steps": [{"source": "agent"}],
        "final_metrics": {"total_prompt_tokens": 9, "total_cached_tokens": 4}}"#;
    assert!(lines(total).contains(r#""input_tokens":5,"output_tokens":0"#), "{}", lines(total));
}

#[test]
fn a_newer_version_is_read_and_reported() {
    let newer = SAMPLES[0].replace("ATIF-v1.0", "ATIF-v1.10");
    let found = read(newer.as_bytes());
    assert!(found.problem.unwrap().contains("newer than 1.8"));
    assert_eq!(found.records.len(), read(SAMPLES[0].as_bytes()).records.len());
}

#[test]
fn a_list_of_trajectories_is_read() {
    let list = format!("[{}, {}]", SAMPLES[0], SAMPLES[7]);
    let runs: std::collections::BTreeSet<String> =
        events(&list).iter().map(|event| event.run.run_id.to_string()).collect();
    assert_eq!(runs.len(), 3, "{runs:?}");
}
