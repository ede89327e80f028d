//! Which programs are on the user's PATH: midcourse itself and the coding agents.

use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::display::escape_control_chars;
use crate::hosts::Host;

/// The path of midcourse for an installed hook. If PATH leads to this program, the path there: it
/// often is a symlink, which stays valid when an upgrade replaces what is behind it.
pub(in crate::commands) fn path() -> Result<PathBuf> {
    let this = std::env::current_exe().context("cannot find the path of midcourse")?;
    let is_this = |found: &PathBuf| is_same_file(found, &this);
    let name = if cfg!(windows) { "midcourse.exe" } else { "midcourse" };
    Ok(on_path(name).find(is_this).unwrap_or(this))
}

pub(in crate::commands) fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The files with this name in the folders of PATH, in their order.
pub(in crate::commands) fn on_path(name: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let name = name.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // A relative folder in PATH means another file in each working directory.
    let files = folders.into_iter().filter(|folder| folder.is_absolute());
    files.map(move |folder| folder.join(&name)).filter(|file| file.is_file())
}

/// Lists the coding agents on PATH, and the command that installs the hooks of each.
pub(super) fn list_hosts() -> Result<()> {
    let mut out = stdout().lock();
    let mut has_any = false;
    for host in Host::ALL {
        let Some(program) = host.capabilities().programs.first() else { continue };
        let Some(found) = on_path(program).next() else { continue };
        has_any = true;
        let (title, found) = (host.capabilities().title, found.display().to_string());
        writeln!(out, "{title} ({})", escape_control_chars(&found))?;
        writeln!(out, "  midcourse install {}", host.name())?;
    }
    if !has_any {
        let titles: Vec<&str> = Host::ALL
            .into_iter()
            .filter(|host| *host != Host::Demo)
            .map(|host| host.capabilities().title)
            .collect();
        writeln!(out, "None of these agents is on PATH: {}.", titles.join(", "))?;
        writeln!(out, "For any other agent, use `midcourse run` or `midcourse proxy`.")?;
    }
    Ok(())
}
