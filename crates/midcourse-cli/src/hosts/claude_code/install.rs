//! Adds hooks to the command line of Claude Code, with its option `--settings`.
//!
//! Claude Code uses only the last `--settings`. If the user's arguments contain this option with
//! JSON, midcourse's hooks are added to the JSON, after the user's own hooks. If they contain it
//! with a file name, the file is neither read nor copied, because paths in it are relative to the
//! file; instead, midcourse's hooks become a plugin that only the started process loads
//! (`--plugin-dir`). The user's settings files are not changed and stay in effect.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::hook_settings::HookSettings;
use super::super::settings_path::SettingsPath;
use super::super::{HookedArguments, Host, InstallError};
use super::HOOK_EVENTS;

const OPTION: &str = "--settings";

/// Seconds after which Claude Code stops waiting for a hook. `midcourse hook` has a timeout of its
/// own that is far shorter.
const TIMEOUT_SECONDS: u64 = 10;

pub(in crate::hosts) fn install_hooks(
    arguments: &[OsString],
    hook_command: &str,
    folder: &Path,
) -> Result<HookedArguments, InstallError> {
    // With stream-json output, Claude Code prints a line for each SessionStart hook before its own
    // first line. To keep midcourse out of that output, a new session gets no SessionStart hook.
    let is_stream = arguments.iter().any(|word| word.to_string_lossy().contains("stream-json"));
    let settings = |given| with_hooks(given, hook_command, is_stream).to_string();
    let prepend = |option: &str, value: OsString| {
        let ours = [OsString::from(option), value];
        ours.into_iter().chain(arguments.iter().cloned()).collect()
    };
    let (arguments, files) = match SettingsArgument::find(arguments) {
        None => (prepend(OPTION, settings(Map::new()).into()), Vec::new()),
        Some(given) if given.is_json() => {
            let theirs =
                serde_json::from_str(&given.value).map_err(InstallError::InvalidSettings)?;
            (given.replaced(arguments, settings(theirs).into()), Vec::new())
        }
        Some(_) => {
            (prepend("--plugin-dir", folder.into()), plugin_files(settings(Map::new())).into())
        }
    };
    Ok(HookedArguments { arguments, environment: Vec::new(), files })
}

