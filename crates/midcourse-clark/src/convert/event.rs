//! Converts an event of clark-agent's loop to the payload of a record.

use clark_agent::AgentEvent;
use midcourse::{RunOutcome, TrajectoryPayload};

use super::from_clark::{identity, message, messages, tool_result};

/// The payload with which an event is recorded. `None` for events that are not recorded: parts of a
/// streamed message or result, and the start of the loop.
///
/// The loop emits `AgentEnd` only if the run succeeded, so that event becomes the end of a run with
/// the outcome "completed".
pub fn payload_of(event: &AgentEvent) -> Option<TrajectoryPayload> {
    Some(match event {
        AgentEvent::AgentStart
        | AgentEvent::MessageStart { .. }
        | AgentEvent::MessageUpdate { .. }
        | AgentEvent::ToolExecutionUpdate { .. } => return None,
        AgentEvent::RunIdentified { identity: run } => {
            TrajectoryPayload::RunStarted { identity: identity(run) }
        }
        AgentEvent::AgentEnd { messages: new } => TrajectoryPayload::RunEnded {
            outcome: RunOutcome::Completed,
            new_messages: messages(new),
        },
        AgentEvent::TurnStart => TrajectoryPayload::TurnStarted,
        AgentEvent::TurnEnd { message: assistant, tool_results } => TrajectoryPayload::TurnEnded {
            assistant: message(assistant),
            tool_results: messages(tool_results),
        },
        AgentEvent::MessageEnd { message: ended } => {
            TrajectoryPayload::MessageAppended { message: message(ended) }
        }
        AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args } => {
            TrajectoryPayload::ToolStarted {
                tool_call_id: tool_call_id.into(),
                tool_name: tool_name.into(),
                args: args.clone(),
            }
        }
        AgentEvent::ToolExecutionEnd { tool_call_id, tool_name, result, is_error } => {
            TrajectoryPayload::ToolEnded {
                tool_call_id: tool_call_id.into(),
                tool_name: tool_name.into(),
                result: tool_result(result),
                is_error: *is_error,
            }
        }
        AgentEvent::ProviderRequestPrepared {
            iteration,
            model_id,
            system_prompt,
            messages,
            tools,
            temperature: _,
            max_output_tokens: _,
        } => TrajectoryPayload::ProviderRequestPrepared {
            iteration: *iteration,
            model_id: model_id.clone(),
            system_prompt_chars: system_prompt.chars().count(),
            message_count: messages.len(),
            tool_count: tools.len(),
            tools: tools.iter().map(|tool| tool.name.clone()).collect(),
            kept_by_server: false,
        },
        AgentEvent::ContextTransformApplied { iteration, plugin, before, after } => {
            TrajectoryPayload::ContextTransformApplied {
                iteration: *iteration,
                plugin: (*plugin).to_owned(),
                before_count: before.len(),
                after_count: after.len(),
            }
        }
        AgentEvent::ToolGateApplied { iteration, plugin, allow } => {
            TrajectoryPayload::ToolGateApplied {
                iteration: *iteration,
                plugin: (*plugin).to_owned(),
                allow: allow.clone(),
            }
        }
        AgentEvent::ToolGateConflictResolved {
            iteration,
            plugins,
            chosen_plugin,
            allow,
            reason,
        } => TrajectoryPayload::ToolGateConflictResolved {
            iteration: *iteration,
            plugins: plugins.clone(),
            chosen_plugin: chosen_plugin.clone(),
            allow: allow.clone(),
            reason: reason.clone(),
        },
        AgentEvent::OutputTokensEscalation { attempt, prev_cap, new_cap } => {
            TrajectoryPayload::OutputTokensEscalation {
                attempt: *attempt,
                prev_cap: *prev_cap,
                new_cap: *new_cap,
            }
        }
    })
}
