//! `midcourse verify`: checks that stored runs are complete and unchanged.

use std::io::{Write as _, stdout};

use anyhow::Result;
use midcourse::Finding;
use serde_json::json;

use super::{anchor, open};
use crate::display::{counted, one_line};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Check only this run (id, start or end of id, or `latest`).
    run: Option<String>,
    /// Compare with heads of runs that `midcourse anchor` wrote (a file, a URL, or `-`), or with a
    /// fleet (postgres://USER@HOST/DATABASE, with #PROJECT if it is not `default`).
    ///
    /// Finds runs that somebody has rewritten, shortened or deleted since then.
    #[arg(long, value_name = "FILE|URL|ADDRESS")]
    against: Option<String>,
    /// Print JSON lines: the problems, then a summary.
    #[arg(long)]
    json: bool,
}

/// Checks the runs, prints the problems, and returns true if there are none.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let store = match &arguments.against {
        // If somebody has removed the store, every run is reported as missing.
        Some(_) => match open::existing()? {
            Some(store) => store,
            None => open::to_write()?,
        },
        None => open::to_read()?,
    };
    let read = |place: &String| anchor::read(place, &store);
    let heads = arguments.against.as_ref().map(read).transpose()?.unwrap_or_default();
    let mut findings = Vec::new();
    let runs = match &arguments.run {
        Some(run) => vec![open::find_run(&store, run)?],
        None => {
            findings.extend(store.verify_file()?);
            findings.extend(anchor::missing_runs(&store, &heads)?);
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
    let without_end = runs.iter().filter(|run| run.ended.is_none()).count();
    let bar = open::progress(records, "verifying");
    for run in &runs {
        findings.extend(
            store.verify_run_against(
                &run.run_id,
                heads.get(&run.run_id).map_or(&[], Vec::as_slice),
            )?,
        );
        bar.inc(run.records);
    }
    bar.finish_and_clear();
    // The program that reads the output may close the pipe early, as `head` does. Ignore this
    // error: the exit code must still say whether there are problems.
    let compared = runs.iter().filter(|run| heads.contains_key(&run.run_id)).count();
    match print(arguments, &findings, runs.len(), records, without_end, compared) {
        Err(error) if !super::is_broken_pipe(&error) => Err(error),
        _ => Ok(findings.is_empty()),
    }
}

fn print(
    arguments: &Arguments,
    findings: &[Finding],
    runs: usize,
    records: u64,
    without_end: usize,
    compared: usize,
) -> Result<()> {
    let mut out = stdout().lock();
    if arguments.json {
        for Finding { run_id, description } in findings {
            writeln!(
                out,
                "{}",
                json!({"type": "problem", "run_id": run_id, "problem": description})
            )?;
        }
        let mut summary = json!({"type": "summary", "runs": runs, "records": records,
                                 "runs_without_end": without_end, "problems": findings.len()});
        if let (Some(_), Some(fields)) = (&arguments.against, summary.as_object_mut()) {
            fields.insert("compared".to_owned(), compared.into());
        }
        writeln!(out, "{summary}")?;
        return Ok(());
    }
    for finding in findings {
        writeln!(out, "{}", one_line(&finding.to_string(), 500))?;
    }
    let problems = match findings.len() {
        0 => "no problems".to_owned(),
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    write!(out, "{}, {}: {problems}.", counted(runs, "run"), counted(records, "record"))?;
    if let Some(place) = &arguments.against {
        let (compared, place) = (counted(compared, "run"), one_line(place, 200));
        write!(out, " Compared {compared} with {place}.")?;
    }
    if without_end > 0 {
        write!(out, " Runs without a recorded end: {without_end}.")?;
    }
    writeln!(out)?;
    Ok(())
}
