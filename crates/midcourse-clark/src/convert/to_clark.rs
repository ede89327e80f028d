//! Converts midcourse's types to clark-agent's. Payload kinds that only midcourse has are left out.

use clark_agent::TrajectoryPayload as ClarkPayload;
use clark_agent::types as clark;
use midcourse::{
    AgentMessage, AssistantBlock, ImageContent, RunIdentity, StopReason, TextContent, Timestamp,
    ToolResult, ToolResultBlock, TrajectoryPayload, Usage, UserBlock, UserContent,
};

pub(super) fn payload(payload: &TrajectoryPayload) -> Option<ClarkPayload> {
    use TrajectoryPayload as Ours;
    Some(match payload {
        Ours::RunStarted { identity: run } => ClarkPayload::RunStarted { identity: identity(run) },
        Ours::RunEnded { outcome, new_messages } => ClarkPayload::RunEnded {
            outcome: outcome.as_str().to_owned(),
            new_messages: messages(new_messages),
        },
        Ours::TurnStarted => ClarkPayload::TurnStarted,
        Ours::TurnEnded { assistant, tool_results } => ClarkPayload::TurnEnded {
            assistant: message(assistant),
            tool_results: messages(tool_results),
        },
        Ours::MessageAppended { message: appended } => {
            ClarkPayload::MessageAppended { message: message(appended) }
        }
        Ours::ToolStarted { tool_call_id, tool_name, args } => ClarkPayload::ToolStarted {
            tool_call_id: tool_call_id.to_string(),
            tool_name: tool_name.to_string(),
            args: args.clone(),
        },
        Ours::ToolEnded { tool_call_id, tool_name, result, is_error } => ClarkPayload::ToolEnded {
            tool_call_id: tool_call_id.to_string(),
            tool_name: tool_name.to_string(),
            result: tool_result(result),
            is_error: *is_error,
        },
        Ours::ProviderRequestPrepared {
            iteration,
            model_id,
            system_prompt_chars,
            message_count,
            tool_count,
            tools,
            kept_by_server: _,
        } => ClarkPayload::ProviderRequestPrepared {
            iteration: *iteration,
            model_id: model_id.clone(),
            system_prompt_chars: *system_prompt_chars,
            message_count: *message_count,
            tool_count: *tool_count,
            tools: tools.clone(),
        },
        Ours::ContextTransformApplied { iteration, plugin, before_count, after_count } => {
            ClarkPayload::ContextTransformApplied {
                iteration: *iteration,
                plugin: plugin.clone(),
                before_count: *before_count,
                after_count: *after_count,
            }
        }
        Ours::ToolGateApplied { iteration, plugin, allow } => ClarkPayload::ToolGateApplied {
            iteration: *iteration,
            plugin: plugin.clone(),
            allow: allow.clone(),
        },
        Ours::ToolGateConflictResolved { iteration, plugins, chosen_plugin, allow, reason } => {
            ClarkPayload::ToolGateConflictResolved {
                iteration: *iteration,
                plugins: plugins.clone(),
                chosen_plugin: chosen_plugin.clone(),
                allow: allow.clone(),
                reason: reason.clone(),
            }
        }
        Ours::OutputTokensEscalation { attempt, prev_cap, new_cap } => {
            ClarkPayload::OutputTokensEscalation {
                attempt: *attempt,
                prev_cap: *prev_cap,
                new_cap: *new_cap,
            }
        }
        Ours::FeedbackDelivered { .. }
        | Ours::GuidanceDelivered { .. }
        | Ours::Outcome { .. }
        | Ours::DeadlineSet { .. }
        | Ours::ConfigApplied { .. }
        | Ours::FileCreated { .. }
        | Ours::UsageReported { .. }
        | Ours::CostReported { .. }
        | Ours::ProxyAttached
        | Ours::RunDescribed { .. }
        | Ours::Resumed
        | Ours::Denied { .. }
        | Ours::ContextCompacted { .. }
        | Ours::Gap { .. }
        | Ours::Unread { .. } => return None,
    })
}

fn identity(run: &RunIdentity) -> clark::RunIdentity {
    clark::RunIdentity {
        run_id: run.run_id.to_string(),
        parent_run_id: run.parent_run_id.as_ref().map(ToString::to_string),
        depth: run.depth,
        conversation_id: run.conversation_id.clone(),
        deadline_unix_ms: time(run.deadline_unix_ms),
    }
}

fn messages(messages: &[AgentMessage]) -> Vec<clark::AgentMessage> {
    messages.iter().map(message).collect()
}

