//! `midcourse tail`: the latest records, as they come.

use std::io::{Write as _, stdout};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use midcourse::RunId;

use super::open;
use crate::display::{describe, local_time, one_line};

/// How often a followed store is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// Records read at a time.
const PAGE: usize = 256;

/// Which records, and whether to wait for more.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Only this run: its id, the beginning of its id, or `latest`.
    run: Option<String>,
    /// Begin with this many records.
    #[arg(long, short = 'n', default_value_t = 20)]
    count: usize,
    /// Go on showing records as they are recorded.
    #[arg(long, short = 'f')]
    follow: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let run: Option<RunId> = match &arguments.run {
        Some(meant) => Some(open::find_run(&store, meant)?.run_id),
        None => None,
    };
    let mut cursor = store.cursor(run.as_ref(), arguments.count)?;
    let mut seen = None;
    loop {
        let version = store.version_of_data()?;
        if seen != Some(version) {
            loop {
                let (records, after) = store.records_after(cursor, run.as_ref(), PAGE)?;
                cursor = after;
                if records.is_empty() {
                    break;
                }
                let mut out = stdout().lock();
                for stored in records {
                    if arguments.json {
                        writeln!(out, "{}", stored.to_json())?;
                    } else {
                        let record = stored.into_record();
                        let (word, text) = describe(&record);
                        let run = record.run_id.as_ref().map_or("", |id| id.as_str());
                        writeln!(
                            out,
                            "{}  {}:{}  {word:<9}  {}",
                            local_time(record.at()),
                            one_line(run, 36),
                            record.seq,
                            one_line(&text, 100)
                        )?;
                    }
                }
                out.flush()?;
            }
            seen = Some(version);
        }
        if !arguments.follow {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}
