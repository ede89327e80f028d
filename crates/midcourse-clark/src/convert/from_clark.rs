//! Converts clark-agent's types to midcourse's.

use clark_agent::types as clark;
use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, ImageContent, ReasoningDetailsContent,
    RunIdentity, StopReason, TextContent, Timestamp, ToolCallBlock, ToolResult, ToolResultBlock,
    ToolResultContent, TrajectoryPayload, Usage, UserBlock, UserContent,
};

pub(crate) fn identity(run: &clark::RunIdentity) -> RunIdentity {
    RunIdentity {
        run_id: (&run.run_id).into(),
        parent_run_id: run.parent_run_id.as_ref().map(Into::into),
        depth: run.depth,
        conversation_id: run.conversation_id.clone(),
        deadline_unix_ms: time(run.deadline_unix_ms),
    }
}

pub(crate) fn payload(payload: &clark_agent::TrajectoryPayload) -> TrajectoryPayload {
    use clark_agent::TrajectoryPayload as Clark;
    match payload {
        Clark::RunStarted { identity: run } => {
            TrajectoryPayload::RunStarted { identity: identity(run) }
        }
        Clark::RunEnded { outcome, new_messages } => TrajectoryPayload::RunEnded {
            outcome: outcome.clone().into(),
            new_messages: messages(new_messages),
        },
        Clark::TurnStarted => TrajectoryPayload::TurnStarted,
        Clark::TurnEnded { assistant, tool_results } => TrajectoryPayload::TurnEnded {
            assistant: message(assistant),
            tool_results: messages(tool_results),
        },
        Clark::MessageAppended { message: appended } => {
            TrajectoryPayload::MessageAppended { message: message(appended) }
        }
        Clark::ToolStarted { tool_call_id, tool_name, args } => TrajectoryPayload::ToolStarted {
            tool_call_id: tool_call_id.into(),
            tool_name: tool_name.into(),
            args: args.clone(),
        },
        Clark::ToolEnded { tool_call_id, tool_name, result, is_error } => {
            TrajectoryPayload::ToolEnded {
                tool_call_id: tool_call_id.into(),
                tool_name: tool_name.into(),
                result: tool_result(result),
                is_error: *is_error,
            }
        }
        Clark::ProviderRequestPrepared {
            iteration,
            model_id,
            system_prompt_chars,
            message_count,
            tool_count,
            tools,
        } => TrajectoryPayload::ProviderRequestPrepared {
            iteration: *iteration,
            model_id: model_id.clone(),
            system_prompt_chars: *system_prompt_chars,
            message_count: *message_count,
            tool_count: *tool_count,
            tools: tools.clone(),
            kept_by_server: false,
        },
        Clark::ContextTransformApplied { iteration, plugin, before_count, after_count } => {
            TrajectoryPayload::ContextTransformApplied {
                iteration: *iteration,
                plugin: plugin.clone(),
                before_count: *before_count,
                after_count: *after_count,
            }
        }
        Clark::ToolGateApplied { iteration, plugin, allow } => TrajectoryPayload::ToolGateApplied {
            iteration: *iteration,
            plugin: plugin.clone(),
            allow: allow.clone(),
        },
        Clark::ToolGateConflictResolved { iteration, plugins, chosen_plugin, allow, reason } => {
            TrajectoryPayload::ToolGateConflictResolved {
                iteration: *iteration,
                plugins: plugins.clone(),
                chosen_plugin: chosen_plugin.clone(),
                allow: allow.clone(),
                reason: reason.clone(),
            }
        }
        Clark::OutputTokensEscalation { attempt, prev_cap, new_cap } => {
            TrajectoryPayload::OutputTokensEscalation {
                attempt: *attempt,
                prev_cap: *prev_cap,
                new_cap: *new_cap,
            }
        }
    }
}

pub(super) fn messages(messages: &[clark::AgentMessage]) -> Vec<AgentMessage> {
    messages.iter().map(message).collect()
}