fn message(message: &AgentMessage) -> clark::AgentMessage {
    use clark::AgentMessage as Clark;
    match message {
        AgentMessage::System { content, timestamp } => {
            Clark::System { content: content.clone(), timestamp: time(*timestamp) }
        }
        AgentMessage::User { content, timestamp } => {
            Clark::User { content: user_content(content), timestamp: time(*timestamp) }
        }
        AgentMessage::Assistant {
            content,
            stop_reason,
            error_message,
            timestamp,
            usage: spent,
        } => Clark::Assistant {
            content: clark::AssistantContent {
                blocks: content.blocks.iter().map(assistant_block).collect(),
            },
            stop_reason: stop(*stop_reason),
            error_message: error_message.clone(),
            timestamp: time(*timestamp),
            usage: spent.as_ref().map(usage),
        },
        AgentMessage::ToolResult {
            tool_call_id,
            tool_name,
            content,
            is_error,
            narration,
            details,
            timestamp,
        } => Clark::ToolResult {
            tool_call_id: tool_call_id.to_string(),
            tool_name: tool_name.to_string(),
            content: clark::ToolResultContent { blocks: result_blocks(&content.blocks) },
            is_error: *is_error,
            narration: narration.clone(),
            details: details.clone(),
            timestamp: time(*timestamp),
        },
        AgentMessage::Custom { kind, payload, timestamp } => Clark::Custom {
            kind: kind.clone(),
            payload: payload.clone(),
            timestamp: time(*timestamp),
        },
    }
}

fn tool_result(result: &ToolResult) -> clark_agent::ToolResult {
    clark_agent::ToolResult {
        content: result_blocks(&result.content),
        is_error: result.is_error,
        details: result.details.clone(),
        terminate: result.terminate,
        narration: result.narration.clone(),
    }
}

fn time(at: Option<Timestamp>) -> Option<u64> {
    at.map(Timestamp::unix_ms)
}

fn user_content(content: &UserContent) -> clark::UserContent {
    match content {
        UserContent::Text(text) => clark::UserContent::Text(text.clone()),
        UserContent::Blocks(blocks) => {
            let block = |block: &UserBlock| match block {
                UserBlock::Text(part) => clark::UserBlock::Text(text(part)),
                UserBlock::Image(part) => clark::UserBlock::Image(image(part)),
            };
            clark::UserContent::Blocks(blocks.iter().map(block).collect())
        }
    }
}

fn assistant_block(block: &AssistantBlock) -> clark::AssistantBlock {
    use clark::AssistantBlock as Clark;
    match block {
        AssistantBlock::Text(part) => Clark::Text(text(part)),
        AssistantBlock::Thinking(part) => Clark::Thinking(text(part)),
        AssistantBlock::Reasoning(part) => Clark::Reasoning(text(part)),
        AssistantBlock::ReasoningDetails(part) => {
            Clark::ReasoningDetails(clark::ReasoningDetailsContent {
                details: part.details.clone(),
            })
        }
        AssistantBlock::ToolCall(call) => Clark::ToolCall(clark_agent::ToolCall {
            id: call.id.to_string(),
            name: call.name.to_string(),
            arguments: call.arguments.clone(),
        }),
    }
}

fn result_blocks(blocks: &[ToolResultBlock]) -> Vec<clark::ToolResultBlock> {
    let block = |block: &ToolResultBlock| match block {
        ToolResultBlock::Text(part) => clark::ToolResultBlock::Text(text(part)),
        ToolResultBlock::Image(part) => clark::ToolResultBlock::Image(image(part)),
    };
    blocks.iter().map(block).collect()
}

fn text(part: &TextContent) -> clark::TextContent {
    clark::TextContent { text: part.text.clone() }
}

fn image(part: &ImageContent) -> clark::ImageContent {
    clark::ImageContent {
        source: part.source.clone(),
        media_type: part.media_type.clone(),
        alt: part.alt.clone(),
    }
}

const fn stop(reason: StopReason) -> clark::StopReason {
    match reason {
        StopReason::EndTurn => clark::StopReason::EndTurn,
        StopReason::ToolUse => clark::StopReason::ToolUse,
        StopReason::MaxTokens => clark::StopReason::MaxTokens,
        StopReason::Error => clark::StopReason::Error,
        StopReason::Aborted => clark::StopReason::Aborted,
        StopReason::Other => clark::StopReason::Other,
    }
}

const fn usage(usage: &Usage) -> clark::Usage {
    clark::Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_creation_input_tokens: usage.cache_creation_input_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
    }
}
