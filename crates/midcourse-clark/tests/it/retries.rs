//! Retries of one request: each attempt has the same text, which is recorded once.

use std::sync::Arc;

use async_trait::async_trait;
use clark_agent::stream::StreamErrorKind;
use clark_agent::{AgentMessage, ContextOverflowRecovery, TransformContext};

use crate::script::{
    Model, Reply, Shelf, builder, cut_off, failing_loop, identity, kinds, message_text, run,
};

fn said(model: &Model) -> Vec<Option<String>> {
    model.requests().iter().map(|request| request.last().and_then(message_text)).collect()
}

/// Checks that of six requests only the fourth and its retry (the fifth) contain a message, and
/// that it is the same message.
fn check(model: &Model, shelf: &Shelf) {
    let said = said(model);
    assert_eq!(said.len(), 6);
    assert!(said[3].is_some());
    assert_eq!(said[3], said[4]);
    assert_eq!(said.iter().flatten().count(), 2);
    let records = shelf.records("r");
    assert_eq!(kinds(&records).iter().filter(|kind| **kind == "guidance_delivered").count(), 1);
}

fn failing_loop_with(at: usize, reply: Reply) -> Vec<Reply> {
    let mut replies = failing_loop(4);
    replies.insert(at, reply);
    replies
}

#[tokio::test]
async fn a_truncated_response_is_retried_with_the_same_text() {
    let (shelf, model) = (Shelf::new(), Model::new(failing_loop_with(3, cut_off("Let me"))));
    let plugin = Arc::new(shelf.plugin());
    let builder = plugin.attach(builder(&model).max_output_tokens(16));
    run(builder, identity("r")).await.unwrap();
    check(&model, &shelf);
    assert!(kinds(&shelf.records("r")).contains(&"output_tokens_escalation"));
}

/// Shortens a context that is too long: drops the oldest response and its tool results.
struct Shorten;

#[async_trait]
impl ContextOverflowRecovery for Shorten {
    async fn recover(
        &self,
        mut messages: Vec<AgentMessage>,
        _: &TransformContext<'_>,
    ) -> Vec<AgentMessage> {
        messages.drain(1..3);
        messages
    }
}

#[tokio::test]
async fn an_overlong_context_is_retried_with_the_same_text() {
    let overflow = Reply::Fails(StreamErrorKind::ContextOverflow);
    let (shelf, model) = (Shelf::new(), Model::new(failing_loop_with(3, overflow)));
    let plugin = Arc::new(shelf.plugin());
    let builder = plugin.attach(builder(&model).overflow_recovery(Shorten));
    run(builder, identity("r")).await.unwrap();
    check(&model, &shelf);
}

#[tokio::test]
async fn a_transient_provider_error_is_retried_with_the_same_text() {
    for kind in [StreamErrorKind::Transient, StreamErrorKind::ZeroOutputTransport] {
        let (shelf, model) = (Shelf::new(), Model::new(failing_loop_with(3, Reply::Fails(kind))));
        let plugin = Arc::new(shelf.plugin());
        run(plugin.attach(builder(&model)), identity("r")).await.unwrap();
        check(&model, &shelf);
    }
}
