//! The host opencode. It has no hooks that start a command, but plugins in JavaScript. So midcourse
//! has a plugin (`opencode/plugin.js`), which starts `midcourse hook opencode` with a payload of
//! midcourse's own and adds the text in the reply to one model request.
//!
//! The end of a call that failed with an error is not reported to plugins, but is in the messages of
//! the next model request. A command with an exit code other than 0 is no error for opencode; the
//! plugin reports the exit code.

mod decode;
mod install;
mod sample;
pub(crate) mod session;

pub(super) use decode::decode;
pub(super) use install::{
    DATA, SETTINGS, install_hooks, is_plugin, plugin, plugin_command, plugin_time_limit_ms,
};
pub(super) use sample::samples;
