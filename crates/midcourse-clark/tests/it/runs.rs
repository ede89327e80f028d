//! Several runs on one plugin, and runs that continue.

use std::sync::{Arc, Mutex};

use clark_agent::{AgentContext, RunIdentity};
use midcourse::{Budget, Engine, TrajectoryPayload};
use tokio_util::sync::CancellationToken;

use crate::script::{
    Model, Shelf, builder, failing_loop, identity, kinds, message_text, payloads, run, says, user,
};

#[tokio::test]
async fn consecutive_runs_share_no_state() {
    let shelf = Shelf::new();
    let plugin = Arc::new(shelf.plugin());
    for id in ["one", "two"] {
        let model = Model::new(failing_loop(2));
        run(plugin.attach(builder(&model)), identity(id)).await.unwrap();
        // There is no message: it would need a third failure in a row.
        assert!(model.requests().iter().flatten().all(|message| message_text(message).is_none()));
    }
    assert_eq!(kinds(&shelf.records("one")), kinds(&shelf.records("two")));
}

#[tokio::test]
async fn a_run_without_identity_gets_a_generated_id() {
    let shelf = Shelf::new();
    let plugin = Arc::new(shelf.plugin());
    for identity in [Some(identity("named")), None, None] {
        let model = Model::new([says("done")]);
        run(plugin.attach(builder(&model)), identity).await.unwrap();
    }
    let runs = shelf.store().runs(10).unwrap();
    assert_eq!(runs.len(), 3);
    let named = shelf.records("named");
    for summary in runs.iter().filter(|summary| summary.run_id.as_str() != "named") {
        let records = shelf.records(summary.run_id.as_str());
        assert_eq!(kinds(&records), kinds(&named)[1..]);
    }
}

/// Continues an existing run with another prompt.
async fn continue_run(
    plugin: &Arc<midcourse_clark::Midcourse>,
    model: &Arc<Model>,
    run: RunIdentity,
) {
    let config = plugin.attach(builder(model)).build().unwrap();
    let mut context = AgentContext::new("You fix builds.");
    context.messages.push(user("Go on."));
    context.identity = Some(run);
    clark_agent::run_continue(context, &config, CancellationToken::new()).await.unwrap();
}

#[tokio::test]
async fn a_continued_run_is_one_run() {
    let shelf = Shelf::new();
    let made = Arc::new(Mutex::new(0));
    let count = Arc::clone(&made);
    let plugin = Arc::new(shelf.plugin().with_engine(move |_| {
        *count.lock().unwrap() += 1;
        Engine::shipped(Budget::default())
    }));
    run(plugin.attach(builder(&Model::new(failing_loop(1)))), identity("r")).await.unwrap();
    let before = shelf.records("r").len();
    let deadline = midcourse::now().after(std::time::Duration::from_secs(3600));
    let again = identity("r").with_deadline_unix_ms(deadline.unix_ms());
    // The new calls have the same ids as the earlier ones.
    continue_run(&plugin, &Model::new(failing_loop(1)), again).await;

    assert_eq!(*made.lock().unwrap(), 1);
    let records = shelf.records("r");
    assert_eq!(
        payloads(&records)[before..before + 2],
        [
            &TrajectoryPayload::DeadlineSet { at_unix_ms: Some(deadline) },
            &TrajectoryPayload::Resumed,
        ]
    );
    assert_eq!(kinds(&records)[before + 2..before + 4], ["guidance_delivered", "turn_started"]);
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "tool_ended").count(), 2);
}

#[tokio::test]
async fn another_process_can_restore_the_engine_from_the_records() {
    let shelf = Shelf::new();
    let first = Arc::new(shelf.plugin());
    run(first.attach(builder(&Model::new(failing_loop(2)))), identity("r")).await.unwrap();

    let home = midcourse::DataDir::at(shelf.folder.path());
    let second = Arc::new(shelf.plugin().with_engine(move |run| {
        let mut engine = Engine::shipped(Budget::default());
        let store = midcourse::Store::open_read_only(&home).unwrap().unwrap();
        for record in store.trajectory(run.unwrap().run_id.as_str()).unwrap() {
            engine.step(&record, None);
        }
        assert_eq!(engine.trajectory().tool_call_count(), 2);
        engine
    }));
    continue_run(&second, &Model::new([says("done")]), identity("r")).await;
    let records = shelf.records("r");
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "run_started").count(), 1);
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "resumed").count(), 1);
}
