//! The host Qwen Code: decodes its hook payloads and adds hooks to its settings.
//!
//! Its hook events have the names of Claude Code's, with other contents. The id of a call is
//! `tool_call_id`; `tool_use_id` is made up for the hooks, and releases before 0.24 have only that.
//! Since release 0.24, a command with an exit code other than 0 is a PostToolUseFailure. A call that
//! was not run, for example because it was refused, appears in PostToolBatch only. With `-p`, a
//! UserPromptSubmit without a prompt precedes each model request after the first.

mod decode;
mod install;
mod sample;
pub(crate) mod session;
mod transcript;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::{SETTINGS, hook_settings, install_hooks};
pub(super) use sample::samples;

/// The hook events that midcourse listens to.
pub(super) const HOOK_EVENTS: [&str; 13] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PermissionDenied",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PostCompact",
    "SessionEnd",
];
