//! `midcourse trust`: shows a project's configuration file and, if the user agrees, approves it. A
//! project's file has no effect until it is approved.

use std::io::{BufRead, IsTerminal as _, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use crate::config::{Approval, ProjectFile, Trusted};
use anyhow::{Context as _, Result, bail, ensure};

use super::{columns, open};
use crate::display::escape_control_chars;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Approve this file; by default the current project's `midcourse.toml`.
    file: Option<PathBuf>,
    /// Approve without asking.
    #[arg(long)]
    yes: bool,
    /// List approved files, and whether they have changed since.
    #[arg(long, conflicts_with_all = ["file", "yes"])]
    list: bool,
    /// Revoke the approval of this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "yes", "list"])]
    revoke: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        return list();
    }
    if let Some(path) = &arguments.revoke {
        return revoke(path);
    }
    let path = match &arguments.file {
        Some(path) => path.clone(),
        None => ProjectFile::find(Path::new(".")).context(
            "no `midcourse.toml` in this directory or above it in the repository; name the file",
        )?,
    };
    approve(&path, arguments.yes)
}

fn approve(path: &Path, skip_question: bool) -> Result<()> {
    let file = ProjectFile::read(path)?;
    // Reject an invalid file: it would have no effect although the user approved it.
    file.config()?;
    let data_dir = open::data_dir()?;
    let path = file.path().display().to_string();
    let path = escape_control_chars(&path);
    let mut out = stdout().lock();
    if Trusted::read(&data_dir)?.has(&file) {
        writeln!(out, "{path} is already approved.")?;
        return Ok(());
    }
    let lines = file.text().lines().count();
    writeln!(out, "{path}, {lines} {}:\n", if lines == 1 { "line" } else { "lines" })?;
    for line in file.text().lines() {
        writeln!(out, "  | {}", escape_control_chars(line))?;
    }
    writeln!(out)?;
    if !skip_question {
        ensure!(
            stdin().is_terminal(),
            "cannot ask without a terminal, so nothing was approved; read the file, then add \
             `--yes`"
        );
        write!(out, "Apply this configuration to runs in this project? [y/N] ")?;
        out.flush()?;
        if !reads_yes(&mut stdin().lock())? {
            bail!("nothing was approved");
        }
    }
    Trusted::approve(&data_dir, &file)?;
    writeln!(out, "Approved. After any change to the file you have to approve it again.")?;
    Ok(())
}

/// Reads a line. Returns true only if the line is `y` or `yes`, in upper or lower case.
fn reads_yes(input: &mut impl BufRead) -> Result<bool> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()))
}

fn list() -> Result<()> {
    let trusted = Trusted::read(&open::data_dir()?)?;
    let mut table = columns::table(["STATUS", "FILE"]);
    for (path, approval) in trusted.files() {
        let status = match approval {
            Approval::Valid => "approved",
            Approval::Changed => "changed, not applied",
            Approval::Missing => "deleted",
        };
        table.add_row([status, &escape_control_chars(&path.display().to_string())]);
    }
    let mut out = stdout().lock();
    if table.is_empty() {
        writeln!(out, "No files are approved.")?;
        return Ok(());
    }
    columns::print(&mut out, table, [])
}

fn revoke(path: &Path) -> Result<()> {
    ensure!(
        Trusted::revoke(&open::data_dir()?, path)?,
        "{} is not approved; `midcourse trust --list` shows the approved files",
        path.display()
    );
    writeln!(stdout().lock(), "Approval revoked.")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::reads_yes;

    #[test]
    fn only_y_and_yes_are_consent() {
        for (line, is_yes) in [
            ("y\n", true),
            ("Yes\r\n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yesterday\n", false),
        ] {
            assert_eq!(reads_yes(&mut line.as_bytes()).unwrap(), is_yes, "{line:?}");
        }
    }
}
