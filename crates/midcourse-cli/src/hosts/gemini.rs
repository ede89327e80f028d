//! The host Gemini CLI: decodes its hook payloads and adds hooks to its settings.
//!
//! Its hooks report no ids of tool calls; `midcourse hook` numbers the calls. A command with an exit
//! code other than 0 is no error for Gemini CLI: the exit code is in the text of the result. The
//! reply to BeforeModel may change the messages of this one model request, so that is where messages
//! for the agent go. Gemini CLI ignores a message in the reply to BeforeTool, and keeps one in the
//! reply to AfterTool for the rest of the session.

mod decode;
mod install;
mod sample;
pub(crate) mod session;
mod transcript;

pub(super) use decode::{add_transcript, decode};
pub(super) use install::{SETTINGS, hook_settings, install_hooks};
pub(super) use sample::samples;

/// The hook events that midcourse listens to. PreCompress is left out: it precedes every model
/// request, whether or not the conversation is compressed.
pub(super) const HOOK_EVENTS: [&str; 7] = [
    "SessionStart",
    "BeforeAgent",
    "BeforeModel",
    "BeforeTool",
    "AfterTool",
    "AfterAgent",
    "SessionEnd",
];
