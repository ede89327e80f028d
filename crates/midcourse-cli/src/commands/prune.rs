//! `midcourse prune`: removes old runs. Without `--yes`, only shows which runs would be removed.

use std::collections::HashSet;
use std::io::{Write as _, stdout};
use std::time::Duration;

use anyhow::{Context as _, Result};
use midcourse::{RunId, Store, Timestamp, now};
use serde_json::json;

use super::open;
use crate::display::{local_time, one_line, rfc3339};
use crate::duration::parse_age;
use crate::run_settings::remove_old_launches;
use crate::size::parse_size;

/// How many runs are removed with one commit. Meanwhile no other process can write to the store.
const RUNS_PER_COMMIT: usize = 500;

/// `--max-size` does not remove runs whose latest record is newer than this.
const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of runs that are shown. Further runs are only counted.
const MAX_SHOWN_RUNS: usize = 20;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Remove runs older than this, such as `30d` or `12h`.
    ///
    /// The age of a run is that of its latest record. A run and its child runs are removed
    /// together.
    #[arg(long, value_name = "DURATION", value_parser = parse_older_than,
          required_unless_present = "max_size")]
    older_than: Option<Duration>,
    /// Remove the oldest runs until the others take at most this space, such as `500MB` or `2GB`.
    ///
    /// Runs with a record from the last 24 hours are kept.
    #[arg(long, value_name = "SIZE", value_parser = parse_max_size)]
    max_size: Option<u64>,
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

fn parse_max_size(text: &str) -> Result<u64> {
    parse_size(text).with_context(|| format!("invalid size `{text}`; try `500MB` or `2GB`"))
}

fn ago(age: Duration) -> Timestamp {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_unix_ms(now().unix_ms().saturating_sub(age))
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut store = if arguments.yes { open::to_write()? } else { open::to_read()? };
    if let Some(age) = arguments.older_than {
        remove_before(&mut store, ago(age), arguments)?;
    }
    if let Some(max_size) = arguments.max_size {
        remove_to_size(&mut store, max_size, arguments)?;
    }
    if arguments.yes {
        remove_old_launches(store.data_dir());
    }
    if arguments.shrink {
        store.shrink()?;
    }
    Ok(())
}

/// Removes the oldest runs, in steps of a twentieth of all runs, until the rest fit into
/// `max_size`.
fn remove_to_size(store: &mut Store, max_size: u64, arguments: &Arguments) -> Result<()> {
    let used = store.used_bytes()?;
    if !arguments.yes {
        let [used, max] = [used, max_size].map(|bytes| bytes / 1_000_000);
        if !arguments.json {
            let end = if used > max { "; add `--yes` to remove the oldest" } else { "" };
            writeln!(stdout(), "The runs take {used} MB of at most {max} MB{end}.")?;
        }
        return Ok(());
    }
    let (ages, newest) = (store.ages()?, ago(MIN_AGE));
    let step = ages.len() / 20 + 1;
    for last in ages.chunks(step).filter_map(<[_]>::last).take_while(|last| **last < newest) {
        if store.used_bytes()? <= max_size {
            break;
        }
        remove_before(store, last.after(Duration::from_millis(1)), arguments)?;
    }
    Ok(())
}

fn remove_before(store: &mut Store, before: Timestamp, arguments: &Arguments) -> Result<()> {
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
