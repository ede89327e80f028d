//! The file that `midcourse install` and `midcourse uninstall` change, and what they print about it.

use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use similar::TextDiff;

use crate::display::escape_control_chars;
use crate::hosts::Host;

/// A settings file of a host.
#[derive(Debug)]
pub(in crate::commands) struct Target {
    pub(in crate::commands) host: Host,
    pub(in crate::commands) path: PathBuf,
    is_project: bool,
}

impl Target {
    pub(in crate::commands) fn find(host: Host, is_project: bool) -> Result<Self> {
        let settings = host.settings_path();
        let path = if is_project {
            settings.of_project(&std::env::current_dir().context("no current directory")?)
        } else {
            let home = dirs::home_dir();
            let path = settings.of_user(|name| std::env::var_os(name), home.as_deref());
            std::path::absolute(path.context("no home directory was found; set HOME")?)?
        };
        Ok(Self { host, path, is_project })
    }

    /// What the user has to do before the hooks run.
    pub(super) fn remaining_steps(&self) -> Vec<&'static str> {
        let mut steps = match self.host {
            Host::Codex => vec![
                "next: start codex and approve the hooks with /hooks; until then, it skips them \
                 without a message",
            ],
            Host::Gemini => {
                vec!["next: trust the folders you work in; Gemini CLI runs hooks only there"]
            }
            _ => Vec::new(),
        };
        if self.host == Host::Codex && self.has_hooks_off() {
            steps.push(
                "next: hooks are switched off in config.toml; remove `hooks = false` below \
                 [features]",
            );
        }
        if self.is_project {
            steps.push("note: the file contains paths of this machine; do not commit it");
        }
        steps
    }

    /// Whether the configuration of Codex beside its hooks switches them off.
    fn has_hooks_off(&self) -> bool {
        let text = std::fs::read_to_string(self.path.with_file_name("config.toml"));
        let table = text.ok().and_then(|text| text.parse::<toml::Table>().ok());
        let hooks = table.as_ref().and_then(|table| table.get("features")?.get("hooks"));
        hooks.and_then(toml::Value::as_bool) == Some(false)
    }

    pub(super) fn uninstall_command(&self) -> String {
        let project = if self.is_project { " --project" } else { "" };
        format!("midcourse uninstall {}{project}", self.host.name())
    }
}

/// Parses the name of a host that can be installed.
pub(in crate::commands) fn host_named(name: &str) -> Result<Host, String> {
    let host = Host::named(name).filter(|host| *host != Host::Demo);
    host.ok_or_else(|| {
        let names = Host::ALL.into_iter().filter(|host| *host != Host::Demo).map(Host::name);
        format!("no such agent; choose one of {}", names.collect::<Vec<_>>().join(", "))
    })
}

/// Prints the change of a file as a unified diff. `None` stands for a file that does not exist.
pub(in crate::commands) fn print_diff(
    path: &Path,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<()> {
    let mut out = stdout().lock();
    let text =
        |content: Option<&[u8]>| String::from_utf8_lossy(content.unwrap_or_default()).into_owned();
    let (old, new) = (text(before), text(after));
    if before == after {
        writeln!(
            out,
            "{}: nothing would change",
            escape_control_chars(&path.display().to_string())
        )?;
        return Ok(());
    }
    let name = |content: Option<&[u8]>| match content {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let diff = TextDiff::from_lines(&old, &new);
    let mut diff = diff.unified_diff();
    let diff = diff.header(&name(before), &name(after)).to_string();
    // A carriage return belongs to a line end and is not shown.
    write!(out, "{}", escape_control_chars(&diff.replace("\r\n", "\n")))?;
    Ok(())
}
