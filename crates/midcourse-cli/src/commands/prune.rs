//! `midcourse prune`: removing old runs, after saying which.

use std::io::{Write as _, stdout};
use std::time::Duration;

use anyhow::{Context as _, Result};
use midcourse::{Timestamp, now};
use serde_json::json;

use super::open;
use crate::display::{local_time, one_line, rfc3339};
use crate::duration::parse_age;

/// Runs listed before it is only counted.
const SHOWN: usize = 20;

/// What is old, and whether it really goes.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Remove runs whose latest record is older than this, such as `30d` or `12h`. A run goes only
    /// together with the runs it started.
    #[arg(long, value_parser = parse_older_than)]
    older_than: Duration,
    /// Remove them, instead of saying what would be removed.
    #[arg(long)]
    yes: bool,
    /// Also give the room back to the disk. The store is locked meanwhile, and events of running
    /// agents wait in the spill folder.
    #[arg(long, requires = "yes")]
    shrink: bool,
    /// Print one JSON object a line.
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
    let bar = open::progress(u64::try_from(old.len()).unwrap_or_default(), "removing");
    let mut removed = 0_u64;
    let mut out = stdout().lock();
    for (index, run_id) in old.iter().enumerate() {
        let Some(run) = store.run(run_id.as_str())? else { continue };
        let is_removed = arguments.yes && store.remove_run(run_id, before)?;
        removed += u64::from(is_removed);
        bar.inc(1);
        if arguments.json {
            let line = json!({"run_id": run_id, "latest": rfc3339(run.latest), "records": run.records,
                              "removed": is_removed});
            writeln!(out, "{line}")?;
        } else if index < SHOWN && !arguments.yes {
            let name = one_line(run_id.as_str(), 80);
            writeln!(out, "{name}  {}  {} records", local_time(run.latest), run.records)?;
        }
    }
    bar.finish_and_clear();
    if arguments.yes && removed > 0 {
        store.forget_search()?;
    }
    if arguments.shrink {
        store.shrink()?;
    }
    if !arguments.json {
        match (arguments.yes, old.len()) {
            (_, 0) => writeln!(out, "No run is that old.")?,
            (true, _) => writeln!(out, "{removed} runs removed.")?,
            (false, count) => {
                if count > SHOWN {
                    writeln!(out, "… and {} more", count - SHOWN)?;
                }
                writeln!(out, "{count} runs would be removed; `--yes` removes them.")?;
            }
        }
    }
    Ok(())
}
