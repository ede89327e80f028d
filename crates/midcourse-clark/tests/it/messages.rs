//! What reaches the model: feedback stays, guidance is in one request, nothing else changes.

use std::sync::Arc;

use clark_agent::{AgentMessage, RunIdentity};
use midcourse::{Budget, Engine, Mode, TrajectoryPayload};
use serde_json::json;

use crate::script::{
    LABEL, Model, Shelf, builder, calls, failing_loop, identity, kinds, message_text, run, says,
    without_messages,
};

fn due_in_an_hour(id: &str) -> RunIdentity {
    identity(id).with_deadline_unix_ms(midcourse::now().unix_ms() + 3_600_000)
}

fn last_message_text(request: &[AgentMessage]) -> Option<String> {
    request.last().and_then(message_text)
}

/// An engine with a budget of two calls: the first call uses half of it, which causes feedback.
fn engine_with_budget(_: Option<&midcourse::RunIdentity>) -> Engine {
    Engine::shipped(Budget::default().with_calls(2).unwrap())
}

#[tokio::test]
async fn feedback_is_in_every_later_request_unchanged() {
    let (shelf, model) = (Shelf::new(), Model::new(failing_loop(4)));
    let plugin = Arc::new(shelf.plugin().with_engine(engine_with_budget));
    run(plugin.attach(builder(&model)), identity("r")).await.unwrap();

    let requests = model.requests();
    let result = |request: &[AgentMessage]| request[2].clone();
    let said = message_text(&result(&requests[1])).unwrap();
    assert!(said.starts_with(&format!("\n\n{LABEL}\n[Feedback - Budget]\n\n")), "{said}");
    for request in &requests[1..] {
        assert_eq!(result(request), result(&requests[1]));
    }
    let AgentMessage::ToolResult { content, is_error, details, .. } = result(&requests[1]) else {
        panic!("the result of a tool")
    };
    assert_eq!((content.blocks.len(), is_error, details), (2, true, Some(json!({"exit": 2}))));

    let records = shelf.records("r");
    let place = kinds(&records).iter().position(|kind| *kind == "feedback_delivered").unwrap();
    let TrajectoryPayload::FeedbackDelivered { text, tool_call_id, .. } = &records[place].payload
    else {
        panic!("a delivery")
    };
    assert_eq!(said, format!("\n\n{LABEL}\n{text}"));
    assert_eq!(tool_call_id.as_ref().unwrap().as_str(), "c1");
    let TrajectoryPayload::ToolEnded { result, .. } = &records[place - 1].payload else {
        panic!("the call before it")
    };
    assert_eq!(result.comparable_text(), "make: *** No rule to make target 'all'.  Stop.");
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "tool_ended").count(), 4);
    assert!(shelf.store().run("r").unwrap().unwrap().deliveries >= 2);
}

#[tokio::test]
async fn guidance_is_in_one_request_and_changes_nothing_before_it() {
    let (shelf, model, bare) =
        (Shelf::new(), Model::new(failing_loop(4)), Model::new(failing_loop(4)));
    let plugin = Arc::new(shelf.plugin());
    let told = run(plugin.attach(builder(&model)), due_in_an_hour("r")).await.unwrap();
    let alone = run(builder(&bare), due_in_an_hour("r")).await.unwrap();

    let (requests, expected) = (model.requests(), bare.requests());
    assert_eq!(requests.len(), 5);
    let guided: Vec<_> = requests
        .iter()
        .map(|request| {
            request.iter().filter(|message| matches!(message, AgentMessage::User { .. })).count()
                > 1
        })
        .collect();
    assert_eq!(guided, [true, false, false, true, false]);
    let said = last_message_text(&requests[0]).unwrap();
    assert!(said.contains("deadline"), "{said}");
    let said = last_message_text(&requests[3]).unwrap();
    assert!(
        said.starts_with(&format!("{LABEL}\n[Guidance]\n\nYou ")) && said.contains(" 3 times and "),
        "{said}"
    );

    for (request, expected) in requests.iter().zip(&expected) {
        let bytes = |messages: &[AgentMessage]| serde_json::to_string(messages).unwrap();
        assert_eq!(bytes(&without_messages(request)), bytes(expected));
    }
    let kept = crate::script::without_times(&told.messages);
    assert_eq!(without_messages(&kept), crate::script::without_times(&alone.messages));
    assert!(!kept.iter().any(|message| {
        matches!(message, AgentMessage::User { .. }) && message_text(message).is_some()
    }));

    let records = shelf.records("r");
    let place = kinds(&records).iter().rposition(|kind| *kind == "guidance_delivered").unwrap();
    assert_eq!(kinds(&records)[place - 1..=place], ["tool_ended", "guidance_delivered"]);
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "guidance_delivered").count(), 2);
    assert_eq!(kinds(&records).last(), Some(&"outcome"));
    let opinions = shelf.store().records("r", 0, usize::MAX).unwrap();
    let source = &opinions[place].source;
    assert_eq!(source.channel(), midcourse::Channel::Engine);
}

#[tokio::test]
async fn shadow_mode_records_messages_and_delivers_none() {
    let (shelf, model, bare) =
        (Shelf::new(), Model::new(failing_loop(4)), Model::new(failing_loop(4)));
    let shadow = |run: Option<&_>| engine_with_budget(run).with_mode(Mode::Shadow);
    let plugin = Arc::new(shelf.plugin().with_engine(shadow));
    run(plugin.attach(builder(&model)), due_in_an_hour("r")).await.unwrap();
    run(builder(&bare), due_in_an_hour("r")).await.unwrap();
    assert_eq!(model.requests(), bare.requests());
    let records = shelf.records("r");
    assert!(kinds(&records).contains(&"feedback_delivered"));
    assert!(kinds(&records).contains(&"guidance_delivered"));
    assert_eq!(shelf.store().run("r").unwrap().unwrap().deliveries, 0);
}

#[tokio::test]
async fn a_terminating_result_gets_no_message() {
    let (shelf, model) = (Shelf::new(), Model::new([calls([("a", "deliver", json!({}))])]));
    let plugin = Arc::new(shelf.plugin());
    let result = run(plugin.attach(builder(&model)), due_in_an_hour("r")).await.unwrap();
    assert!(result.messages.iter().all(|message| message_text(message).is_none()));
    assert_eq!(model.requests().len(), 1);
    assert!(!kinds(&shelf.records("r")).contains(&"feedback_delivered"));
}

#[tokio::test]
async fn an_empty_result_carries_feedback() {
    let replies = [calls([("a", "touch", json!({}))]), says("done")];
    let (shelf, model) = (Shelf::new(), Model::new(replies));
    let plugin = Arc::new(shelf.plugin().with_engine(engine_with_budget));
    run(plugin.attach(builder(&model)), identity("r")).await.unwrap();
    let request = &model.requests()[1];
    let AgentMessage::ToolResult { content, is_error, narration, .. } = &request[2] else {
        panic!("the result of a tool")
    };
    assert!(content.plain_text().starts_with(LABEL), "{content:?}");
    assert_eq!((*is_error, narration.as_deref()), (false, Some("Touched it.")));
    let records = shelf.records("r");
    let empty = records.iter().any(|record| {
        matches!(&record.payload, TrajectoryPayload::ToolEnded { result, .. }
            if result.content.is_empty())
    });
    assert!(empty);
}
