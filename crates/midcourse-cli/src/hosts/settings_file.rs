//! Adds hooks to a settings file of Gemini CLI or Qwen Code, whose path is in an environment
//! variable. The existing file is copied and not changed.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::hook_settings::HookSettings;
use super::{HookedArguments, Host, InstallError};

/// Seconds after which the host stops waiting for a hook. `midcourse hook` has a timeout of its own
/// that is far shorter.
const TIMEOUT_SECONDS: u64 = 10;

/// Where a host looks for its system defaults.
pub(super) struct SettingsFile {
    /// The environment variable with the file's path.
    pub(super) variable: &'static str,
    /// An environment variable with the path of another file. Without `variable`, the settings file
    /// is in that file's folder.
    pub(super) sibling_variable: &'static str,
    /// The folder of the file if neither variable is set.
    pub(super) folder: &'static str,
    pub(super) name: &'static str,
    /// Whether the host ignores the file unless it and all folders above it belong to root and only
    /// root can change them.
    pub(super) belongs_to_root: bool,
}

impl SettingsFile {
    pub(super) fn install(
        &self,
        arguments: &[OsString],
        hooks: Map<String, Value>,
        folder: &Path,
    ) -> Result<HookedArguments, InstallError> {
        if self.belongs_to_root
            && let Some(part) = changed_by_others(folder)
        {
            return Err(InstallError::NotOfRoot(part.to_owned()));
        }
        let path = self.path(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
        let settings = with_hooks(read(&path)?, hooks)
            .ok_or_else(|| unusable(&path, "`hooks` is not an object of lists"))?;
        Ok(HookedArguments {
            arguments: arguments.to_vec(),
            environment: vec![(self.variable, folder.join(self.name).into())],
            files: vec![(self.name, Value::Object(settings).to_string())],
        })
    }

    fn path(&self, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
        if let Some(path) = variable(self.variable) {
            return path.into();
        }
        let sibling = variable(self.sibling_variable).map(PathBuf::from);
        let folder = sibling.as_deref().and_then(Path::parent);
        folder.unwrap_or(Path::new(self.folder)).join(self.name)
    }
}

/// The folder or folder above it that somebody other than root can change; `None` if there is none.
/// Folders that do not exist yet are left out.
pub(crate) fn changed_by_others(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|part| part.metadata().is_ok_and(|found| !belongs_to_root(&found)))
}

#[cfg(unix)]
fn belongs_to_root(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    found.uid() == 0 && found.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn belongs_to_root(_: &std::fs::Metadata) -> bool {
    false
}

/// The hooks of Gemini CLI or Qwen Code in a settings file.
pub(super) fn hook_settings(
    host: Host,
    events: &'static [&'static str],
    hook_command: &str,
) -> HookSettings {
    HookSettings {
        host,
        events,
        hook: hook(host, hook_command),
        command_key: "command",
        is_grouped: true,
        new_file: "{}\n",
        accepts_comments: true,
    }
}

fn hook(host: Host, hook_command: &str) -> Map<String, Value> {
    let timeout = host.capabilities().timeout_unit.of_seconds(TIMEOUT_SECONDS);
    // `exec` replaces the shell instead of adding a process.
    Map::from_iter([
        ("type".to_owned(), "command".into()),
        ("command".to_owned(), format!("exec {hook_command}").into()),
        ("name".to_owned(), "midcourse".into()),
        ("timeout".to_owned(), timeout.into()),
    ])
}

/// The hooks of each event that run `hook_command`.
pub(super) fn hooks_json(host: Host, events: &[&str], hook_command: &str) -> Map<String, Value> {
    let list = json!([{"hooks": [hook(host, hook_command)]}]);
    events.iter().map(|event| ((*event).to_owned(), list.clone())).collect()
}

/// Reads a settings file; an empty map if there is none.
fn read(path: &Path) -> Result<Map<String, Value>, InstallError> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|error| unusable(path, &format!("it is not plain JSON: {error}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

fn unusable(path: &Path, why: &str) -> InstallError {
    InstallError::SettingsFile { path: path.to_owned(), why: why.to_owned() }
}

/// Adds hooks to settings, after the hooks that the settings have; `None` if those have another
/// form.
fn with_hooks(
    mut settings: Map<String, Value>,
    hooks: Map<String, Value>,
) -> Option<Map<String, Value>> {
    let theirs = settings.entry("hooks").or_insert_with(|| json!({})).as_object_mut()?;
    for (event, ours) in hooks {
        let Value::Array(mut ours) = ours else { continue };
        theirs.entry(event).or_insert_with(|| json!([])).as_array_mut()?.append(&mut ours);
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{SettingsFile, hooks_json, with_hooks};
    use crate::hosts::Host;

    const FILE: SettingsFile = SettingsFile {
        variable: "DEFAULTS",
        sibling_variable: "SETTINGS",
        folder: "/etc/x",
        name: "defaults.json",
        belongs_to_root: false,
    };

    #[test]
    fn the_file_is_found_as_the_client_finds_it() {
        let path = |set: &[(&str, &str)]| {
            let found = |name: &str| set.iter().find(|(known, _)| *known == name);
            FILE.path(|name| found(name).map(|(_, value)| value.into()))
        };
        assert_eq!(path(&[]).to_str(), Some("/etc/x/defaults.json"));
        assert_eq!(path(&[("SETTINGS", "/a/s.json")]).to_str(), Some("/a/defaults.json"));
        let both = [("SETTINGS", "/a/s.json"), ("DEFAULTS", "/b/d.json")];
        assert_eq!(path(&both).to_str(), Some("/b/d.json"));
    }

    #[test]
    fn hooks_are_added_to_those_in_the_file() {
        let theirs = json!({"model": "m", "hooks": {"Stop": [{"hooks": []}], "Other": []}});
        let Value::Object(theirs) = theirs else { unreachable!() };
        let hooks = hooks_json(Host::Qwen, &["Stop", "SessionEnd"], "/bin/midcourse hook qwen");
        let settings = Value::Object(with_hooks(theirs, hooks.clone()).unwrap());
        assert_eq!(settings["model"], "m");
        assert_eq!(settings["hooks"]["Stop"].as_array().unwrap().len(), 2);
        let hook = &settings["hooks"]["SessionEnd"][0]["hooks"][0];
        assert_eq!(hook["command"], "exec /bin/midcourse hook qwen");
        assert_eq!(hook["timeout"], 10_000);
        for wrong in [json!({"hooks": []}), json!({"hooks": {"Stop": {}}})] {
            let Value::Object(wrong) = wrong else { unreachable!() };
            assert_eq!(with_hooks(wrong, hooks.clone()), None);
        }
    }
}
