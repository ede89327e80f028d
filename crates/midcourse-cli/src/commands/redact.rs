//! `midcourse redact`: removes secrets from a run that was stored earlier.

use std::io::{Write as _, stdout};

use anyhow::Result;
use midcourse::{DataDir, RedactedRun};
use serde_json::json;

use super::open;
use crate::run_settings::RunSettings;
use crate::terminal::warn;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Redact this run (id, start or end of id, or `latest`).
    run: String,
    /// Print a JSON line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let data_dir = open::data_dir()?;
    let settings = RunSettings::find(&data_dir, &std::env::current_dir().unwrap_or_default());
    settings.warnings.iter().for_each(|warning| warn(warning));
    // Open the store for reading first: opening it for writing would create a missing store.
    let run_id = open::find_run(&open::to_read()?, &arguments.run)?.run_id;
    let mut store = open::to_redact(&data_dir, settings.config.redaction())?;
    let redacted = store.redact_run(&run_id)?;
    let RedactedRun { secrets, records, texts_in_other_runs, is_log_empty } = redacted;
    let copies = kept_folders(&data_dir);
    if texts_in_other_runs > 0 {
        warn(&format!(
            "{texts_in_other_runs} long texts with secrets are in other runs too; redact those as well"
        ));
    }
    if !is_log_empty {
        warn(
            "another process reads the store, so the old text is still in the write-ahead log; run \
             the command again later",
        );
    }
    if copies > 0 {
        warn(&format!(
            "{copies} folders of earlier stores (before-…) in {} may contain the old text; remove them",
            data_dir.path().display()
        ));
    }
    let mut out = stdout().lock();
    if arguments.json {
        let line = json!({"run_id": run_id, "secrets": secrets, "records": records,
                          "texts_in_other_runs": texts_in_other_runs, "kept_folders": copies,
                          "log_is_empty": is_log_empty});
        writeln!(out, "{line}")?;
    } else if secrets == 0 {
        writeln!(out, "The run has no secrets to replace.")?;
    } else {
        writeln!(out, "Replaced {secrets} secrets in {records} records.")?;
    }
    Ok(())
}

/// The number of folders with old files that `restore` or `repair` kept.
fn kept_folders(data_dir: &DataDir) -> usize {
    let Ok(entries) = std::fs::read_dir(data_dir.path()) else { return 0 };
    let is_kept = |name: &str| name.starts_with("before-re");
    entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_kept)).count()
}
