//! The host Codex: decodes its hook payloads and adds hooks to its command line.
//!
//! Codex's hooks do not report the exit code of a command. No hook reports the end of a call that
//! was refused, that named an unknown tool, whose patch failed, or whose command continues in the
//! background. The rollout (Codex's transcript of the session) contains all of these and the token
//! usage, so its last part is read ([`rollout`]). A subagent has its own rollout. Codex ignores a
//! hook's reply if the reply has an unknown field or if the hook event is Stop.

mod app_server;
mod decode;
mod install;
mod rollout;
mod sample;
pub(crate) mod session;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::{SETTINGS, hook_settings, install_hooks};
pub(super) use sample::samples;

/// The hook events that midcourse listens to. Hook events that only ask the hook to allow or refuse
/// something, such as PermissionRequest, are left out.
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
