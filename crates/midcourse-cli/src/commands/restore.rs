//! `midcourse restore`: replaces the store by a backup.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use midcourse::{Store, StoreError};
use serde_json::json;

use super::open;
use crate::display::{escape_control_chars, json_line};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Restore this file, which `midcourse backup` wrote.
    file: PathBuf,
    /// Print a JSON line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let data_dir = open::data_dir()?;
    let file = &arguments.file;
    let name = file.display();
    let length = file.metadata().with_context(|| format!("cannot read {name}"))?.len();
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    ensure!(is_file, "{name} is not a file; name a file that `midcourse backup` wrote");
    ensure!(length > 0, "{name} is empty; name a file that `midcourse backup` wrote");
    let same = |path: PathBuf| path.canonicalize().ok();
    ensure!(
        same(file.clone()) != same(data_dir.store_file()),
        "{name} is the store itself; name a file that `midcourse backup` wrote"
    );
    let kept = open::folder_for_kept_files(&data_dir, "restore");
    let restored = match Store::restore(&data_dir, file, &kept) {
        // The hints of these errors are about the store, but here the backup file is the problem.
        Err(
            error @ (StoreError::Damaged(_) | StoreError::Foreign(_) | StoreError::EarlierBuild),
        ) => {
            bail!("cannot restore {name}; nothing was changed: {}", reason(error))
        }
        restored => restored.with_context(|| format!("cannot restore {name}"))?,
    };
    let mut out = stdout().lock();
    let kept = restored.has_kept.then_some(kept);
    if arguments.json {
        let line = json!({"runs": restored.runs, "records": restored.records, "kept": kept});
        writeln!(out, "{}", json_line(&line))?;
        return Ok(());
    }
    writeln!(out, "Restored {} runs, {} records.", restored.runs, restored.records)?;
    if let Some(kept) = kept {
        let kept = kept.display().to_string();
        writeln!(out, "The store that was there is in {}", escape_control_chars(&kept))?;
    }
    Ok(())
}

fn reason(error: StoreError) -> String {
    match error {
        StoreError::Damaged(what) => format!("the backup is damaged: {what}"),
        other => other.to_string(),
    }
}
