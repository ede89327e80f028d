//! Trajectory payloads that several hosts create in the same way.

use midcourse::{
    AgentMessage, Event, RunOutcome, Source, StopReason, ToolResult, TrajectoryPayload, Usage,
};
use serde_json::Value;

use super::{About, Decoded};

/// Maximum number of model responses whose token usage is reported at one hook call. Usually there
/// is only one response between two hook calls.
const MAX_RESPONSES: usize = 4;

pub(super) fn tool_started(id: String, tool: String, args: Value) -> TrajectoryPayload {
    TrajectoryPayload::ToolStarted { tool_call_id: id.into(), tool_name: tool.into(), args }
}

pub(super) fn tool_ended(id: String, tool: String, result: ToolResult) -> TrajectoryPayload {
    let is_error = result.is_error;
    TrajectoryPayload::ToolEnded {
        tool_call_id: id.into(),
        tool_name: tool.into(),
        result,
        is_error,
    }
}

/// Converts a prompt to a message. Some prompts are written by the host, not by the user: each
/// entry of `generated` is the text with which such a prompt begins, and the kind of custom message
/// that it becomes. Every other prompt becomes a user message.
pub(super) fn prompt(text: String, generated: &[(&str, &str)]) -> AgentMessage {
    let found = generated.iter().find(|(prefix, _)| text.trim_start().starts_with(prefix));
    match found {
        None => AgentMessage::user(text),
        Some((_, kind)) => AgentMessage::Custom {
            kind: (*kind).to_owned(),
            payload: Value::String(text),
            timestamp: None,
        },
    }
}

/// The payload for the model's last message. `error` is the error that cut the message off, if any.
pub(super) fn assistant_message(text: Option<String>, error: Option<String>) -> TrajectoryPayload {
    let mut message = AgentMessage::assistant(text.unwrap_or_default());
    if let (AgentMessage::Assistant { stop_reason, error_message, .. }, Some(error)) =
        (&mut message, error)
    {
        *stop_reason = StopReason::Error;
        *error_message = Some(error);
    }
    TrajectoryPayload::MessageAppended { message }
}

/// The outcome of a run, from the `reason` field of the hook event SessionEnd. Hosts send `other`
/// if they do not know the reason.
pub(super) fn outcome(reason: Option<String>) -> RunOutcome {
    match reason.as_deref() {
        None | Some("" | "other") => RunOutcome::Unknown,
        Some(reason) => RunOutcome::Other(reason.to_owned()),
    }
}

pub(super) const fn starts_run(event: &Event) -> bool {
    matches!(event.payload, TrajectoryPayload::RunStarted { .. })
}

/// What the end of a transcript says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TranscriptEnd {
    /// The token usage of each model response, with the response's id.
    pub(super) usage: Vec<(String, Usage)>,
    pub(super) about: About,
}

/// Adds what the end of a transcript says to a payload.
pub(super) fn add_transcript_end(decoded: Decoded, end: TranscriptEnd) -> Decoded {
    let TranscriptEnd { usage, about } = end;
    let known = decoded.about.clone();
    let about = About {
        model: about.model.or(known.model),
        host_version: about.host_version.or(known.host_version),
    };
    Decoded { about, ..add_usage_before(decoded, usage) }
}

/// Adds the token usage of model responses to a payload's events. These events come before the
/// payload's own event, so that a message about the token budget, which may follow that event,
/// includes this usage. Nothing is added before the start of a run, which must be its first event.
fn add_usage_before(mut decoded: Decoded, responses: Vec<(String, Usage)>) -> Decoded {
    let first = decoded.events.first();
    let Some(event) = first.filter(|event| !starts_run(event)) else { return decoded };
    let mut events = usage_events(event, responses);
    events.append(&mut decoded.events);
    Decoded { events, ..decoded }
}

/// Creates one event for each of the latest model responses in the transcript, with its token usage
/// and with the run, host and time of `event`. The key of the new event contains the id of the
/// response; the store drops a second event with the same key, so no response is counted twice.
pub(super) fn usage_events(event: &Event, responses: Vec<(String, Usage)>) -> Vec<Event> {
    let older = responses.len().saturating_sub(MAX_RESPONSES);
    let usage_event = |(response, usage): (String, Usage)| {
        let payload = TrajectoryPayload::UsageReported { usage };
        let source = Source::new(event.source.host(), midcourse::Channel::Transcript);
        Event::new(event.run.clone(), source, event.at, payload)
            .with_fact(format!("usage:{response}"))
    };
    responses.into_iter().skip(older).map(usage_event).collect()
}
