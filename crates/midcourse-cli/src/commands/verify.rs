//! `midcourse verify`: whether what is stored is what was recorded.

use std::io::{Write as _, stdout};

use anyhow::Result;
use midcourse::Finding;
use serde_json::json;

use super::open;
use crate::display::one_line;

/// What is checked.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Only this run: its id, the beginning of its id, or `latest`.
    run: Option<String>,
    /// Print one JSON object a line: the findings, then a summary.
    #[arg(long)]
    json: bool,
}

/// Checks, tells, and returns whether all is well.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let store = open::to_read()?;
    let mut findings = Vec::new();
    let runs = match &arguments.run {
        Some(meant) => vec![open::find_run(&store, meant)?],
        None => {
            findings.extend(store.verify_file()?);
            match store.runs(usize::MAX) {
                Ok(runs) => runs,
                Err(error) if open::is_damage(&error) => {
                    findings.push(Finding { run_id: None, description: error.to_string() });
                    Vec::new()
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    let records: u64 = runs.iter().map(|run| run.records).sum();
    let unended = runs.iter().filter(|run| run.ended.is_none()).count();
    let bar = open::progress(records, "verifying");
    for run in &runs {
        findings.extend(store.verify_run(&run.run_id)?);
        bar.inc(run.records);
    }
    bar.finish_and_clear();
    // Whoever does not listen to the end still gets the verdict, by the exit code.
    match tell(arguments, &findings, runs.len(), records, unended) {
        Err(error) if !super::is_broken_pipe(&error) => Err(error),
        _ => Ok(findings.is_empty()),
    }
}

fn tell(
    arguments: &Arguments,
    findings: &[Finding],
    runs: usize,
    records: u64,
    unended: usize,
) -> Result<()> {
    let mut out = stdout().lock();
    if arguments.json {
        for Finding { run_id, description: what } in findings {
            writeln!(out, "{}", json!({"type": "finding", "run_id": run_id, "what": what}))?;
        }
        let summary = json!({"type": "summary", "runs": runs, "records": records,
                             "unended": unended, "findings": findings.len()});
        writeln!(out, "{summary}")?;
        return Ok(());
    }
    for finding in findings {
        writeln!(out, "{}", one_line(&finding.to_string(), 500))?;
    }
    let found = match findings.len() {
        0 => "all whole".to_owned(),
        1 => "one finding".to_owned(),
        more => format!("{more} findings"),
    };
    write!(out, "{runs} runs, {records} records: {found}.")?;
    if unended > 0 {
        write!(out, " {unended} without an end on record.")?;
    }
    writeln!(out)?;
    Ok(())
}
