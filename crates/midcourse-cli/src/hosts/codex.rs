//! Codex.
//!
//! Codex's hooks do not report the exit code of a command. No hook reports the end of a call that
//! was refused, a patch that failed, a tool that does not exist or a command that continues in the
//! background. The rollout (the transcript of the session) contains all of these and the token
//! usage, so its last part is read ([`rollout`]). A subagent has its own rollout. Codex drops a
//! reply that has an unknown field, and any reply to Stop.

mod app_server;
mod decode;
mod install;
mod rollout;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::install_hooks;

/// The hook events that midcourse listens to. Events that exist only to ask a hook for a decision
/// are left out.
pub(super) const HOOK_EVENTS: [&str; 10] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostCompact",
    "Stop",
    "Interrupt",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];
