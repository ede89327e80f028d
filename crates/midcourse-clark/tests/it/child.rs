//! A run that starts a child run.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use clark_agent::{
    AgentContext, AgentTool, LoopConfig, RunIdentity, ToolError, ToolResult, ToolUpdateSink,
};
use midcourse_clark::Midcourse;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::script::{
    Model, Shelf, builder, calls, failing_loop, identity, kinds, says, tools, user,
};

/// A tool that runs another agent.
struct Delegate {
    parent: Arc<OnceLock<LoopConfig>>,
    plugin: Arc<Midcourse>,
    model: Arc<Model>,
}

#[async_trait]
impl AgentTool for Delegate {
    fn name(&self) -> &str {
        "delegate"
    }

    fn description(&self) -> &str {
        "asks another agent"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(
        &self,
        _: &str,
        args: Value,
        signal: CancellationToken,
        _: ToolUpdateSink,
    ) -> Result<ToolResult, ToolError> {
        let inherited = self.parent.get().unwrap().child_builder();
        let names = self.parent.get().unwrap().child_builder().build().unwrap().plugin_names();
        assert_eq!(names, clark_agent::PluginNames::default());
        let plugin = Arc::new(self.plugin.child());
        let config =
            plugin.attach(inherited.stream(Arc::<Model>::clone(&self.model))).build().unwrap();
        let mut context = AgentContext::new("You help.");
        let id = args["id"].as_str().unwrap();
        context.identity = Some(RunIdentity::child_of(&identity("parent")).with_run_id(id));
        clark_agent::run(vec![user("Help.")], context, &config, signal).await.unwrap();
        Ok(ToolResult::text("helped"))
    }
}

#[tokio::test]
async fn children_have_their_own_records_and_their_own_engine() {
    let shelf = Shelf::new();
    let plugin = Arc::new(shelf.plugin());
    let two = calls([
        ("a", "delegate", json!({"id": "first"})),
        ("b", "delegate", json!({"id": "second"})),
    ]);
    let model = Model::new([two, says("done")]);
    // Both child runs use this one model, so the scripted responses are divided between them.
    let circles = Model::new(failing_loop(4));
    let parent = Arc::<OnceLock<LoopConfig>>::default();
    let delegate = Delegate {
        parent: Arc::clone(&parent),
        plugin: Arc::clone(&plugin),
        model: Arc::clone(&circles),
    };
    let config = plugin.attach(builder(&model).tools(tools().with(Arc::new(delegate)))).build();
    assert!(parent.set(config.unwrap()).is_ok());
    let mut context = AgentContext::new("You fix builds.");
    context.identity = Some(identity("parent"));
    let prompt = vec![user("Fix the build.")];
    clark_agent::run(prompt, context, parent.get().unwrap(), CancellationToken::new())
        .await
        .unwrap();

    let records = shelf.records("parent");
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "tool_ended").count(), 2);
    assert!(records.iter().all(|record| record.depth == 0));
    let mut calls_of_children = 0;
    for id in ["first", "second"] {
        let child = shelf.records(id);
        assert_eq!(kinds(&child)[0], "run_started");
        assert_eq!(kinds(&child).iter().filter(|kind| **kind == "run_ended").count(), 1);
        for record in &child {
            assert_eq!(record.parent_run_id.as_ref().unwrap().as_str(), "parent");
            assert_eq!(record.depth, 1);
            assert!(record.at() >= records[0].at());
        }
        calls_of_children += kinds(&child).iter().filter(|kind| **kind == "tool_ended").count();
    }
    assert_eq!(calls_of_children, 4);
    let runs: Vec<_> =
        shelf.store().children("parent").unwrap().into_iter().map(|run| run.run_id).collect();
    assert_eq!(runs.len(), 2);
}