pub(super) fn message(message: &clark::AgentMessage) -> AgentMessage {
    use clark::AgentMessage as Clark;
    match message {
        Clark::System { content, timestamp } => {
            AgentMessage::System { content: content.clone(), timestamp: time(*timestamp) }
        }
        Clark::User { content, timestamp } => {
            AgentMessage::User { content: user_content(content), timestamp: time(*timestamp) }
        }
        Clark::Assistant { content, stop_reason, error_message, timestamp, usage: spent } => {
            AgentMessage::Assistant {
                content: AssistantContent {
                    blocks: content.blocks.iter().map(assistant_block).collect(),
                },
                stop_reason: stop(*stop_reason),
                error_message: error_message.clone(),
                timestamp: time(*timestamp),
                usage: spent.as_ref().map(usage),
            }
        }
        Clark::ToolResult {
            tool_call_id,
            tool_name,
            content,
            is_error,
            narration,
            details,
            timestamp,
        } => AgentMessage::ToolResult {
            tool_call_id: tool_call_id.into(),
            tool_name: tool_name.into(),
            content: ToolResultContent { blocks: result_blocks(&content.blocks) },
            is_error: *is_error,
            narration: narration.clone(),
            details: details.clone(),
            timestamp: time(*timestamp),
        },
        Clark::Custom { kind, payload, timestamp } => AgentMessage::Custom {
            kind: kind.clone(),
            payload: payload.clone(),
            timestamp: time(*timestamp),
        },
    }
}

pub(crate) fn tool_result(result: &clark_agent::ToolResult) -> ToolResult {
    ToolResult {
        content: result_blocks(&result.content),
        is_error: result.is_error,
        is_error_unknown: false,
        details: result.details.clone(),
        terminate: result.terminate,
        narration: result.narration.clone(),
    }
}

fn time(ms: Option<u64>) -> Option<Timestamp> {
    ms.map(Timestamp::from_unix_ms)
}

fn user_content(content: &clark::UserContent) -> UserContent {
    match content {
        clark::UserContent::Text(text) => UserContent::Text(text.clone()),
        clark::UserContent::Blocks(blocks) => {
            let block = |block: &clark::UserBlock| match block {
                clark::UserBlock::Text(part) => UserBlock::Text(text(part)),
                clark::UserBlock::Image(part) => UserBlock::Image(image(part)),
            };
            UserContent::Blocks(blocks.iter().map(block).collect())
        }
    }
}

fn assistant_block(block: &clark::AssistantBlock) -> AssistantBlock {
    use clark::AssistantBlock as Clark;
    match block {
        Clark::Text(part) => AssistantBlock::Text(text(part)),
        Clark::Thinking(part) => AssistantBlock::Thinking(text(part)),
        Clark::Reasoning(part) => AssistantBlock::Reasoning(text(part)),
        Clark::ReasoningDetails(part) => {
            AssistantBlock::ReasoningDetails(ReasoningDetailsContent {
                details: part.details.clone(),
            })
        }
        Clark::ToolCall(call) => AssistantBlock::ToolCall(ToolCallBlock {
            id: (&call.id).into(),
            name: (&call.name).into(),
            arguments: call.arguments.clone(),
        }),
    }
}

fn result_blocks(blocks: &[clark::ToolResultBlock]) -> Vec<ToolResultBlock> {
    let block = |block: &clark::ToolResultBlock| match block {
        clark::ToolResultBlock::Text(part) => ToolResultBlock::Text(text(part)),
        clark::ToolResultBlock::Image(part) => ToolResultBlock::Image(image(part)),
    };
    blocks.iter().map(block).collect()
}

fn text(part: &clark::TextContent) -> TextContent {
    TextContent { text: part.text.clone() }
}

fn image(part: &clark::ImageContent) -> ImageContent {
    ImageContent {
        source: part.source.clone(),
        media_type: part.media_type.clone(),
        alt: part.alt.clone(),
    }
}

const fn stop(reason: clark::StopReason) -> StopReason {
    match reason {
        clark::StopReason::EndTurn => StopReason::EndTurn,
        clark::StopReason::ToolUse => StopReason::ToolUse,
        clark::StopReason::MaxTokens => StopReason::MaxTokens,
        clark::StopReason::Error => StopReason::Error,
        clark::StopReason::Aborted => StopReason::Aborted,
        clark::StopReason::Other => StopReason::Other,
    }
}

const fn usage(usage: &clark::Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_creation_input_tokens: usage.cache_creation_input_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        is_estimate: false,
    }
}
