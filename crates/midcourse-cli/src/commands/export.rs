//! `midcourse export`: writes a run as JSON lines that `midcourse import` reads.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use midcourse::{Label, Store};

use super::open;
use crate::display::json_line;
use crate::terminal::{sanitized, warn};

/// Maximum number of records that are read from the store at once.
const PAGE: usize = 64;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Export this run (id, start or end of id, or `latest`).
    run: String,
    /// Export its child runs too, at any depth.
    #[arg(long)]
    tree: bool,
    /// Export damaged runs too, as far as they can be read, and mark their records.
    #[arg(long)]
    damaged: bool,
    /// Write to this file instead of standard output.
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let run = open::find_run(&store, &arguments.run)?;
    let mut runs = vec![run];
    let mut at = 0;
    while let Some(run) = runs.get(at).filter(|_| arguments.tree) {
        let mut children = store.children(run.run_id.as_str())?;
        children.retain(|child| runs.iter().all(|run| run.run_id != child.run_id));
        runs.extend(children);
        at += 1;
    }
    let mut damaged_runs = HashSet::new();
    for run in &runs {
        let findings = store.verify_run(&run.run_id)?;
        if let Some(finding) = findings.first() {
            anyhow::ensure!(
                arguments.damaged,
                "the run is damaged: {}; `midcourse verify` shows everything, and --damaged exports \
                 what can be read",
                sanitized(&finding.to_string())
            );
            damaged_runs.insert(run.run_id.clone());
        }
    }
    let bar = open::progress(runs.iter().map(|run| run.records).sum(), "exporting");
    let mut out: Box<dyn Write> = match &arguments.output {
        Some(path) => Box::new(
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
        ),
        None => Box::new(stdout().lock()),
    };
    let mut out = BufWriter::new(&mut out);
    let mut damaged = 0;
    for run in &runs {
        let is_damaged = damaged_runs.contains(&run.run_id);
        let run_id = run.run_id.as_str();
        damaged += write_run(&store, run_id, is_damaged, &mut out, |count| bar.inc(count))?;
    }
    out.flush()?;
    bar.finish_and_clear();
    anyhow::ensure!(
        damaged == 0,
        "{damaged} records are damaged; run `midcourse verify` for details"
    );
    Ok(())
}

/// Writes one run and returns how many of its records are damaged and could not be read. If
/// `is_damaged`, all its records are marked: some may have been changed. The
/// records are read in pages of `PAGE` records, each in its own transaction, so that no transaction
/// stays open while a slow program reads the output.
fn write_run(
    store: &Store,
    run_id: &str,
    is_damaged: bool,
    out: &mut impl Write,
    progress: impl Fn(u64),
) -> Result<u64> {
    let (mut from, mut damaged) = (0, 0);
    let labels = store.labels(&run_id.into())?;
    loop {
        let page = store.records_or_damage(run_id, from, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(damaged) };
        from = last.saturating_add(1);
        progress(u64::try_from(page.len()).unwrap_or_default());
        for (seq, record) in page {
            match record {
                Ok(record) => {
                    let mut json = record.to_json();
                    if let Some(fields) = json.as_object_mut() {
                        if is_damaged {
                            fields.insert("damaged".to_owned(), true.into());
                        }
                        // The label of the whole run goes with the first record.
                        let is_here = |label: &&Label| label.seq.unwrap_or_default() == seq;
                        let labels: Vec<&Label> = labels.iter().filter(is_here).collect();
                        if !labels.is_empty() {
                            fields.insert("labels".to_owned(), serde_json::to_value(labels)?);
                        }
                    }
                    writeln!(out, "{}", json_line(&json))?;
                }
                Err(error) => {
                    damaged += 1;
                    warn(&format!("skipped record {seq} of {run_id}: {error}"));
                }
            }
        }
    }
}
