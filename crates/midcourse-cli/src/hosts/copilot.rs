//! The host GitHub Copilot CLI: decodes its hook payloads and adds hooks to its command line.
//!
//! It has two forms of payloads, with hook events in PascalCase or in camelCase. midcourse installs
//! hooks of the first form, because payloads of the second do not name their hook event; both are
//! decoded. No payload has the id of a call; `midcourse hook` numbers the calls. A command with an
//! exit code other than 0 is a success for Copilot CLI: the exit code is in the text of the result.
//! A reply has one field, and its text stays in the conversation.

mod decode;
mod install;
mod sample;
pub(crate) mod session;

pub(super) use decode::decode;
pub(super) use install::{SETTINGS, hook_settings, install_hooks};
pub(super) use sample::samples;

/// The hook events that midcourse listens to.
pub(super) const HOOK_EVENTS: [&str; 9] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];
