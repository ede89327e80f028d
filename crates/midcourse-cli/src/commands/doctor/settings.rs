//! A settings file of a host and midcourse's hooks in it: which events have one, and which hooks are
//! not as `midcourse install` would write them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::install::target::Target;
use super::finding::Finding;
use super::hook_command::HookCommand;
use crate::hosts::{Host, Installation, InstalledHook, PluginFile};
use crate::json_edit::JsonText;
use crate::shell::shell_quote;

/// The event under which the plugin of opencode is listed. It reports several.
pub(super) const PLUGIN_EVENT: &str = "plugin";

pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) is_project: bool,
    pub(super) content: Content,
}

pub(super) enum Content {
    Missing,
    /// The host cannot read the file.
    Broken {
        why: String,
        /// Whether the file mentions midcourse, so that its hooks probably are in it.
        names_midcourse: bool,
    },
    /// midcourse's hooks in the file; empty if there are none.
    Hooks(Vec<InstalledHook>),
    /// midcourse's plugin, which starts this hook.
    Plugin {
        hook: InstalledHook,
        /// Whether it is not the plugin of this release.
        is_other_release: bool,
    },
}

impl SettingsFile {
    /// The user's and the project's file of a host.
    pub(super) fn of(host: Host) -> Vec<Self> {
        let mut files: Vec<Self> = Vec::new();
        for is_project in [false, true] {
            let Ok(Target { path, .. }) = Target::find(host, is_project) else { continue };
            // In the home folder, both are the same file.
            if files.iter().all(|file| file.path != path) {
                let content = Content::read(host, &path);
                files.push(Self { path, is_project, content });
            }
        }
        files
    }

    pub(super) fn hooks(&self) -> &[InstalledHook] {
        match &self.content {
            Content::Hooks(hooks) => hooks,
            Content::Plugin { hook, .. } => std::slice::from_ref(hook),
            Content::Missing | Content::Broken { .. } => &[],
        }
    }

    /// Whether the file contains midcourse's hooks, or cannot be read although it may contain them.
    pub(super) fn is_used(&self) -> bool {
        match &self.content {
            Content::Missing => false,
            Content::Broken { names_midcourse, .. } => *names_midcourse,
            Content::Hooks(hooks) => !hooks.is_empty(),
            Content::Plugin { .. } => true,
        }
    }

