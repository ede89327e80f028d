//! The host Claude Code: decodes its hook payloads and adds hooks to its command line.
//!
//! A call that failed has a hook event of its own (PostToolUseFailure). A call that was refused
//! usually appears only in the hook event PostToolBatch at the end of the turn, together with the
//! calls that ran. Messages in a hook's reply stay in the conversation permanently. A message in
//! the reply to Stop would make Claude Code continue, so that reply is always empty.

mod decode;
mod install;
mod sample;
pub(crate) mod session;
pub(crate) mod status_line;
mod transcript;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::{SETTINGS, hook_settings, install_hooks};
pub(super) use sample::samples;

/// The hook events that midcourse listens to. Hook events that only ask the hook to allow or refuse
/// something, such as PermissionRequest, are left out.
pub(super) const HOOK_EVENTS: [&str; 11] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];
