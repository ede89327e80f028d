//! Where each host keeps the file into which `midcourse install` writes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The settings file of a host.
#[derive(Debug)]
pub(crate) struct SettingsPath {
    /// The environment variable that names the host's folder.
    pub(super) variable: Option<&'static str>,
    /// An environment variable that names the folder above the host's, and the host's folder in it.
    pub(super) base: Option<(&'static str, &'static str)>,
    /// The host's folder in the user's home folder, if no variable is set.
    pub(super) folder: &'static str,
    /// The file in the host's folder.
    pub(super) file: &'static str,
    /// The file in the folder of a project.
    pub(super) project: &'static str,
}

impl SettingsPath {
    /// The user's file; `None` if no variable is set and there is no home folder.
    pub(crate) fn of_user(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        home: Option<&Path>,
    ) -> Option<PathBuf> {
        Some(self.folder_of_user(variable, home)?.join(self.file))
    }

    /// The host's folder; `None` if no variable is set and there is no home folder.
    pub(super) fn folder_of_user(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        home: Option<&Path>,
    ) -> Option<PathBuf> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let folder = self.variable.and_then(&variable).map(PathBuf::from);
        let in_base = |(name, folder): (&str, &str)| Some(Path::new(&variable(name)?).join(folder));
        let folder = folder.or_else(|| self.base.and_then(in_base));
        folder.or_else(|| Some(home?.join(self.folder)))
    }

    pub(crate) fn of_project(&self, project: &Path) -> PathBuf {
        project.join(self.project)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::hosts::Host;

    fn path(host: Host, set: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        let path = host.settings_path().of_user(variable, Some(Path::new("/home/me")));
        path.unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn the_file_is_found_as_the_client_finds_it() {
        for (host, set, expected) in [
            (Host::ClaudeCode, &[][..], "/home/me/.claude/settings.json"),
            (Host::ClaudeCode, &[("CLAUDE_CONFIG_DIR", "/c")], "/c/settings.json"),
            (Host::ClaudeCode, &[("CLAUDE_CONFIG_DIR", "")], "/home/me/.claude/settings.json"),
            (Host::Codex, &[("CODEX_HOME", "/c")], "/c/hooks.json"),
            (Host::Gemini, &[("GEMINI_CLI_HOME", "/g")], "/g/.gemini/settings.json"),
            (Host::Qwen, &[("QWEN_HOME", "/q")], "/q/settings.json"),
            (Host::Copilot, &[], "/home/me/.copilot/hooks/midcourse.json"),
            (Host::Opencode, &[], "/home/me/.config/opencode/plugin/midcourse.js"),
            (Host::Opencode, &[("XDG_CONFIG_HOME", "/x")], "/x/opencode/plugin/midcourse.js"),
            (Host::Opencode, &[("OPENCODE_CONFIG_DIR", "/o")], "/o/plugin/midcourse.js"),
        ] {
            assert_eq!(path(host, set), expected);
        }
        assert_eq!(Host::Codex.settings_path().of_user(|_| None, None), None);
    }
}
