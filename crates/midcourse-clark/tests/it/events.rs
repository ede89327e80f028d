//! Which payload each event of clark-agent's loop becomes.

use clark_agent::{AgentEvent, AgentMessage};
use midcourse::TrajectoryPayload;
use midcourse_clark::payload_of;

use crate::script::user;

#[test]
fn streaming_events_and_the_start_of_the_loop_have_no_payload() {
    let update = AgentEvent::ToolExecutionUpdate {
        tool_call_id: "1".into(),
        tool_name: "shell".into(),
        partial: clark_agent::ToolResult::text("partial"),
    };
    let events = [AgentEvent::AgentStart, AgentEvent::MessageStart { message: user("hi") }, update];
    assert!(events.iter().all(|event| payload_of(event).is_none()));
}

#[test]
fn context_transforms_and_tool_gates_are_recorded_by_plugin_and_count() {
    let messages = |count: usize| -> Vec<AgentMessage> { vec![user("hi"); count] };
    let payloads = [
        AgentEvent::ContextTransformApplied {
            iteration: 1,
            plugin: "trim",
            before: messages(5),
            after: messages(2),
        },
        AgentEvent::ToolGateApplied { iteration: 1, plugin: "gate", allow: None },
        AgentEvent::ToolGateConflictResolved {
            iteration: 1,
            plugins: vec!["gate".into(), "other".into()],
            chosen_plugin: Some("gate".into()),
            allow: vec!["bash".into()],
            reason: "first".into(),
        },
        AgentEvent::OutputTokensEscalation { attempt: 1, prev_cap: 10, new_cap: 20 },
    ]
    .map(|event| payload_of(&event));
    let expected = [
        TrajectoryPayload::ContextTransformApplied {
            iteration: 1,
            plugin: "trim".into(),
            before_count: 5,
            after_count: 2,
        },
        TrajectoryPayload::ToolGateApplied { iteration: 1, plugin: "gate".into(), allow: None },
        TrajectoryPayload::ToolGateConflictResolved {
            iteration: 1,
            plugins: vec!["gate".into(), "other".into()],
            chosen_plugin: Some("gate".into()),
            allow: vec!["bash".into()],
            reason: "first".into(),
        },
        TrajectoryPayload::OutputTokensEscalation { attempt: 1, prev_cap: 10, new_cap: 20 },
    ];
    assert_eq!(payloads, expected.map(Some));
}

#[test]
fn a_prepared_request_is_recorded_with_sizes_and_names_only() {
    let event = AgentEvent::ProviderRequestPrepared {
        iteration: 2,
        model_id: Some("some-model".into()),
        system_prompt: "Grüße".into(),
        messages: vec![user("hi"); 3],
        tools: Vec::new(),
        temperature: None,
        max_output_tokens: None,
    };
    assert_eq!(
        payload_of(&event),
        Some(TrajectoryPayload::ProviderRequestPrepared {
            iteration: 2,
            model_id: Some("some-model".into()),
            system_prompt_chars: 5,
            message_count: 3,
            tool_count: 0,
            tools: Vec::new(),
            kept_by_server: false,
        })
    );
}
