//! Adds hooks to the command line of Copilot CLI, as a plugin that only the started process loads
//! (`--plugin-dir`). The option may be given more than once, so the user's plugins and hooks stay.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::hook_settings::HookSettings;
use super::super::settings_path::SettingsPath;
use super::super::{HookedArguments, Host, InstallError};
use super::HOOK_EVENTS;

/// The folder of the plugin in the folder of the launch.
const FOLDER: &str = "copilot";

/// Seconds after which Copilot CLI stops waiting for a hook. `midcourse hook` has a timeout of its
/// own that is far shorter.
const TIMEOUT_SECONDS: u64 = 10;

pub(in crate::hosts) fn install_hooks(
    arguments: &[OsString],
    hook_command: &str,
    folder: &Path,
) -> Result<HookedArguments, InstallError> {
    let first = arguments.first().and_then(|word| word.to_str());
    if first.is_some_and(|word| !word.starts_with('-')) {
        return Err(InstallError::Subcommand);
    }
    let option = [OsString::from("--plugin-dir"), folder.join(FOLDER).into()];
    Ok(HookedArguments {
        arguments: option.into_iter().chain(arguments.iter().cloned()).collect(),
        environment: Vec::new(),
        files: plugin_files(hook_command),
    })
}

fn hook(hook_command: &str) -> Map<String, Value> {
    let timeout = Host::Copilot.capabilities().timeout_unit.of_seconds(TIMEOUT_SECONDS);
    // `exec` replaces the shell instead of adding a process.
    Map::from_iter([
        ("type".to_owned(), "command".into()),
        ("bash".to_owned(), format!("exec {hook_command}").into()),
        ("timeoutSec".to_owned(), timeout.into()),
    ])
}

/// The hooks in a file of their own: Copilot CLI reads every file in its folder of hooks.
pub(in crate::hosts) fn hook_settings(hook_command: &str) -> HookSettings {
    HookSettings {
        host: Host::Copilot,
        events: &HOOK_EVENTS,
        hook: hook(hook_command),
        command_key: "bash",
        is_grouped: false,
        new_file: "{\n  \"version\": 1\n}\n",
        accepts_comments: false,
    }
}

pub(in crate::hosts) const SETTINGS: SettingsPath = SettingsPath {
    variable: Some("COPILOT_HOME"),
    base: None,
    folder: ".copilot",
    file: "hooks/midcourse.json",
    project: ".github/hooks/midcourse.json",
};

fn plugin_files(hook_command: &str) -> Vec<(&'static str, String)> {
    let manifest = json!({"name": "midcourse", "version": env!("CARGO_PKG_VERSION"),
                          "description": "Keeps unattended agents on course.",
                          "hooks": "hooks.json"});
    let list = json!([hook(hook_command)]);
    let hooks: Map<String, Value> =
        HOOK_EVENTS.iter().map(|event| ((*event).to_owned(), list.clone())).collect();
    let hooks = json!({"version": 1, "hooks": hooks});
    vec![("copilot/plugin.json", manifest.to_string()), ("copilot/hooks.json", hooks.to_string())]
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use serde_json::Value;

    use super::install_hooks;

    #[test]
    fn hooks_are_a_plugin_before_the_arguments() {
        let given = ["-p", "task", "--plugin-dir", "theirs"].map(OsString::from);
        let hooked = install_hooks(&given, "/bin/midcourse hook copilot", Path::new("/l")).unwrap();
        assert_eq!(hooked.arguments[..2], ["--plugin-dir", "/l/copilot"].map(OsString::from));
        assert_eq!(hooked.arguments[2..], given);
        let (_, hooks) =
            hooked.files.iter().find(|(name, _)| name.ends_with("hooks.json")).unwrap();
        let hooks: Value = serde_json::from_str(hooks).unwrap();
        let hook = &hooks["hooks"]["PostToolUse"][0];
        assert_eq!(hook["bash"], "exec /bin/midcourse hook copilot");
        assert_eq!(hook["timeoutSec"], 10);
        let login = ["login".into()];
        assert!(install_hooks(&login, "", Path::new("/l")).is_err());
        assert!(install_hooks(&[], "", Path::new("/l")).is_ok());
    }
}
