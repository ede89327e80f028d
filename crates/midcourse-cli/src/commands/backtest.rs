//! `midcourse backtest`: what would have been said about runs that are over.

mod compare;
mod lines;
mod table;
mod tally;

use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use crate::backtest::{Spoken, Verdict};
use crate::config::Config;
use anyhow::{Result, ensure};
use midcourse::Delivery;
use serde_json::{Value, json};

use super::{files, open};
use crate::terminal::warn;
use compare::Comparison;
use table::Table;

/// Which runs, and how the answer is shown.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files or folders with runs; folders are searched for files that end in `.jsonl`.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The format of the files.
    #[arg(long, value_enum, default_value = "events")]
    format: lines::Format,
    /// Judge with this configuration instead of the shipped one; see docs/configuration.md.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Judge every run with this configuration too, and show both beside each other and the runs in
    /// which they differ.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Print one JSON object a line: what would have been said, then the run, for each run; then a
    /// summary. With `--against` each line names its configuration, a run in which the two differ has
    /// a line about that, and there are two summaries.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let lines::Format::Events = arguments.format;
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::shipped()), Config::read)?;
    let against = arguments.against.as_deref().map(Config::read).transpose()?;
    let judges = lines::Judges { config: &config, against: against.as_ref() };
    let files = files::find(&arguments.paths, "jsonl")?;
    let bytes: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|m| m.len()).sum();
    let bar = open::progress(bytes, "backtesting");
    let mut out = BufWriter::new(stdout().lock());
    let (mut table, mut torn) = (Table::default(), 0_u64);
    let names = arguments.names();
    let mut comparison = names.clone().map(Comparison::new);
    let (name, against_name) = names.unzip();
    lines::each_verdict(&files, judges, |judged| {
        let lines::Judged { verdict, against, bytes } = judged;
        bar.inc(bytes);
        torn += u64::from(verdict.torn.is_some());
        if verdict.events == 0 && verdict.torn.is_some() {
            return Ok(());
        }
        table.add(&verdict);
        if arguments.json {
            print_lines(&mut out, &verdict, name.as_deref())?;
        }
        if let (Some(comparison), Some(against)) = (&mut comparison, against) {
            let difference = comparison.add(&verdict, &against);
            if arguments.json {
                print_lines(&mut out, &against, against_name.as_deref())?;
                if let Some(difference) = difference {
                    writeln!(out, "{difference}")?;
                }
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    ensure!(table.runs() > 0, "there are no runs in these files: give `events`, one run a line");
    if torn > 0 {
        let lines = if torn == 1 { "line is" } else { "lines are" };
        warn(&format!("{torn} {lines} torn or foreign; read as far as that goes"));
    }
    match (&comparison, arguments.json) {
        (None, false) => table.print(&mut out)?,
        (Some(comparison), false) => comparison.print(&mut out, &table)?,
        (_, true) => {
            writeln!(out, "{}", of_config(table.summary(torn), name.as_deref()))?;
            if let Some(comparison) = &comparison {
                let summary = comparison.against().summary(torn);
                writeln!(out, "{}", of_config(summary, against_name.as_deref()))?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Arguments {
    /// How the two configurations are called, if there are two.
    fn names(&self) -> Option<(String, String)> {
        let against = self.against.as_deref()?.display().to_string();
        let config = self.config.as_deref().map(|path| path.display().to_string());
        Some((config.unwrap_or_else(|| "shipped".to_owned()), against))
    }
}

/// A line that says which configuration it is about, where there are two.
fn of_config(mut line: Value, config: Option<&str>) -> Value {
    if let (Some(config), Value::Object(line)) = (config, &mut line) {
        line.insert("config".to_owned(), config.into());
    }
    line
}

/// What would have been said in a run, then the run.
fn print_lines(out: &mut impl Write, verdict: &Verdict, config: Option<&str>) -> Result<()> {
    for spoken in &verdict.spoken {
        writeln!(out, "{}", of_config(delivery_line(verdict, spoken), config))?;
    }
    writeln!(out, "{}", of_config(run_line(verdict), config))?;
    Ok(())
}

fn delivery_line(verdict: &Verdict, spoken: &Spoken) -> Value {
    let (kind, confidence) = match &spoken.delivery {
        Delivery::Feedback { .. } => ("feedback", None),
        Delivery::Guidance(guidance) => ("guidance", Some(guidance.classification.confidence())),
    };
    let why = spoken.delivery.why();
    json!({
        "type": "delivery", "run_id": verdict.run_id, "call": spoken.call, "event": spoken.event,
        "seq": spoken.seq, "point": spoken.point, "kind": kind,
        "provider": spoken.delivery.provider(), "pattern": why.map(|why| why.cause.kind()),
        "rung": why.map_or(1, |why| why.rung.0), "confidence": confidence,
        "text": spoken.delivery.text(),
        "evidence": why.map(|why| why.evidence.clone()).unwrap_or_default(), "stop": false,
    })
}

fn run_line(verdict: &Verdict) -> Value {
    let after = verdict.after_first_word();
    json!({
        "type": "run", "run_id": verdict.run_id, "source": verdict.source,
        "success": verdict.success, "events": verdict.events, "calls": verdict.calls,
        "errors": verdict.errors, "seconds": verdict.length.as_secs_f64(),
        "deliveries": verdict.spoken.len(),
        "first_call": verdict.spoken.first().map(|spoken| spoken.call),
        "calls_after": after.map(|(calls, _)| calls),
        "seconds_after": after.map(|(_, time)| time.as_secs_f64()),
        "unread": verdict.unread, "torn": verdict.torn,
    })
}
