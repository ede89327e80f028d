//! `midcourse backup`: copies the store to one file.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use midcourse::StoreError;
use serde_json::json;

use super::open;
use crate::display::{escape_control_chars, json_line};
use crate::terminal::warn;

/// Maximum number of problems that are shown. Further ones are only counted.
const MAX_SHOWN_PROBLEMS: usize = 10;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Write the copy to this file.
    file: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Print a JSON line.
    #[arg(long)]
    json: bool,
}

/// Writes the copy, and returns true if all its runs are intact.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let file = &arguments.file;
    let name = file.display();
    ensure!(file.file_name().is_some() && !file.is_dir(), "{name} is a folder; name a file");
    let is_device = file.metadata().is_ok_and(|found| !found.is_file());
    ensure!(!is_device, "{name} is a device or a pipe; name a file");
    let folder = std::path::absolute(file)?;
    let folder = folder.parent().unwrap_or(file);
    ensure!(folder.is_dir(), "the folder {} does not exist; create it first", folder.display());
    ensure!(
        arguments.force || !file.try_exists().unwrap_or(true),
        "{name} exists; pass --force to replace it, or name another file"
    );
    let store = open::to_read()?;
    let path = std::path::absolute(file)?;
    let is_in_use = path.canonicalize().is_ok_and(|path| path.starts_with(store.data_dir().path()));
    ensure!(!is_in_use, "{name} is a file of the data directory; name another file");
    let backup = store.back_up(file, arguments.force).with_context(|| match store.runs(1) {
        Err(StoreError::Damaged(_)) => store.data_dir().path().display().to_string(),
        _ => format!("cannot back up to {name}"),
    })?;
    for finding in backup.findings.iter().take(MAX_SHOWN_PROBLEMS) {
        warn(&finding.to_string());
    }
    let (runs, records, problems) = (backup.runs, backup.records, backup.findings.len());
    if problems > 0 {
        warn(&format!(
            "the copy has {problems} problems, as the store has; run `midcourse repair` and back up again"
        ));
    }
    let mut out = stdout().lock();
    if arguments.json {
        let line = json!({"file": path, "runs": runs, "records": records, "problems": problems});
        writeln!(out, "{}", json_line(&line))?;
    } else {
        let name = path.display().to_string();
        writeln!(out, "{runs} runs, {records} records: {}", escape_control_chars(&name))?;
    }
    Ok(problems == 0)
}
