//! `midcourse delete`: deletes a run and its subagents, or everything that midcourse has recorded.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use midcourse::{DataDir, Deleted, RunSummary, Store};
use serde_json::json;

use super::export::forget_sent;
use super::open;
use crate::display::{counted, escape_control_chars, json_line, one_line};
use crate::run_settings::remove_unused_launches;
use crate::terminal::warn;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Delete this run (id, start or end of id, or `latest`) and its subagents.
    #[arg(required_unless_present = "all")]
    run: Option<String>,
    /// Delete everything that midcourse has recorded on this machine.
    ///
    /// Deletes all runs, and the logs and kept files in the data directory. Keeps the configuration,
    /// the list of approved projects and the key for the hashes of redacted secrets.
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Print a JSON line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    // Open the store for reading first: opening it for writing would create a missing store.
    let store = open::to_read()?;
    match &arguments.run {
        Some(run) => {
            let run = open::find_run(&store, run)?;
            delete_run(arguments, &store, &run)
        }
        None => delete_all(arguments, &store),
    }
}

fn delete_run(arguments: &Arguments, store: &Store, run: &RunSummary) -> Result<()> {
    let name = one_line(run.run_id.as_str(), 80);
    let task = run.task.as_deref().map(|task| format!(" ({})", one_line(task, 60)));
    let children = match store.children(run.run_id.as_str())?.len() {
        0 => "",
        1 => " and its subagent",
        _ => " and its subagents",
    };
    let question = format!(
        "Delete the run {name}{}, {}{children}?",
        task.unwrap_or_default(),
        counted(run.records, "record")
    );
    if !confirm(arguments, &question)? {
        return Ok(());
    }
    let mut store = open::to_write()?;
    let deleted = store.delete_run(&run.run_id)?;
    forget_sent(store.data_dir(), Some(&run.run_id))
        .context("cannot delete what was sent of it")?;
    let kept = kept_files(store.data_dir());
    if !kept.is_empty() {
        warn(&format!(
            "{} earlier stores (before-…) in {} may contain the run; remove them",
            kept.len(),
            store.data_dir().path().display()
        ));
    }
    print(arguments, Some(run), &deleted, kept.len())
}

fn delete_all(arguments: &Arguments, store: &Store) -> Result<()> {
    let folder = store.data_dir().path().display().to_string();
    let runs = counted(store.run_count()?, "run");
    let question = format!("Delete all {runs} in {}?", escape_control_chars(&folder));
    if !confirm(arguments, &question)? {
        return Ok(());
    }
    let mut store = open::to_write()?;
    let deleted = store.delete_all_runs()?;
    let data_dir = store.data_dir();
    let mut failed = Vec::new();
    for path in
        kept_files(data_dir).into_iter().chain([data_dir.spill_folder(), data_dir.log_file()])
    {
        if let Err(error) = remove(&path) {
            failed.push(format!("{}: {error}", path.display()));
        }
    }
    if let Err(error) = forget_sent(data_dir, None) {
        failed.push(format!("what is known about sent spans: {error}"));
    }
    remove_unused_launches(data_dir);
    print(arguments, None, &deleted, 0)?;
    ensure!(failed.is_empty(), "cannot delete {}", failed.join(", "));
    Ok(())
}

/// Asks the user. Returns whether to delete; fails if there is nobody to ask.
fn confirm(arguments: &Arguments, question: &str) -> Result<bool> {
    if arguments.yes {
        return Ok(true);
    }
    if !stdin().is_terminal() {
        bail!("{question} Add `--yes` to delete without a question");
    }
    let mut terminal = io::stderr().lock();
    write!(terminal, "{question} [y/N] ")?;
    terminal.flush()?;
    drop(terminal);
    let mut reply = String::new();
    stdin().read_line(&mut reply).context("cannot read the reply")?;
    let is_yes = matches!(reply.trim().to_lowercase().as_str(), "y" | "yes");
    if !is_yes {
        writeln!(stdout(), "Nothing was deleted.")?;
    }
    Ok(is_yes)
}

fn print(
    arguments: &Arguments,
    run: Option<&RunSummary>,
    deleted: &Deleted,
    kept_folders: usize,
) -> Result<()> {
    let Deleted { runs, records, is_log_empty } = deleted;
    if !is_log_empty {
        warn(
            "another process reads the store, so the text stays in the write-ahead log until a later \
             write",
        );
    }
    let mut out = stdout().lock();
    if arguments.json {
        let line = json!({"run_id": run.map(|run| &run.run_id), "runs": runs, "records": records,
                          "kept_folders": kept_folders, "log_is_empty": is_log_empty});
        writeln!(out, "{}", json_line(&line))?;
    } else {
        let (runs, records) = (counted(*runs, "run"), counted(*records, "record"));
        writeln!(out, "Deleted {runs}, {records}.")?;
    }
    Ok(())
}

/// The folders with old files that `restore` or `repair` kept.
fn kept_files(data_dir: &DataDir) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(data_dir.path()) else { return Vec::new() };
    let is_kept = |name: &str| name.starts_with("before-re");
    let kept = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_kept));
    kept.map(|entry| entry.path()).collect()
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
