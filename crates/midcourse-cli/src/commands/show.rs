//! `midcourse show`: prints one run, record by record.

use std::io::{Write, stdout};

use anyhow::Result;
use midcourse::{RunSummary, Store, TrajectoryPayload};

use super::list::{as_json, outcome};
use super::open;
use crate::display::{
    describe, duration, escape_control_chars, json_line, local_time, one_line, record_line,
};
use crate::terminal::warn;

/// Maximum number of records that are read from the store at once.
const PAGE: usize = 64;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Show this run (id, start of id, or `latest`).
    run: String,
    /// Show the full text of every record.
    #[arg(long)]
    full: bool,
    /// Print JSON lines: the run, then its records.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let mut run = open::find_run(&store, &arguments.run)?;
    open::add_open_calls(&store, &mut run)?;
    let mut out = std::io::BufWriter::new(stdout().lock());
    if arguments.json {
        writeln!(out, "{}", json_line(&as_json(&run)))?;
    } else {
        print_header(&mut out, &store, &run)?;
    }
    let mut open_calls = Vec::new();
    let mut from = 0;
    loop {
        let page = store.records_or_damage(run.run_id.as_str(), from, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        from = last.saturating_add(1);
        for (seq, stored) in page {
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => {
                    warn(&format!("skipped record {seq}: {error}"));
                    continue;
                }
            };
            if arguments.json {
                writeln!(out, "{}", json_line(&stored.to_json()))?;
                continue;
            }
            let failed = stored.failed;
            let record = stored.clone().into_record();
            update_open_calls(&mut open_calls, &record.payload);
            writeln!(out, "{}", record_line(stored, run.started, 100))?;
            if arguments.full {
                for text in escape_control_chars(&describe(&record, failed).1).lines() {
                    writeln!(out, "        | {text}")?;
                }
            }
        }
    }
    if !arguments.json {
        print_missing_end(&mut out, &run, &open_calls)?;
    }
    out.flush()?;
    let findings = store.verify_run(&run.run_id)?;
    open::report_damage(&findings)
}

fn print_header(out: &mut impl Write, store: &Store, run: &RunSummary) -> Result<()> {
    writeln!(out, "run      {}", one_line(run.run_id.as_str(), 200))?;
    if let Some(parent) = &run.parent_run_id {
        writeln!(out, "parent   {}", one_line(parent.as_str(), 200))?;
    }
    for mut child in store.children(run.run_id.as_str())? {
        open::add_open_calls(store, &mut child)?;
        writeln!(out, "child    {} ({} calls)", one_line(child.run_id.as_str(), 200), child.calls)?;
    }
    writeln!(out, "host     {}", one_line(&run.host, 80))?;
    writeln!(
        out,
        "time     {}, {}",
        local_time(run.started),
        duration(run.latest.since(run.started)),
    )?;
    writeln!(out, "outcome  {}", outcome(run))?;
    writeln!(
        out,
        "counts   records {}, calls {}, errors {}, messages {}\n",
        run.records, run.calls, run.errors, run.deliveries
    )?;
    Ok(())
}

/// If the run has no recorded end, prints that, and lists the tool calls that have no result.
fn print_missing_end(out: &mut impl Write, run: &RunSummary, open_calls: &[String]) -> Result<()> {
    if run.ended.is_some() {
        return Ok(());
    }
    writeln!(
        out,
        "\nNo end recorded: the run is still active, or it was killed after record {} ({}).",
        run.records.saturating_sub(1),
        local_time(run.latest)
    )?;
    for call in open_calls {
        writeln!(out, "Call without a result: {}", one_line(call, 100))?;
    }
    Ok(())
}

/// Updates the list of tool calls that have started and not ended: adds the call if the record is
/// the start of a call, and removes the call if the record is its end.
fn update_open_calls(open_calls: &mut Vec<String>, payload: &TrajectoryPayload) {
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
