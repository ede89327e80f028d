//! Switches in the settings of a host and in the environment that keep hooks from running. Settings
//! that an administrator manages are not read.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Place;
use super::finding::Finding;
use crate::hosts::Host;
use crate::json_edit::JsonText;

/// An environment variable with which Claude Code ignores hooks of the user.
const HOOKS_OFF_VARIABLE: &str = "CLAUDE_CODE_PERSONAL_HOOKS_OFF";

/// The name that midcourse's hooks have in the settings of Gemini CLI.
const HOOK_NAME: &str = "midcourse";

pub(super) fn check(host: Host, place: &Place) -> Vec<Finding> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (file, settings) in settings(host, place) {
        let shown = file.display().to_string();
        for switch in switches_in(host, &settings) {
            found.push((format!("{switch} in {shown}"), format!("remove `{switch}` from {shown}")));
        }
    }
    let is_set = |name: &str| {
        std::env::var(name).is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()))
    };
    if host == Host::ClaudeCode && is_set(HOOKS_OFF_VARIABLE) {
        let variable = format!("the variable {HOOKS_OFF_VARIABLE}");
        found.push((variable, format!("`unset {HOOKS_OFF_VARIABLE}`")));
    }
    if found.is_empty() {
        return vec![Finding::ok("switches", "no setting switches hooks off")];
    }
    let title = host.capabilities().title;
    let problem = |(what, remedy): (String, String)| {
        Finding::problem("switches", format!("{title} runs no hooks of midcourse: {what}"), remedy)
    };
    found.into_iter().map(problem).collect()
}

/// The settings files of a host that exist and can be read.
fn settings(host: Host, place: &Place) -> Vec<(PathBuf, Value)> {
    let mut settings: Vec<(PathBuf, Value)> = Vec::new();
    for path in paths(host, place) {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let value = if path.extension().is_some_and(|end| end == "toml") {
            std::str::from_utf8(&bytes).ok().and_then(|text| toml::from_str(text).ok())
        } else {
            JsonText::parse(&bytes).ok().and_then(|json| json.get(&[]))
        };
        if let Some(value) = value.filter(|_| settings.iter().all(|(known, _)| *known != path)) {
            settings.push((path, value));
        }
    }
    settings
}

fn paths(host: Host, place: &Place) -> Vec<PathBuf> {
    let home = dirs::home_dir();
    let user = host.settings_path().of_user(|name| std::env::var_os(name), home.as_deref());
    let folder = user.as_deref().and_then(Path::parent).map(Path::to_owned);
    let in_folder = |name: &str| folder.as_ref().map(|folder| folder.join(name));
    let files = match host {
        Host::ClaudeCode => vec![
            user.clone(),
            Some(place.cwd.join(".claude/settings.json")),
            Some(place.cwd.join(".claude/settings.local.json")),
        ],
        Host::Codex => vec![in_folder("config.toml"), Some(place.cwd.join(".codex/config.toml"))],
        Host::Gemini | Host::Qwen => {
            vec![user.clone(), Some(host.settings_path().of_project(&place.cwd))]
        }
        // Its hooks are in files of their own; these may have the switch.
        Host::Copilot => {
            vec![user.clone(), Some(host.settings_path().of_project(&place.cwd))]
        }
        Host::Opencode | Host::Demo => Vec::new(),
    };
    files.into_iter().flatten().collect()
}

/// The switches in one file that keep midcourse's hooks from running, as the user would write them.
fn switches_in(host: Host, settings: &Value) -> Vec<String> {
    let is = |pointer: &str, value: bool| {
        settings.pointer(pointer).and_then(Value::as_bool) == Some(value)
    };
    let mut found = Vec::new();
    let mut add = |is_found: bool, switch: &str| {
        if is_found {
            found.push(switch.to_owned());
        }
    };
    match host {
        Host::ClaudeCode => {
            add(is("/disableAllHooks", true), "disableAllHooks");
            add(is("/allowManagedHooksOnly", true), "allowManagedHooksOnly");
        }
        Host::Codex => add(is("/features/hooks", false), "features.hooks = false"),
        Host::Gemini | Host::Qwen => {
            add(is("/disableAllHooks", true), "disableAllHooks");
            add(is("/hooksConfig/enabled", false), "hooksConfig.enabled = false");
            let disabled = settings.pointer("/hooksConfig/disabled").and_then(Value::as_array);
            let is_ours = |name: &Value| {
                let name = name.as_str().unwrap_or_default();
                name == HOOK_NAME || name.contains(&format!("midcourse hook {}", host.name()))
            };
            let is_disabled = disabled.is_some_and(|names| names.iter().any(is_ours));
            add(is_disabled, "hooksConfig.disabled: midcourse");
        }
        Host::Copilot => add(is("/disableAllHooks", true), "disableAllHooks"),
        Host::Opencode | Host::Demo => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::switches_in;
    use crate::hosts::Host;

    #[test]
    fn only_switches_that_are_on_count() {
        for (host, settings, count) in [
            (Host::ClaudeCode, json!({"disableAllHooks": true}), 1),
            (Host::ClaudeCode, json!({"disableAllHooks": false, "hooks": {}}), 0),
            (Host::ClaudeCode, json!({"allowManagedHooksOnly": true}), 1),
            (Host::Codex, json!({"features": {"hooks": false}}), 1),
            (Host::Codex, json!({"features": {"hooks": true}}), 0),
            (Host::Gemini, json!({"hooksConfig": {"enabled": false}}), 1),
            (Host::Gemini, json!({"hooksConfig": {"disabled": ["other"]}}), 0),
            (Host::Gemini, json!({"hooksConfig": {"disabled": ["midcourse"]}}), 1),
            (Host::Copilot, json!([]), 0),
        ] {
            assert_eq!(switches_in(host, &settings).len(), count, "{settings}");
        }
    }
}
