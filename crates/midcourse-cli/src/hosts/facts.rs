//! Facts that both hosts report alike.

use midcourse::{
    AgentMessage, DecisionPoint, RunOutcome, StopReason, ToolResult, TrajectoryPayload, Usage,
};
use serde_json::Value;

use midcourse::{Event, Source};

/// What is kept of a person's stopping the agent.
pub(super) const INTERRUPT: &str = "interrupt";

/// The end of a call.
pub(super) fn ended(id: String, tool: String, result: ToolResult) -> TrajectoryPayload {
    let is_error = result.is_error;
    TrajectoryPayload::ToolEnded {
        tool_call_id: id.into(),
        tool_name: tool.into(),
        result,
        is_error,
    }
}

/// A prompt as the message it is. What the client itself writes is nobody's word; `notes` says how
/// such prompts begin, and what they are.
pub(super) fn prompt(text: String, notes: &[(&str, &str)]) -> AgentMessage {
    let note = notes.iter().find(|(begins, _)| text.trim_start().starts_with(begins));
    match note {
        None => AgentMessage::user(text),
        Some((_, kind)) => AgentMessage::Custom {
            kind: (*kind).to_owned(),
            payload: Value::String(text),
            timestamp: None,
        },
    }
}

/// What the model said last, and what broke it off.
pub(super) fn answered(text: Option<String>, error: Option<String>) -> TrajectoryPayload {
    let mut message = AgentMessage::assistant(text.unwrap_or_default());
    if let (AgentMessage::Assistant { stop_reason, error_message, .. }, Some(error)) =
        (&mut message, error)
    {
        *stop_reason = StopReason::Error;
        *error_message = Some(error);
    }
    TrajectoryPayload::MessageAppended { message }
}

/// `other` is what the client says of an end that it does not explain.
pub(super) fn outcome(reason: Option<String>) -> RunOutcome {
    match reason.as_deref() {
        None | Some("" | "other") => RunOutcome::Unknown,
        Some(word) => RunOutcome::Other(word.to_owned()),
    }
}

/// Whether it is the first fact of a run, in front of which there is nothing.
pub(super) const fn begins_run(event: &Event) -> bool {
    matches!(event.payload, TrajectoryPayload::RunStarted { .. })
}

/// Answers of the model whose tokens are told at a time: there is about one from hook to hook.
const ANSWERS_MAX: usize = 4;

/// What the latest answers of the model have used, where the host's own file tells. Each is a fact
/// of its answer, whoever reads it when.
pub(super) fn used(event: &Event, way: &str, answers: Vec<(String, Usage)>) -> Vec<Event> {
    let older = answers.len().saturating_sub(ANSWERS_MAX);
    let fact = |(answer, usage): (String, Usage)| {
        let payload = TrajectoryPayload::UsageReported { usage };
        let source = Source::new(event.source.host(), way);
        Event::new(event.run.clone(), source, event.at, payload)
            .with_fact(format!("usage:{answer}"))
    };
    answers.into_iter().skip(older).map(fact).collect()
}

/// Where the beginning of a session, a resumption and a prompt are spoken about: before the model
/// gets to see them. What begins for a session's helpers carries nothing.
pub(super) fn point_before_render(
    is_child: bool,
    payload: &TrajectoryPayload,
) -> Option<DecisionPoint> {
    let carries = match payload {
        TrajectoryPayload::RunStarted { .. } => !is_child,
        TrajectoryPayload::Resumed => true,
        TrajectoryPayload::MessageAppended { message } => match message {
            AgentMessage::User { .. } => true,
            AgentMessage::Custom { kind, .. } => kind != INTERRUPT,
            _ => false,
        },
        _ => false,
    };
    carries.then_some(DecisionPoint::PreRender)
}
