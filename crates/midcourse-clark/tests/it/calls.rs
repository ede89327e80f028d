//! Tool calls: each is one record, however it ends.

use std::sync::Arc;

use async_trait::async_trait;
use clark_agent::plugin::BeforeToolCallContext;
use clark_agent::{BeforeToolCall, BeforeToolDecision, ExecutionMode, Plugin, PluginCapabilities};
use midcourse::{
    Engine, FeedbackProviderConfig, FeedbackTrigger, Prompt, PromptTemplate, StaticFeedback,
    TrajectoryAnalysisConfig, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::json;

use crate::script::{
    Model, Shelf, builder, calls, identity, kinds, message_text, run, says, without_messages,
};

/// Id and error flag of each call that ended, in order.
fn ended(records: &[TrajectoryRecord]) -> Vec<(String, bool)> {
    let ended = |record: &TrajectoryRecord| match &record.payload {
        TrajectoryPayload::ToolEnded { tool_call_id, is_error, .. } => {
            Some((tool_call_id.to_string(), *is_error))
        }
        _ => None,
    };
    records.iter().filter_map(ended).collect()
}

fn count(records: &[TrajectoryRecord], kind: &str) -> usize {
    kinds(records).iter().filter(|it| **it == kind).count()
}

fn engine_with_feedback_after_every_call() -> Engine {
    let provider = StaticFeedback::new("Static", "Mind the tests.").unwrap();
    let trigger = FeedbackTrigger::every_n_calls(1).unwrap();
    let template = PromptTemplate::new("test", "run")
        .unwrap()
        .with_feedback_provider(FeedbackProviderConfig::new(provider, trigger))
        .unwrap();
    Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped())
}

#[tokio::test]
async fn parallel_calls_are_recorded_as_they_return() {
    let batch = || {
        calls([
            ("a", "read", json!({"wait_ms": 120})),
            ("b", "make", json!({"wait_ms": 60})),
            ("c", "read", json!({"wait_ms": 1})),
            ("d", "break", json!({"wait_ms": 1})),
        ])
    };
    let (shelf, model) = (Shelf::new(), Model::new([batch(), says("done")]));
    let plugin = Arc::new(shelf.plugin().with_engine(|_| engine_with_feedback_after_every_call()));
    run(plugin.attach(builder(&model)), identity("r")).await.unwrap();

    let records = shelf.records("r");
    let mut order = ended(&records);
    assert_eq!(order.split_off(2), [("b".into(), true), ("a".into(), false)]);
    order.sort();
    assert_eq!(order, [("c".into(), false), ("d".into(), true)]);
    assert_eq!(count(&records, "tool_started"), 4);
    // Each call got feedback, directly after its own record.
    for pair in records.windows(2) {
        if pair[0].payload.kind() == "tool_ended" {
            assert_eq!(pair[1].payload.kind(), "feedback_delivered");
        }
    }
    let request = &model.requests()[1];
    assert_eq!(request[2..].iter().filter_map(message_text).count(), 4);
    let bare = Model::new([batch(), says("done")]);
    run(builder(&bare), identity("r")).await.unwrap();
    assert_eq!(without_messages(request), bare.requests()[1]);
}

#[tokio::test]
async fn sequential_calls_are_recorded_alike() {
    let batch = calls([("a", "read", json!({})), ("b", "break", json!({}))]);
    let (shelf, model) = (Shelf::new(), Model::new([batch, says("done")]));
    let plugin = Arc::new(shelf.plugin());
    let builder = builder(&model).default_execution_mode(ExecutionMode::Sequential);
    run(plugin.attach(builder), identity("r")).await.unwrap();
    let records = shelf.records("r");
    assert_eq!(ended(&records), [("a".into(), false), ("b".into(), true)]);
    let place = kinds(&records).iter().position(|kind| *kind == "tool_started").unwrap();
    assert_eq!(
        kinds(&records)[place..place + 5],
        ["tool_started", "tool_ended", "tool_started", "tool_ended", "turn_ended"]
    );
}

struct NoMake;

impl Plugin for NoMake {
    fn name(&self) -> &'static str {
        "no_make"
    }

    fn capabilities(&self) -> PluginCapabilities {
        PluginCapabilities::before_tool_call()
    }
}

#[async_trait]
impl BeforeToolCall for NoMake {
    async fn on_before_tool_call(&self, ctx: BeforeToolCallContext<'_>) -> BeforeToolDecision {
        if ctx.tool_call.name == "make" {
            BeforeToolDecision::block_with_details("not here", json!({"by": "no_make"}))
        } else {
            BeforeToolDecision::allow()
        }
    }
}

#[tokio::test]
async fn calls_that_never_run_are_recorded_as_ended() {
    let batch = calls([
        ("blocked", "make", json!({})),
        ("unknown", "no_such_tool", json!({})),
        ("fine", "read", json!({})),
    ]);
    let (shelf, model) = (Shelf::new(), Model::new([batch, says("done")]));
    let plugin = Arc::new(shelf.plugin().with_engine(|_| engine_with_feedback_after_every_call()));
    let builder = builder(&model).before_tool_call(NoMake);
    run(plugin.attach(builder), identity("r")).await.unwrap();
    let records = shelf.records("r");
    assert_eq!(
        ended(&records),
        [("blocked".into(), true), ("unknown".into(), true), ("fine".into(), false)]
    );
    assert_eq!(count(&records, "tool_started"), 1);
    assert_eq!(model.requests()[1][2..].iter().filter_map(message_text).count(), 3);
    let blocked = records.iter().find_map(|record| match &record.payload {
        TrajectoryPayload::ToolEnded { tool_call_id, result, .. }
            if tool_call_id.as_str() == "blocked" =>
        {
            Some(result.clone())
        }
        _ => None,
    });
    let blocked = blocked.unwrap();
    assert_eq!(blocked.comparable_text(), "not here");
    assert_eq!(blocked.details, json!({"by": "no_make"}));
}

#[tokio::test]
async fn an_observer_alone_records_each_call_from_its_event() {
    let batch = calls([("a", "read", json!({})), ("b", "make", json!({}))]);
    let (shelf, model) = (Shelf::new(), Model::new([batch, says("done")]));
    let builder = builder(&model).event_observer_arc(Arc::new(shelf.plugin()));
    run(builder, identity("r")).await.unwrap();
    assert_eq!(ended(&shelf.records("r")), [("a".into(), false), ("b".into(), true)]);
}

#[tokio::test]
async fn repeated_call_ids_lose_no_call() {
    let call = |path: &str| calls([("0", "read", json!({"path": path}))]);
    let replies = [call("a"), call("b"), call("c"), says("done")];
    let (shelf, model) = (Shelf::new(), Model::new(replies));
    let plugin = Arc::new(shelf.plugin());
    run(plugin.attach(builder(&model)), identity("r")).await.unwrap();
    let records = shelf.records("r");
    let ids: Vec<_> = ended(&records).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["0", "0#2", "0#3"]);
    assert_eq!(count(&records, "tool_started"), 3);
}
