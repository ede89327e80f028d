//! Adds hooks to Gemini CLI by its file of system defaults, whose path is in an environment
//! variable.
//!
//! Everything in the user's and the project's settings takes precedence over this file, and hooks of
//! all files run. If such a file exists already, its content is copied and midcourse's hooks are
//! added. No file of the user is changed. Gemini CLI ignores the file unless only root can change it,
//! so this works only for agents that run as root, for example in a container. Other users have to
//! put the hooks into their own settings.

use std::ffi::OsString;
use std::path::Path;

use super::super::hook_settings::HookSettings;
use super::super::settings_file::{self, SettingsFile, hooks_json};
use super::super::settings_path::SettingsPath;
use super::super::{HookedArguments, Host, InstallError};
use super::HOOK_EVENTS;

const SYSTEM_DEFAULTS: SettingsFile = SettingsFile {
    variable: "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
    // Without this variable, the file is in the folder of the system settings.
    sibling_variable: "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    folder: if cfg!(target_os = "macos") {
        "/Library/Application Support/GeminiCli"
    } else {
        "/etc/gemini-cli"
    },
    name: "system-defaults.json",
    belongs_to_root: true,
};

/// The hooks in a settings file.
pub(in crate::hosts) fn hook_settings(hook_command: &str) -> HookSettings {
    settings_file::hook_settings(Host::Gemini, &HOOK_EVENTS, hook_command)
}

pub(in crate::hosts) const SETTINGS: SettingsPath = SettingsPath {
    variable: None,
    base: Some(("GEMINI_CLI_HOME", ".gemini")),
    folder: ".gemini",
    file: "settings.json",
    project: ".gemini/settings.json",
};

pub(in crate::hosts) fn install_hooks(
    arguments: &[OsString],
    hook_command: &str,
    folder: &Path,
) -> Result<HookedArguments, InstallError> {
    let hooks = hooks_json(Host::Gemini, &HOOK_EVENTS, hook_command);
    SYSTEM_DEFAULTS.install(arguments, hooks, folder)
}
