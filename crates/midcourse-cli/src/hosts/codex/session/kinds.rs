//! The kinds of lines, items and events in rollouts, and texts that Codex adds to messages.

/// Types of lines.
pub(super) const LINES: [&str; 8] = [
    "compacted",
    "event_msg",
    "inter_agent_communication",
    "response_item",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
];

/// Types of items that become records.
pub(super) const ITEMS: [&str; 8] = [
    "custom_tool_call",
    "custom_tool_call_output",
    "function_call",
    "function_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "message",
    "reasoning",
];

/// Types of items that contain nothing to record, or that the model API executes by itself.
pub(super) const IGNORED_ITEMS: [&str; 10] = [
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "ghost_snapshot",
    "image_generation_call",
    "other",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// Types of events that only repeat what items contain, or that contain nothing to record.
pub(super) const IGNORED_EVENTS: [&str; 38] = [
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "agent_reasoning_section_break",
    "apply_patch_approval_request",
    "background_event",
    "context_compacted",
    "entered_review_mode",
    "exec_approval_request",
    "exec_command_begin",
    "exec_command_end",
    "exited_review_mode",
    "hook_completed",
    "hook_started",
    "image_generation_end",
    "item_started",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "patch_apply_begin",
    "patch_apply_end",
    "plan_update",
    "session_configured",
    "stream_error",
    "task_complete",
    "task_started",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "turn_complete",
    "turn_diff",
    "turn_started",
    "undo_completed",
    "user_message",
    "view_image_tool_call",
    "warning",
    "web_search_begin",
    "web_search_end",
    "token_count",
];

/// Beginnings of texts that Codex adds to a conversation in the name of the user.
pub(super) const INJECTED_TEXTS: [&str; 15] = [
    "# AGENTS.md instructions",
    "<ENVIRONMENT_CONTEXT>",
    "<INSTRUCTIONS>",
    "<apps_instructions>",
    "<collaboration_mode>",
    "<environment_context>",
    "<model_switch>",
    "<permissions instructions>",
    "<personality_spec>",
    "<skill>",
    "<skills_instructions>",
    "<turn_aborted>",
    "<user_action>",
    "<user_instructions>",
    "<user_shell_command>",
];
