//! `midcourse tail`: shows the latest records. With `--follow`, keeps running and shows new records
//! as they are stored.

use std::io::{Write as _, stdout};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use midcourse::RunId;

use super::open;
use crate::display::{describe, json_line, local_time, one_line};
use crate::terminal::warn;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of records that are read from the store at once.
const PAGE: usize = 256;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Show only this run (id, start of id, or `latest`).
    run: Option<String>,
    /// Start with the latest N records.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    count: usize,
    /// Keep running and show new records.
    #[arg(long, short = 'f')]
    follow: bool,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let run: Option<RunId> = match &arguments.run {
        Some(run) => Some(open::find_run(&store, run)?.run_id),
        None => None,
    };
    let mut cursor = store.cursor(run.as_ref(), arguments.count)?;
    let (mut seen_version, mut is_damaged) = (None, false);
    loop {
        let version = store.data_version()?;
        if seen_version != Some(version) {
            loop {
                let (records, after) = store.records_after(cursor, run.as_ref(), PAGE)?;
                cursor = after;
                if records.is_empty() {
                    break;
                }
                let mut out = stdout().lock();
                for (run_id, (seq, stored)) in records {
                    let stored = match stored {
                        Ok(stored) => stored,
                        Err(error) => {
                            warn(&format!("skipped record {seq} of {run_id}: {error}"));
                            is_damaged = true;
                            continue;
                        }
                    };
                    for finding in store.verify_record(&run_id, seq)? {
                        warn(&finding.to_string());
                        is_damaged = true;
                    }
                    if arguments.json {
                        writeln!(out, "{}", json_line(&stored.to_json()))?;
                    } else {
                        let failed = stored.failed;
                        let record = stored.into_record();
                        let (label, text) = describe(&record, failed);
                        let run = record.run_id.as_ref().map_or("", |id| id.as_str());
                        writeln!(
                            out,
                            "{}  {}:{}  {label:<9}  {}",
                            local_time(record.at()),
                            one_line(run, 36),
                            record.seq,
                            one_line(&text, 100)
                        )?;
                    }
                }
                out.flush()?;
            }
            seen_version = Some(version);
        }
        if !arguments.follow {
            ensure!(!is_damaged, "the run is damaged; run `midcourse verify` for details");
            return Ok(());
        }
        thread::sleep(POLL_INTERVAL);
    }
}
