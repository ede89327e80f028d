//! `midcourse trust`: approving a project's configuration, after showing it.

use std::io::{BufRead, IsTerminal as _, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use crate::config::{Approval, ProjectFile, Trusted};
use anyhow::{Context as _, Result, bail, ensure};

use super::{columns, open};
use crate::display::escape_control_chars;

/// Which file, and what becomes of its approval.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The file; by default the `midcourse.toml` of the project that the current folder belongs to.
    file: Option<PathBuf>,
    /// Approve it without asking.
    #[arg(long)]
    yes: bool,
    /// Show the files that are approved, and whether each still says what it said then.
    #[arg(long, conflicts_with_all = ["file", "yes"])]
    list: bool,
    /// Take the approval of this file back.
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
            "there is no `midcourse.toml` here or above within the repository: name the file",
        )?,
    };
    approve(&path, arguments.yes)
}

fn approve(path: &Path, without_asking: bool) -> Result<()> {
    let file = ProjectFile::read(path)?;
    // What is approved says what it seems to say: nothing that is not understood.
    file.config()?;
    let home = open::home()?;
    let place = file.path().display().to_string();
    let place = escape_control_chars(&place);
    let mut out = stdout().lock();
    if Trusted::read(&home)?.has(&file) {
        writeln!(out, "{place} is approved already.")?;
        return Ok(());
    }
    let lines = file.text().lines().count();
    writeln!(out, "{place}, {lines} {}:\n", if lines == 1 { "line" } else { "lines" })?;
    for line in file.text().lines() {
        writeln!(out, "  | {}", escape_control_chars(line))?;
    }
    writeln!(out)?;
    if !without_asking {
        ensure!(
            stdin().is_terminal(),
            "there is no terminal to ask on, and nothing is approved: look at the file, then add \
             `--yes`"
        );
        write!(out, "Shall it count for runs in this project? [y/N] ")?;
        out.flush()?;
        if !agrees(&mut stdin().lock())? {
            bail!("nothing is approved");
        }
    }
    Trusted::approve(&home, &file)?;
    writeln!(out, "Approved. Any change to the file ends that.")?;
    Ok(())
}

/// Whether the answer is a yes; no answer is none.
fn agrees(input: &mut impl BufRead) -> Result<bool> {
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

fn list() -> Result<()> {
    let trusted = Trusted::read(&open::home()?)?;
    let mut table = columns::table(["STANDS", "FILE"]);
    for (path, approval) in trusted.files() {
        let stands = match approval {
            Approval::Holds => "approved",
            Approval::Changed => "changed, does not count",
            Approval::Gone => "gone",
        };
        table.add_row([stands, &escape_control_chars(&path.display().to_string())]);
    }
    let mut out = stdout().lock();
    if table.is_empty() {
        writeln!(out, "No file is approved.")?;
        return Ok(());
    }
    columns::print(&mut out, table, [])
}

fn revoke(path: &Path) -> Result<()> {
    ensure!(
        Trusted::revoke(&open::home()?, path)?,
        "{} is not approved; `midcourse trust --list` shows what is",
        path.display()
    );
    writeln!(stdout().lock(), "It does not count any more.")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::agrees;

    #[test]
    fn only_a_yes_is_one() {
        for (answer, is_yes) in [
            ("y\n", true),
            ("Yes\r\n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yesterday\n", false),
        ] {
            assert_eq!(agrees(&mut answer.as_bytes()).unwrap(), is_yes, "{answer:?}");
        }
    }
}
