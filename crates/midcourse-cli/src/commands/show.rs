//! `midcourse show`: one run, record by record.

use std::io::{Write, stdout};

use anyhow::Result;
use midcourse::{RunSummary, Store, TrajectoryPayload};

use super::list::{as_json, end};
use super::open;
use crate::display::{describe, duration, escape_control_chars, local_time, one_line, record_line};
use crate::terminal::warn;

/// Records read at a time.
const PAGE: usize = 64;

/// Which run, and how it is shown.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The run: its id, the beginning of its id, or `latest`.
    run: String,
    /// Show texts whole.
    #[arg(long)]
    full: bool,
    /// Print the run and then its records, one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let run = open::find_run(&store, &arguments.run)?;
    let mut out = std::io::BufWriter::new(stdout().lock());
    if arguments.json {
        writeln!(out, "{}", as_json(&run))?;
    } else {
        head(&mut out, &store, &run)?;
    }
    let (mut open_calls, mut damaged) = (Vec::new(), 0_u64);
    let mut from = 0;
    loop {
        let page = store.records_or_damage(run.run_id.as_str(), from, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        from = last.saturating_add(1);
        for (seq, stored) in page {
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => {
                    damaged += 1;
                    warn(&format!("record {seq} is left out: {error}"));
                    continue;
                }
            };
            if arguments.json {
                writeln!(out, "{}", stored.to_json())?;
                continue;
            }
            let record = stored.clone().into_record();
            note_call(&mut open_calls, &record.payload);
            writeln!(out, "{}", record_line(stored, run.started, 100))?;
            if arguments.full {
                for text in escape_control_chars(&describe(&record).1).lines() {
                    writeln!(out, "        | {text}")?;
                }
            }
        }
    }
    if !arguments.json {
        foot(&mut out, &run, &open_calls)?;
    }
    out.flush()?;
    anyhow::ensure!(damaged == 0, "{damaged} records are damaged; `midcourse verify` says more");
    Ok(())
}

fn head(out: &mut impl Write, store: &Store, run: &RunSummary) -> Result<()> {
    writeln!(out, "run      {}", one_line(run.run_id.as_str(), 200))?;
    if let Some(parent) = &run.parent_run_id {
        writeln!(out, "parent   {}", one_line(parent.as_str(), 200))?;
    }
    for child in store.children(run.run_id.as_str())? {
        writeln!(out, "child    {} ({} calls)", one_line(child.run_id.as_str(), 200), child.calls)?;
    }
    writeln!(out, "host     {}", one_line(&run.host, 80))?;
    writeln!(
        out,
        "time     {}, {}, ended: {}",
        local_time(run.started),
        duration(run.latest.since(run.started)),
        end(run)
    )?;
    writeln!(
        out,
        "counts   records {}, calls {}, errors {}, said {}\n",
        run.records, run.calls, run.errors, run.deliveries
    )?;
    Ok(())
}

/// A run without an end always opens, and says so.
fn foot(out: &mut impl Write, run: &RunSummary, open_calls: &[String]) -> Result<()> {
    if run.ended.is_some() {
        return Ok(());
    }
    writeln!(
        out,
        "\nNo end is on record: the run is still going, or it was cut off after record {} ({}).",
        run.records.saturating_sub(1),
        local_time(run.latest)
    )?;
    for call in open_calls {
        writeln!(out, "This call has no end: {}", one_line(call, 100))?;
    }
    Ok(())
}

/// Keeps the calls that have begun and not ended.
fn note_call(open_calls: &mut Vec<String>, payload: &TrajectoryPayload) {
    let name =
        |tool: &str| payload.call_id().map(|id| format!("{tool} ({id})")).unwrap_or_default();
    match payload {
        TrajectoryPayload::ToolStarted { tool_name, .. } => open_calls.push(name(tool_name)),
        TrajectoryPayload::ToolEnded { tool_name, .. }
        | TrajectoryPayload::Denied { tool_name, .. } => {
            let ended = name(tool_name);
            open_calls.retain(|open| *open != ended);
        }
        _ => {}
    }
}
