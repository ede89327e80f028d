//! Adds hooks to the command line of Codex, with its option `-c`, and approves exactly these hooks.
//!
//! Codex silently skips a hook unless its hash is approved. By typing `midcourse run -- codex`, the
//! user approves midcourse's hooks for this process, and no other hooks. So midcourse asks Codex
//! for the hashes of midcourse's hooks ([`app_server`]) and passes these hashes as approved with
//! another `-c`. The approval ends with the process; nothing is written to Codex's folder.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::{Map, Value};

use super::super::hook_settings::HookSettings;
use super::super::settings_path::SettingsPath;
use super::super::{HookedArguments, Host, InstallError};
use super::HOOK_EVENTS;
use super::app_server::{self, ListedHook};

/// Seconds after which Codex stops waiting for a hook. Codex allows no more than this for hooks at
/// the end of a session. `midcourse hook` has a timeout of its own that is far shorter.
const TIMEOUT_SECONDS: u64 = 3;

/// The hooks in a settings file.
pub(in crate::hosts) fn hook_settings(hook_command: &str) -> HookSettings {
    let timeout = Host::Codex.capabilities().timeout_unit.of_seconds(TIMEOUT_SECONDS);
    HookSettings {
        host: Host::Codex,
        events: &HOOK_EVENTS,
        hook: Map::from_iter([
            ("type".to_owned(), "command".into()),
            ("command".to_owned(), hook_command.into()),
            ("timeout".to_owned(), timeout.into()),
        ]),
        command_key: "command",
        is_grouped: true,
        new_file: "{}\n",
        accepts_comments: false,
    }
}

pub(in crate::hosts) const SETTINGS: SettingsPath = SettingsPath {
    variable: Some("CODEX_HOME"),
    base: None,
    folder: ".codex",
    file: "hooks.json",
    project: ".codex/hooks.json",
};

pub(in crate::hosts) fn install_hooks(
    starter: &[OsString],
    arguments: &[OsString],
    hook_command: &str,
) -> Result<HookedArguments, InstallError> {
    if sets_hooks(arguments) {
        return Err(InstallError::HooksOnCommandLine);
    }
    let hooks = hook_options(hook_command);
    let listed = app_server::list_hooks(starter, &hooks).map_err(InstallError::AppServer)?;
    let approval = approval_option(&listed, hook_command)?;
    let ours = hooks.into_iter().chain(["-c".to_owned(), approval]).map(OsString::from);
    let arguments = ours.chain(arguments.iter().cloned()).collect();
    Ok(HookedArguments { arguments, environment: Vec::new(), files: Vec::new() })
}

/// Whether the user's own arguments configure hooks.
fn sets_hooks(arguments: &[OsString]) -> bool {
    let is_hooks = |value: &str| value.trim_start().starts_with("hooks");
    let mut words = arguments.iter().map(|word| word.to_str().unwrap_or_default());
    while let Some(word) = words.next() {
        let value = match word {
            "--" => return false,
            "-c" | "--config" => words.next(),
            other => other.strip_prefix("--config=").or_else(|| other.strip_prefix("-c")),
        };
        if value.is_some_and(|value| is_hooks(value.trim_start_matches('='))) {
            return true;
        }
    }
    false
}

/// Quotes a TOML string. Every JSON string is a valid TOML string.
fn toml_string(text: &str) -> String {
    Value::from(text).to_string()
}

fn hook_options(hook_command: &str) -> Vec<String> {
    let option = |event: &&str| {
        let command = toml_string(hook_command);
        let hook = format!("{{type=\"command\",command={command},timeout={TIMEOUT_SECONDS}}}");
        ["-c".to_owned(), format!("hooks.{event}=[{{hooks=[{hook}]}}]")]
    };
    HOOK_EVENTS.iter().flat_map(option).collect()
}

/// The option that approves midcourse's hooks and no others, by the hashes that Codex has computed
/// for them.
fn approval_option(hooks: &[ListedHook], hook_command: &str) -> Result<String, InstallError> {
    let is_ours = |hook: &&ListedHook| {
        hook.source.as_deref() == Some("sessionFlags")
            && hook.command.as_deref() == Some(hook_command)
    };
    let ours = hooks.iter().filter(is_ours);
    let hashes: BTreeMap<&str, &str> =
        ours.filter_map(|hook| Some((hook.key.as_str(), hook.current_hash.as_deref()?))).collect();
    let (listed, expected) = (hashes.len(), HOOK_EVENTS.len());
    if listed != expected {
        return Err(InstallError::HooksNotListed { listed, expected });
    }
    let entry = |(key, hash): (&str, &str)| {
        format!("{}={{trusted_hash={}}}", toml_string(key), toml_string(hash))
    };
    let entries: Vec<String> = hashes.into_iter().map(entry).collect();
    Ok(format!("hooks.state={{{}}}", entries.join(",")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::HOOK_EVENTS;
    use super::super::app_server::ListedHook;
    use super::{approval_option, hook_options, sets_hooks};

    #[test]
    fn each_hook_event_has_an_option() {
        let options = hook_options("/bin/midcourse hook codex");
        assert_eq!(options.len(), HOOK_EVENTS.len() * 2);
        let hook = r#"[{hooks=[{type="command",command="/bin/midcourse hook codex",timeout=3}]}]"#;
        assert!(options.contains(&format!("hooks.PostToolUse={hook}")), "{options:?}");
        assert!(!options.iter().any(|option| option.contains("PermissionRequest")));
    }

    fn hook(key: usize, source: &str, command: &str) -> ListedHook {
        ListedHook {
            key: format!("/<session-flags>/config.toml:e{key}:0:0"),
            command: Some(command.to_owned()),
            source: Some(source.to_owned()),
            current_hash: Some(format!("sha256:{key}")),
        }
    }

    #[test]
    fn only_our_own_hooks_are_approved() {
        let all = HOOK_EVENTS.len();
        let mut hooks: Vec<ListedHook> =
            (0..all).map(|key| hook(key, "sessionFlags", "ours")).collect();
        hooks.push(hook(100, "user", "ours"));
        hooks.push(hook(101, "sessionFlags", "theirs"));
        hooks.push(hook(102, "project", "theirs"));
        let option = approval_option(&hooks, "ours").unwrap();
        assert!(
            option.starts_with("hooks.state={\"/<session-flags>/config.toml:e0:0:0\"={trusted")
        );
        assert_eq!(option.matches("trusted_hash").count(), all);
        for other in ["e100", "e101", "e102"] {
            assert!(!option.contains(other), "{option}");
        }
        let error = approval_option(&hooks[1..], "ours").unwrap_err().to_string();
        assert!(error.contains("/hooks"), "{error}");
    }

    #[test]
    fn hooks_on_the_users_command_line_are_noticed() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for theirs in [
            &["exec", "-c", "hooks.Stop=[]"][..],
            &["-chooks.Stop=[]"],
            &["--config", "hooks={}"],
            &["--config=hooks.state={}"],
        ] {
            assert!(sets_hooks(&words(theirs)), "{theirs:?}");
        }
        for other in [&["exec", "-c", "model=x", "hooks"][..], &["--", "-c", "hooks.Stop=[]"]] {
            assert!(!sets_hooks(&words(other)), "{other:?}");
        }
    }
}
