//! `midcourse export`: writes a run to a file that other programs, or `midcourse import`, read, or sends
//! it to an OpenTelemetry endpoint.

mod atif;
mod jsonl;
mod otlp;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use indicatif::ProgressBar;
use midcourse::{Label, RunId, RunSummary, Store, StoredRecord};
use serde_json::{Value, json};

use super::open;
use super::source::StoreArguments;
use crate::formats::atif::Version;
use crate::terminal::{sanitized, warn};
pub(in crate::commands) use otlp::forget as forget_sent;

/// Maximum number of records that are read from the store at once.
const PAGE: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Trajectory records, one JSON object per line.
    Jsonl,
    /// The Agent Trajectory Interchange Format of Harbor, with all child runs (see docs/atif.md).
    Atif,
    /// OpenTelemetry spans, with all child runs, to an endpoint or a file (see docs/otlp.md).
    Otlp,
}

impl ValueEnum for Version {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::V1_7, Self::V1_8]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::V1_7 => "1.7",
            Self::V1_8 => "1.8",
        }))
    }
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Export this run (id, start or end of id, or `latest`).
    run: String,
    /// Write this format.
    #[arg(long, value_enum, default_value = "jsonl")]
    to: Target,
    /// Write this version of ATIF.
    #[arg(long, value_enum, value_name = "VERSION", default_value = "1.7")]
    atif: Version,
    /// Export its child runs too, at any depth; with `--to atif` and `--to otlp` always.
    #[arg(long)]
    tree: bool,
    /// Export damaged runs too, as far as they can be read, and mark them.
    #[arg(long)]
    damaged: bool,
    /// Write to this file instead of standard output.
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    otlp: otlp::Options,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut found = arguments.store.open()?;
    let run = found.find_run(&arguments.run)?;
    let store = found.store();
    let is_otlp = arguments.to == Target::Otlp;
    let endpoint = if is_otlp && arguments.output.is_none() {
        Some(otlp::Endpoint::find(&arguments.otlp)?)
    } else {
        None
    };
    let with_children = arguments.tree || arguments.to != Target::Jsonl;
    let mut runs = vec![run];
    let mut at = 0;
    while let Some(run) = runs.get(at).filter(|_| with_children) {
        let mut children = store.children(run.run_id.as_str())?;
        children.retain(|child| runs.iter().all(|run| run.run_id != child.run_id));
        runs.extend(children);
        at += 1;
    }
    let mut damaged = HashSet::new();
    for run in &runs {
        let findings = found.verify_run(&run.run_id)?;
        if let Some(finding) = findings.first() {
            anyhow::ensure!(
                arguments.damaged,
                "the run is damaged: {}; `midcourse verify` shows everything, and --damaged exports \
                 what can be read",
                sanitized(&finding.to_string())
            );
            damaged.insert(run.run_id.clone());
        }
    }
    let bar = open::progress(runs.iter().map(|run| run.records).sum(), "exporting");
    let mut source = RunSource { store, damaged, bar, unreadable: 0 };
    if let Some(endpoint) = endpoint {
        otlp::send(&mut source, &runs, &endpoint, &arguments.otlp)?;
        return source.finish();
    }
    let out: Box<dyn Write> = match &arguments.output {
        Some(path) => Box::new(
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
        ),
        None => Box::new(stdout().lock()),
    };
    let mut out = BufWriter::new(out);
    match arguments.to {
        Target::Jsonl => jsonl::write(&mut source, &runs, &mut out)?,
        Target::Atif => atif::write(&mut source, &runs, arguments.atif, &mut out)?,
        Target::Otlp => otlp::write(&mut source, &runs, &mut out)?,
    }
    out.flush()?;
    source.finish()
}

/// Reads the runs that are exported.
struct RunSource<'a> {
    store: &'a Store,
    /// Runs of which records may have been changed or lost.
    damaged: HashSet<RunId>,
    bar: ProgressBar,
    /// Number of records that could not be read.
    unreadable: u64,
}

impl RunSource<'_> {
    /// Calls `take` with each record of a run that can be read, in order, and with its labels. The
    /// label of the whole run goes with the first record. The records are read in pages of `PAGE`
    /// records, each in its own transaction, so that no transaction stays open while a slow program
    /// reads the output.
    fn for_each_record(
        &mut self,
        run: &RunSummary,
        mut take: impl FnMut(StoredRecord, Vec<&Label>) -> Result<()>,
    ) -> Result<()> {
        let labels = self.store.labels(&run.run_id)?;
        let mut from = 0;
        loop {
            let page = self.store.records_or_damage(run.run_id.as_str(), from, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = last.saturating_add(1);
            self.bar.inc(u64::try_from(page.len()).unwrap_or_default());
            for (seq, record) in page {
                match record {
                    Ok(record) => {
                        let is_here = |label: &&Label| label.seq.unwrap_or_default() == seq;
                        take(record, labels.iter().filter(is_here).collect())?;
                    }
                    Err(error) => {
                        self.unreadable += 1;
                        warn(&format!("skipped record {seq} of {}: {error}", run.run_id));
                    }
                }
            }
        }
    }

    /// Fails if records could not be read.
    fn finish(&self) -> Result<()> {
        self.bar.finish_and_clear();
        let unreadable = self.unreadable;
        anyhow::ensure!(
            unreadable == 0,
            "{unreadable} records are damaged; run `midcourse verify` for details"
        );
        Ok(())
    }

    fn is_damaged(&self, run: &RunSummary) -> bool {
        self.damaged.contains(&run.run_id)
    }
}

/// A record in the form in which `midcourse import` reads it without loss.
fn record_json(record: &StoredRecord, labels: &[&Label], is_damaged: bool) -> Value {
    let mut json = record.to_json();
    if let Some(fields) = json.as_object_mut() {
        if is_damaged {
            fields.insert("damaged".to_owned(), true.into());
        }
        if !labels.is_empty() {
            fields.insert("labels".to_owned(), json!(labels));
        }
    }
    json
}
