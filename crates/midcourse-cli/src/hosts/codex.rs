//! Codex.
//!
//! Its hooks do not say how a command exited, and no hook reports the end of a call that was refused,
//! a patch that failed, a tool that does not exist or a command that continues in the background.
//! The session's own file, the rollout, has all of these and the tokens of model responses, so its
//! last part is read ([`rollout`]); a subagent has a file of its own. Codex drops a reply that has an
//! unknown field, and any reply to Stop.

mod app_server;
mod decode;
mod install;
mod rollout;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::install_hooks;

/// The hook events that report something. None of them asks for a decision.
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
