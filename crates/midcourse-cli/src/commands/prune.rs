//! `midcourse prune`: removes old runs. Without `--yes`, only shows which runs would be removed.

use std::collections::HashSet;
use std::io::{Write as _, stdout};
use std::time::Duration;

use anyhow::{Context as _, Result};
use midcourse::{RunId, Timestamp, now};
use serde_json::json;

use super::open;
use crate::display::{local_time, one_line, rfc3339};
use crate::duration::parse_age;

/// How many runs are removed with one commit. Meanwhile no other process can write to the store.
const RUNS_PER_COMMIT: usize = 500;

/// Maximum number of runs that are shown. Further runs are only counted.
const MAX_SHOWN_RUNS: usize = 20;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Remove runs older than this, such as `30d` or `12h`.
    ///
    /// The age of a run is that of its latest record. A run and its child runs are removed
    /// together.
    #[arg(long, value_name = "DURATION", value_parser = parse_older_than)]
    older_than: Duration,
    /// Remove the runs; without this, only show them.
    #[arg(long)]
    yes: bool,
    /// Shrink the database file afterwards.
    ///
    /// While the file is shrunk, no other process can write to the store. Hooks of running agents
    /// write their events to the spill folder, from which a later `midcourse` process moves them
    /// into the store.
    #[arg(long, requires = "yes")]
    shrink: bool,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
}

fn parse_older_than(text: &str) -> Result<Duration> {
    let age = parse_age(text);
    age.with_context(|| format!("invalid duration `{text}`; try `30d` or `12h`"))
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let age = u64::try_from(arguments.older_than.as_millis()).unwrap_or(u64::MAX);
    let before = Timestamp::from_unix_ms(now().unix_ms().saturating_sub(age));
    let mut store = if arguments.yes { open::to_write()? } else { open::to_read()? };
    let old = store.runs_before(before)?;
    let bar = open::progress(u64::try_from(old.len()).unwrap_or_default(), "pruning");
    let mut removed = 0_usize;
    let mut out = stdout().lock();
    let mut shown = 0_usize;
    for some in old.chunks(RUNS_PER_COMMIT) {
        let mut runs = Vec::new();
        for run_id in some {
            runs.extend(store.run(run_id.as_str())?);
        }
        let gone = if arguments.yes { store.remove_runs(some, before)? } else { Vec::new() };
        let gone: HashSet<RunId> = gone.into_iter().collect();
        removed += gone.len();
        bar.inc(u64::try_from(some.len()).unwrap_or_default());
        for run in runs {
            if arguments.json {
                let line = json!({"run_id": run.run_id, "latest": rfc3339(run.latest),
                                  "records": run.records, "removed": gone.contains(&run.run_id)});
                writeln!(out, "{line}")?;
            } else if shown < MAX_SHOWN_RUNS && !arguments.yes {
                let name = one_line(run.run_id.as_str(), 80);
                writeln!(out, "{name}  {}  {} records", local_time(run.latest), run.records)?;
                shown += 1;
            }
        }
    }
    bar.finish_and_clear();
    if arguments.yes && removed > 0 {
        store.finish_removal()?;
    }
    if arguments.shrink {
        store.shrink()?;
    }
    if !arguments.json {
        match (arguments.yes, old.len()) {
            (_, 0) => writeln!(out, "No runs are that old.")?,
            (true, _) => writeln!(out, "Removed {removed} runs.")?,
            (false, count) => {
                if count > MAX_SHOWN_RUNS {
                    writeln!(out, "and {} more", count - MAX_SHOWN_RUNS)?;
                }
                writeln!(out, "{count} runs would be removed; add `--yes` to remove them.")?;
            }
        }
    }
    Ok(())
}
