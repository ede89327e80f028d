//! The stored records are what the loop did, in order.

use std::sync::Arc;

use clark_agent::PluginCapabilities;
use midcourse::InMemoryTrajectorySink;
use midcourse::{RunOutcome, TrajectoryPayload};
use midcourse_clark::Midcourse;
use serde_json::json;

use crate::script::{
    Heard, Model, Reply, Shelf, builder, calls, identity, kinds, payloads, run, says,
};

fn work() -> [Reply; 3] {
    [
        calls([("a", "read", json!({"path": "Makefile"}))]),
        calls([("b", "touch", json!({"path": "all"}))]),
        says("It builds."),
    ]
}

#[tokio::test]
async fn a_run_is_stored_completely_and_in_order() {
    let (shelf, heard, model) = (Shelf::new(), Arc::<Heard>::default(), Model::new(work()));
    let plugin = Arc::new(shelf.plugin());
    let builder = plugin.attach(builder(&model).event_sink(Arc::<Heard>::clone(&heard)));
    run(builder, identity("r")).await.unwrap();

    let records = shelf.records("r");
    assert_eq!(payloads(&records), heard.payloads().iter().collect::<Vec<_>>());
    let turn = ["provider_request_prepared", "message_appended"];
    let call = ["tool_started", "tool_ended", "turn_ended", "turn_started"];
    let expected = [
        &["run_started", "turn_started", "message_appended"][..],
        &turn,
        &call,
        &turn,
        &call,
        &turn,
        &["turn_ended", "run_ended"],
    ];
    assert_eq!(kinds(&records), expected.concat());
    assert!(records.is_sorted_by_key(|record| record.at()));

    let summary = shelf.store().run("r").unwrap().unwrap();
    assert_eq!(summary.host, "clark-agent");
    assert_eq!((summary.calls, summary.errors, summary.deliveries), (2, 0, 0));
    assert_eq!(summary.outcome.as_deref(), Some("completed"));
}

#[tokio::test]
async fn the_memory_sink_has_the_same_records_as_the_store() {
    let (shelf, memory) = (Shelf::new(), Arc::new(InMemoryTrajectorySink::new()));
    let stored = Arc::new(shelf.plugin());
    run(stored.attach(builder(&Model::new(work()))), identity("r")).await.unwrap();
    let kept = Arc::new(Midcourse::new(Arc::<InMemoryTrajectorySink>::clone(&memory)));
    run(kept.attach(builder(&Model::new(work()))), identity("r")).await.unwrap();
    assert_eq!(kinds(&memory.records(&"r".into())), kinds(&shelf.records("r")));
}

#[tokio::test]
async fn a_failed_run_has_the_outcome_that_the_host_reports() {
    let shelf = Shelf::new();
    let plugin = Arc::new(shelf.plugin());
    let model = Model::new([calls([("a", "ruin", json!({}))])]);
    let error = run(plugin.attach(builder(&model)), identity("r")).await.unwrap_err();
    assert_eq!(kinds(&shelf.records("r")).last(), Some(&"tool_started"));

    plugin.failed(&error).await;
    plugin.failed(&error).await;
    let records = shelf.records("r");
    let ends: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.payload {
            TrajectoryPayload::RunEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [RunOutcome::Failed]);
}

#[tokio::test]
async fn the_plugin_declares_its_capabilities() {
    let plugin = Arc::new(Shelf::new().plugin());
    let expected = PluginCapabilities {
        after_tool_call: true,
        context_transform: true,
        event_observer: true,
        ..PluginCapabilities::default()
    };
    assert_eq!(clark_agent::Plugin::capabilities(&*plugin), expected);
    let names = plugin.attach(builder(&Model::new([]))).build().unwrap().plugin_names();
    assert_eq!(names.event_observer, ["midcourse"]);
    assert_eq!(names.after_tool_call, ["midcourse"]);
    assert_eq!(names.context_transform, ["midcourse"]);
}