    /// The different commands of the hooks, in the order of the file.
    pub(super) fn commands(&self) -> Vec<HookCommand> {
        let mut commands = Vec::new();
        for command in self.hooks().iter().filter_map(|hook| HookCommand::parse(&hook.command)) {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands
    }

    pub(super) fn install_command(&self, host: Host) -> String {
        let project = if self.is_project { " --project" } else { "" };
        format!("midcourse install {}{project}", host.name())
    }

    /// Checks which hooks are in the file.
    pub(super) fn findings(&self, host: Host) -> Vec<Finding> {
        const CHECK: &str = "hooks";
        let path = self.path.display();
        let install = format!("`{}`", self.install_command(host));
        let hooks = match &self.content {
            Content::Missing => return Vec::new(),
            Content::Broken { why, names_midcourse } => {
                let detail = format!("{} cannot read {path}: {why}", host.capabilities().title);
                let remedy = format!("correct the file, then {install}");
                return vec![if *names_midcourse {
                    Finding::problem("settings", detail, remedy)
                } else {
                    Finding::warning("settings", detail, remedy)
                }];
            }
            Content::Hooks(hooks) if hooks.is_empty() => return Vec::new(),
            Content::Hooks(_) => self.hooks(),
            Content::Plugin { is_other_release: false, .. } => {
                return vec![Finding::ok(CHECK, format!("midcourse's plugin is there ({path})"))];
            }
            Content::Plugin { is_other_release: true, .. } => {
                return vec![Finding::warning(
                    CHECK,
                    format!("{path} is the plugin of another release of midcourse, or was changed"),
                    format!("{install} writes the plugin of this release"),
                )];
            }
        };
        let expected: &[&str] = match host.installation("") {
            Installation::Hooks(settings) => settings.events(),
            Installation::Plugin(_) => &[],
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for hook in hooks {
            *counts.entry(hook.event.as_str()).or_default() += 1;
        }
        let missing: Vec<&str> =
            expected.iter().copied().filter(|event| !counts.contains_key(event)).collect();
        let twice: Vec<&str> =
            counts.iter().filter(|(_, count)| **count > 1).map(|(event, _)| *event).collect();
        let mut findings = Vec::new();
        if missing.is_empty() {
            let count = expected.len();
            findings.push(Finding::ok(
                CHECK,
                format!("all {count} events have midcourse's hook ({path})"),
            ));
        } else {
            findings.push(Finding::problem(
                CHECK,
                format!("{path} has no hook of midcourse for {}", missing.join(", ")),
                format!("{install} adds what is missing"),
            ));
        }
        if !twice.is_empty() {
            findings.push(Finding::warning(
                "duplicates",
                format!("{path} has more than one hook of midcourse for {}", twice.join(", ")),
                format!("{install} removes all but one"),
            ));
        }
        if self.commands().len() > 1 {
            findings.push(Finding::warning(
                CHECK,
                format!("the hooks of midcourse in {path} have different commands"),
                format!("{install} writes the same command for each event"),
            ));
        }
        findings.extend(limited(hooks).map(|(what, events)| {
            Finding::warning(CHECK, format!("{what}: {}", events.join(", ")), {
                format!(
                    "remove that from {}, or `midcourse uninstall {}` and {install}",
                    shell_quote(&path.to_string()),
                    host.name()
                )
            })
        }));
        findings
    }
}

/// Hooks that do not run at each event, or whose reply comes too late.
fn limited(hooks: &[InstalledHook]) -> impl Iterator<Item = (&'static str, Vec<&str>)> {
    let events = |is_so: fn(&InstalledHook) -> bool| -> Vec<&str> {
        hooks.iter().filter(|hook| is_so(hook)).map(|hook| hook.event.as_str()).collect()
    };
    let found = [
        (
            "hooks with \"async\" lose events at the end of a session",
            events(|hook: &InstalledHook| hook.is_async),
        ),
        (
            "hooks with a \"matcher\" see only some of the calls",
            events(|hook: &InstalledHook| hook.matcher.is_some()),
        ),
    ];
    found.into_iter().filter(|(_, events)| !events.is_empty())
}

impl Content {
    fn read(host: Host, path: &Path) -> Self {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Self::Missing,
            // A file or a link where the folder should be: the host finds nothing there either.
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Self::Missing;
            }
            Err(error) => return Self::Broken { why: error.to_string(), names_midcourse: true },
        };
        let text = String::from_utf8_lossy(&bytes);
        let names_midcourse = text.contains("midcourse");
        let settings = match host.installation("") {
            Installation::Hooks(settings) => settings,
            Installation::Plugin(_) if !PluginFile::is_ours(&text) => {
                return Self::Hooks(Vec::new());
            }
            Installation::Plugin(_) => {
                let command = PluginFile::command(&text).unwrap_or_default();
                let command: Vec<String> = command.iter().map(|word| shell_quote(word)).collect();
                let command = command.join(" ");
                let is_this = |installation: Installation| matches!(installation, Installation::Plugin(PluginFile(ours)) if ours == text);
                return Self::Plugin {
                    is_other_release: !is_this(host.installation(&command)),
                    hook: InstalledHook {
                        event: PLUGIN_EVENT.to_owned(),
                        position: (0, 0),
                        command,
                        timeout: PluginFile::time_limit_ms(&text),
                        is_async: false,
                        matcher: None,
                    },
                };
            }
        };
        let json = match JsonText::parse(&bytes) {
            Ok(json) => json,
            Err(error) => return Self::Broken { why: error.to_string(), names_midcourse },
        };
        let refused = match () {
            () if json.has_trailing_commas() => Some("a trailing comma"),
            () if json.has_comments() && !settings.accepts_comments() => Some("a comment"),
            () => None,
        };
        if let Some(refused) = refused {
            return Self::Broken { why: format!("it contains {refused}"), names_midcourse };
        }
        Self::Hooks(settings.installed_in(&json))
    }
}
