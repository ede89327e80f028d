//! `midcourse list`: lists recorded runs.

use std::io::{Write as _, stdout};

use anyhow::Result;
use comfy_table::Table;
use midcourse::RunSummary;
use serde_json::json;

use super::{columns, open};
use crate::display::{duration, json_line, local_time, one_line, rfc3339};

/// How many runs the table shows by default.
const DEFAULT_COUNT: usize = 30;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Show the newest N runs.
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "all")]
    count: Option<usize>,
    /// Show all runs instead of the newest 30.
    #[arg(long)]
    all: bool,
    /// Print JSON lines, all runs by default.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let Some(store) = open::existing()? else {
        if !arguments.json {
            writeln!(stdout(), "No runs recorded yet.")?;
        }
        return Ok(());
    };
    let shown = if arguments.all || arguments.json { usize::MAX } else { DEFAULT_COUNT };
    let mut runs = store.runs(arguments.count.unwrap_or(shown))?;
    for run in &mut runs {
        open::add_open_calls(&store, run)?;
    }
    let mut out = std::io::BufWriter::new(stdout().lock());
    if arguments.json {
        for run in &runs {
            writeln!(out, "{}", json_line(&as_json(run)))?;
        }
        return Ok(out.flush()?);
    }
    if runs.is_empty() {
        writeln!(out, "No runs recorded yet.")?;
        return Ok(out.flush()?);
    }
    columns::print(&mut out, table(&runs), [3, 5, 6, 7])?;
    let all = store.run_count()?;
    let shown = u64::try_from(runs.len()).unwrap_or(u64::MAX);
    if all > shown {
        writeln!(out, "{shown} of {all} runs; use `--all` to show all.")?;
    }
    Ok(out.flush()?)
}

pub(super) fn as_json(run: &RunSummary) -> serde_json::Value {
    json!({
        "run_id": run.run_id, "parent_run_id": run.parent_run_id, "host": run.host,
        "started": rfc3339(run.started), "ended": run.ended.map(rfc3339),
        "outcome": run.outcome, "calls": run.calls,
        "errors": run.errors, "deliveries": run.deliveries,
    })
}

fn table(runs: &[RunSummary]) -> Table {
    let mut table = columns::table([
        "RUN", "HOST", "STARTED", "DURATION", "OUTCOME", "CALLS", "ERRORS", "MESSAGES",
    ]);
    for run in runs {
        table.add_row([
            one_line(run.run_id.as_str(), 80),
            one_line(&run.host, 20),
            local_time(run.started),
            duration(run.latest.since(run.started)),
            outcome(run),
            run.calls.to_string(),
            run.errors.to_string(),
            run.deliveries.to_string(),
        ]);
    }
    table
}

/// How a run ended, for the table: `no end` if no end was recorded; otherwise the outcome, or
/// `ended` if the end was recorded without an outcome.
pub(super) fn outcome(run: &RunSummary) -> String {
    match (&run.ended, &run.outcome) {
        (Some(_), Some(outcome)) => one_line(outcome, 20),
        (Some(_), None) => "ended".to_owned(),
        (None, _) => "no end".to_owned(),
    }
}
