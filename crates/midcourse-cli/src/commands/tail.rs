//! `midcourse tail`: shows the latest records. With `--follow`, keeps running and shows new records
//! as they are stored.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use anstyle::AnsiColor;
use anyhow::{Result, ensure};
use midcourse::{RunId, StoredRecord};
use unicode_width::UnicodeWidthStr as _;

use super::json::record_json;
use super::screen::{Screen, ScreenArguments};
use super::source::StoreArguments;
use crate::display::{Tone, describe_record, json_line, local_time, one_line};
use crate::terminal::warn;

pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of records that are read from the store at once.
const PAGE: usize = 256;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Show only this run (id, start or end of id, or `latest`).
    run: Option<String>,
    /// Start with the latest N records.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    count: usize,
    /// Keep running and show new records.
    #[arg(long, short = 'f')]
    follow: bool,
    /// Also turns, model requests and token counts.
    #[arg(long)]
    all: bool,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    screen: ScreenArguments,
}

/// How much of a text is printed if there is no terminal.
const WIDTH_WITHOUT_TERMINAL: usize = 200;

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut source = arguments.store.open()?;
    let run: Option<RunId> = match &arguments.run {
        Some(run) => Some(source.find_run(run)?.run_id),
        None => None,
    };
    let mut live = source.follow(run.as_ref(), arguments.count)?;
    let store = source.store();
    let mut cursor = store.cursor(run.as_ref(), arguments.count)?;
    let (mut seen_version, mut is_damaged) = (None, false);
    let mut screen = Screen::direct(&arguments.screen);
    loop {
        let store = source.store();
        let version = store.data_version()?;
        if seen_version != Some(version) || live.is_some() {
            loop {
                let (records, after) = store.records_after(cursor, run.as_ref(), PAGE)?;
                cursor = after;
                if records.is_empty() {
                    break;
                }
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
                        writeln!(screen, "{}", json_line(&record_json(&stored)))?;
                    } else if arguments.all || !stored.is_mechanics() {
                        print_record(&mut screen, &stored)?;
                    }
                }
                screen.flush()?;
            }
            seen_version = Some(version);
        }
        if !arguments.follow {
            ensure!(!is_damaged, "the run is damaged; run `midcourse verify` for details");
            return Ok(());
        }
        match &mut live {
            Some(live) => live.wait(&mut source, run.as_ref())?,
            None => thread::sleep(POLL_INTERVAL),
        }
    }
}

fn print_record(screen: &mut Screen, stored: &StoredRecord) -> Result<()> {
    let painter = screen.painter;
    let described = describe_record(stored);
    let place = format!("{}:{}", one_line(stored.run.run_id.as_str(), 36), stored.seq);
    let time = local_time(stored.at);
    let start = time.len() + 2 + place.width() + 2 + 9 + 2;
    let width = screen.width.unwrap_or(WIDTH_WITHOUT_TERMINAL);
    let text = one_line(&described.text, width.saturating_sub(start).max(20));
    let text = match described.tone {
        Tone::Message | Tone::Faint => painter.tone(described.tone, &text),
        _ => text,
    };
    let line = format!(
        "{time}  {}  {}  {text}",
        painter.coloured(AnsiColor::Yellow, &place),
        painter.tone(described.tone, &format!("{:<9}", described.label)),
    );
    writeln!(screen, "{}", line.trim_end())?;
    Ok(())
}
