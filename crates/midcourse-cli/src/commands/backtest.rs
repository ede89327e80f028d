//! `midcourse backtest`: replays finished runs from files and shows which messages midcourse would
//! have delivered. With `--against`, compares two configurations.

mod comparison;
mod pipeline;
mod source_stats;
mod summary;

use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::step_json::{Position, step_lines};
use super::{input_files, open};
use crate::backtest::BacktestReport;
use crate::config::Config;
use crate::terminal::warn;
use comparison::Comparison;
use summary::Summary;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Read these files or directories (`*.jsonl`).
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Use this configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Compare with a second configuration file.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::shipped()), Config::read)?;
    let against = arguments.against.as_deref().map(Config::read).transpose()?;
    let configs = pipeline::Configs { config: &config, against: against.as_ref() };
    let files = input_files::find_files(&arguments.paths, "jsonl")?;
    let bytes: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|m| m.len()).sum();
    let bar = open::progress(bytes, "backtesting");
    let mut out = BufWriter::new(stdout().lock());
    let (mut summary, mut invalid_lines) = (Summary::default(), 0_u64);
    let names = arguments.config_names();
    let mut comparison = names.clone().map(Comparison::new);
    let (name, against_name) = names.unzip();
    pipeline::for_each_run(&files, configs, |result| {
        let pipeline::RunResult { report, against, bytes } = result;
        bar.inc(bytes);
        invalid_lines += u64::from(report.parse_error.is_some());
        if report.events == 0 && report.parse_error.is_some() {
            return Ok(());
        }
        summary.add(&report);
        if arguments.json {
            print_lines(&mut out, &report, name.as_deref())?;
        }
        if let (Some(comparison), Some(against)) = (&mut comparison, against) {
            let difference = comparison.add(&report, &against);
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
    ensure!(
        summary.runs() > 0,
        "these files contain no runs; expected the `events` format, one run per line (see \
         docs/measuring.md)"
    );
    if invalid_lines > 0 {
        let lines = if invalid_lines == 1 { "line" } else { "lines" };
        warn(&format!(
            "{invalid_lines} {lines} with invalid JSON; used what comes before the error"
        ));
    }
    match (&comparison, arguments.json) {
        (None, false) => summary.print(&mut out)?,
        (Some(comparison), false) => comparison.print(&mut out, &summary)?,
        (_, true) => {
            writeln!(out, "{}", with_config(summary.line(invalid_lines), name.as_deref()))?;
            if let Some(comparison) = &comparison {
                let line = comparison.against().line(invalid_lines);
                writeln!(out, "{}", with_config(line, against_name.as_deref()))?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Arguments {
    /// The names of the two configurations that are compared; `None` without `--against`.
    fn config_names(&self) -> Option<(String, String)> {
        let against = self.against.as_deref()?.display().to_string();
        let config = self.config.as_deref().map(|path| path.display().to_string());
        Some((config.unwrap_or_else(|| "defaults".to_owned()), against))
    }
}

/// Adds the name of a configuration to a JSON line. `config` is `None` if there is only one
/// configuration, so that the name is not needed.
fn with_config(mut line: Value, config: Option<&str>) -> Value {
    if let (Some(config), Value::Object(line)) = (config, &mut line) {
        line.insert("config".to_owned(), config.into());
    }
    line
}

/// Prints the JSON lines for a run: one for each pattern, message and so on that the engine
/// returned, then one that sums up the run.
fn print_lines(out: &mut impl Write, report: &BacktestReport, config: Option<&str>) -> Result<()> {
    for step in &report.steps {
        let position = Position {
            run_id: Some(&report.run_id),
            event: Some(step.event),
            seq: step.seq,
            at: Some(step.at),
            call: step.call,
        };
        for line in step_lines(position, &step.step) {
            writeln!(out, "{}", with_config(line, config))?;
        }
    }
    writeln!(out, "{}", with_config(run_line(report), config))?;
    Ok(())
}

fn run_line(report: &BacktestReport) -> Value {
    let after = report.after_first_delivery();
    json!({
        "type": "run", "run_id": report.run_id, "source": report.source,
        "success": report.success, "events": report.events, "calls": report.calls,
        "errors": report.errors, "seconds": report.duration.as_secs_f64(),
        "deliveries": report.deliveries().count(),
        "first_delivery_call": report.first_delivery().map(|first| first.call),
        "calls_after_first_delivery": after.map(|(calls, _)| calls),
        "seconds_after_first_delivery": after.map(|(_, time)| time.as_secs_f64()),
        "skipped_events": report.skipped_events, "parse_error": report.parse_error,
    })
}
