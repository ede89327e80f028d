//! Claude Code.
//!
//! A failed call has a hook event of its own. A refused call appears only in the PostToolBatch
//! event of its turn, together with the calls that ran. Claude Code keeps messages in the
//! conversation permanently. It treats a message in the reply to Stop as a reason to continue, so
//! that reply is always empty.

mod decode;
mod install;
mod transcript;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::install_hooks;

/// The hook events that midcourse listens to. Events that exist only to ask a hook for a decision
/// are left out.
pub(super) const HOOK_EVENTS: [&str; 12] = [
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
    "SessionEnd",
];

/// Whether Claude Code reaches its model with a key or an address from the environment, so that a
/// proxy can be used. With a login of its own or on a cloud platform, it gets no proxy.
#[cfg(feature = "proxy")]
pub(super) fn uses_proxy(is_set: impl Fn(&str) -> bool) -> bool {
    let platforms =
        ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
    ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"].into_iter().any(&is_set)
        && !platforms.into_iter().any(&is_set)
}
