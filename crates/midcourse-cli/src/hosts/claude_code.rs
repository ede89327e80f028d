//! Claude Code.
//!
//! A call that failed has a hook event of its own. A call that was refused appears only in the
//! PostToolBatch of its turn, together with the calls that ran. Claude Code keeps messages in the
//! conversation for good. It treats a message in the reply to Stop as a reason to continue, so that
//! reply is always empty.

mod decode;
mod install;
mod transcript;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::install_hooks;

/// The hook events that report something. None of them asks for a decision.
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

/// Whether it reaches its model with a key or an address from the environment, so that a proxy can
/// stand between. With a login of its own, or on a cloud platform, its address is not replaced.
#[cfg(feature = "proxy")]
pub(super) fn uses_proxy(is_set: impl Fn(&str) -> bool) -> bool {
    let platforms =
        ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
    ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"].into_iter().any(&is_set)
        && !platforms.into_iter().any(&is_set)
}