/// The files of a Claude Code plugin that contains the hooks.
fn plugin_files(hooks: String) -> [(&'static str, String); 2] {
    let manifest = json!({"name": "midcourse", "version": env!("CARGO_PKG_VERSION"),
                          "description": "Keeps unattended agents on course."});
    [(".claude-plugin/plugin.json", manifest.to_string()), ("hooks/hooks.json", hooks)]
}

fn hook(hook_command: &str) -> Map<String, Value> {
    let timeout = Host::ClaudeCode.capabilities().timeout_unit.of_seconds(TIMEOUT_SECONDS);
    // Older releases of Claude Code ignore hooks whose arguments are listed separately, so use one
    // shell command. `exec` replaces the shell instead of adding a process.
    Map::from_iter([
        ("type".to_owned(), "command".into()),
        ("command".to_owned(), format!("exec {hook_command}").into()),
        ("timeout".to_owned(), timeout.into()),
    ])
}

/// The hooks in a settings file.
pub(in crate::hosts) fn hook_settings(hook_command: &str) -> HookSettings {
    HookSettings {
        host: Host::ClaudeCode,
        events: &HOOK_EVENTS,
        hook: hook(hook_command),
        command_key: "command",
        is_grouped: true,
        new_file: "{}\n",
        accepts_comments: false,
    }
}

/// The settings file of the user or, in the project's folder, the one that is not checked in.
pub(in crate::hosts) const SETTINGS: SettingsPath = SettingsPath {
    variable: Some("CLAUDE_CONFIG_DIR"),
    base: None,
    folder: ".claude",
    file: "settings.json",
    project: ".claude/settings.local.json",
};

/// Adds midcourse's hooks to the settings, after the user's hooks. If `is_stream` is true, no hook
/// runs at the start of a new session.
fn with_hooks(mut settings: Map<String, Value>, hook_command: &str, is_stream: bool) -> Value {
    let hook = json!({"hooks": [hook(hook_command)]});
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    for event in HOOK_EVENTS {
        if let Value::Object(hooks) = hooks
            && let Value::Array(groups) = hooks.entry(event).or_insert_with(|| json!([]))
        {
            let mut group = hook.clone();
            if let (true, "SessionStart", Value::Object(group)) = (is_stream, event, &mut group) {
                // Run this hook only when a session is resumed or compacted. The run of a new
                // session then begins with its first prompt.
                group.insert("matcher".to_owned(), "resume|compact".into());
            }
            groups.push(group);
        }
    }
    Value::Object(settings)
}

/// The last `--settings` option among the user's arguments.
struct SettingsArgument {
    /// The index of the argument that contains the value.
    index: usize,
    value: String,
    /// Whether option and value are one argument: `--settings=VALUE`.
    is_joined: bool,
}

impl SettingsArgument {
    fn find(arguments: &[OsString]) -> Option<Self> {
        let mut found = None;
        let mut words = arguments.iter().enumerate().take_while(|(_, word)| *word != "--");
        while let Some((index, word)) = words.next() {
            if word == OPTION {
                let (index, value) = words.next()?;
                let value = value.to_string_lossy().into_owned();
                found = Some(Self { index, value, is_joined: false });
            } else if let Some(value) = joined_value(word) {
                found = Some(Self { index, value, is_joined: true });
            }
        }
        found
    }

    /// Whether the value is JSON; otherwise it is the path of a file.
    fn is_json(&self) -> bool {
        self.value.trim_start().starts_with('{')
    }

    fn replaced(&self, arguments: &[OsString], value: OsString) -> Vec<OsString> {
        let mut arguments = arguments.to_vec();
        if let Some(word) = arguments.get_mut(self.index) {
            *word = if self.is_joined {
                let mut joined = OsString::from(OPTION);
                joined.push("=");
                joined.push(value);
                joined
            } else {
                value
            };
        }
        arguments
    }
}

fn joined_value(word: &OsStr) -> Option<String> {
    let value = word.to_str()?.strip_prefix(OPTION)?.strip_prefix('=')?;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use serde_json::Value;

    use super::{InstallError, install_hooks};

    const COMMAND: &str = "/bin/midcourse hook claude-code --home /h --launch l";

    /// Returns the arguments with hooks, and the hooks of the plugin if there is a plugin.
    fn installed(given: &[&str]) -> Result<(Vec<String>, Option<Value>), InstallError> {
        let given: Vec<OsString> = given.iter().map(OsString::from).collect();
        let hooked = install_hooks(&given, COMMAND, Path::new("/launch"))?;
        let arguments = hooked.arguments.into_iter().map(|word| word.into_string().unwrap());
        let hooks = hooked.files.iter().find(|(name, _)| *name == "hooks/hooks.json");
        let hooks = hooks.map(|(_, json)| serde_json::from_str(json).unwrap());
        Ok((arguments.collect(), hooks))
    }

    #[test]
    fn hooks_are_added_before_the_arguments() {
        let (words, plugin) = installed(&["-p", "task", "--", "--settings", "x"]).unwrap();
        assert_eq!(words[0], "--settings");
        assert_eq!(words[2..], ["-p", "task", "--", "--settings", "x"]);
        let settings: Value = serde_json::from_str(&words[1]).unwrap();
        let hook = &settings["hooks"]["PostToolUse"][0]["hooks"][0];
        assert_eq!(hook["command"], format!("exec {COMMAND}"));
        assert!(settings["hooks"]["PermissionRequest"].is_null());
        assert_eq!(plugin, None);
    }

    #[test]
    fn json_that_the_user_gives_is_kept() {
        let theirs = r#"{"model":"m","hooks":{"PostToolUse":[{"hooks":[]}],"Stop":[]}}"#;
        for given in [vec!["--settings", theirs, "-p"], vec![&format!("--settings={theirs}"), "-p"]]
        {
            let (words, _) = installed(&given).unwrap();
            assert_eq!(words.len(), given.len());
            let json = words.iter().find_map(|word| word.find('{').and_then(|at| word.get(at..)));
            let settings: Value = serde_json::from_str(json.unwrap()).unwrap();
            assert_eq!(settings["model"], "m");
            assert_eq!(settings["hooks"]["PostToolUse"].as_array().unwrap().len(), 2);
            assert_eq!(settings["hooks"]["Stop"].as_array().unwrap().len(), 1);
        }
        let error = installed(&["--settings", "{\"cut off\":"]).unwrap_err();
        assert!(matches!(error, InstallError::InvalidSettings(_)), "{error}");
    }

    #[test]
    fn stream_json_has_no_hook_at_a_fresh_start() {
        let (words, _) = installed(&["-p", "--output-format=stream-json"]).unwrap();
        let settings: Value = serde_json::from_str(&words[1]).unwrap();
        assert_eq!(settings["hooks"]["SessionStart"][0]["matcher"], "resume|compact");
        assert!(settings["hooks"]["Stop"][0]["matcher"].is_null());
    }

    #[test]
    fn a_settings_file_of_the_user_is_left_alone() {
        for given in
            [vec!["--settings", "{}", "--settings", "conf/s.json"], vec!["--settings=/dev/fd/9"]]
        {
            let (words, plugin) = installed(&given).unwrap();
            assert_eq!(words[..2], ["--plugin-dir", "/launch"]);
            assert_eq!(words[2..], given);
            let hooks = plugin.unwrap();
            assert_eq!(hooks["hooks"]["SessionEnd"].as_array().unwrap().len(), 1);
        }
    }
}
