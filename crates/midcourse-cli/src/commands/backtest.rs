//! `midcourse backtest`: replays finished runs and shows which messages midcourse would have
//! delivered. Reads the sessions of the agents on this machine, session files, or runs of the
//! store. With `--against`, compares two configurations.

mod comparison;
mod input;
mod overview;
mod pipeline;
mod source_stats;
mod summary;

use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::import::{FormatChoice, format_help, parse_format};
use super::step_json::{Position, step_lines};
use super::{open, screen};
use crate::backtest::BacktestReport;
use crate::config::Config;
use crate::session_format::ReadError;
use crate::terminal::warn;
use comparison::Comparison;
use overview::Overview;
use pipeline::{PartResult, RunResult};
use summary::Summary;

/// Maximum number of problems in files for which a warning is printed.
const MAX_SHOWN_PROBLEMS: usize = 5;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Replay session files, directories of them, or stored runs; without: the sessions of the
    /// agents on this machine.
    #[arg(value_name = "PATH|RUN")]
    inputs: Vec<String>,
    /// Replay all runs of the store.
    #[arg(long)]
    store: bool,
    /// Read files of this format; `auto` recognises it.
    #[arg(long, default_value = "auto", value_parser = parse_format, long_help = format_help())]
    format: FormatChoice,
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

/// What is added up over all runs.
struct Total {
    summary: Summary,
    overview: Overview,
    comparison: Option<Comparison>,
    invalid_lines: u64,
    /// Files that contain runs.
    files: u64,
    unrecognised: Vec<PathBuf>,
    problems: usize,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::shipped()), Config::read)?;
    let against = arguments.against.as_deref().map(Config::read).transpose()?;
    let configs = pipeline::Configs { config: &config, against: against.as_ref() };
    let inputs = input::find(&arguments.inputs, arguments.store, arguments.format.0)?;
    let bar = open::progress(inputs.bytes(), "backtesting");
    let mut out = BufWriter::new(stdout().lock());
    let names = arguments.config_names();
    let mut total = Total {
        summary: Summary::default(),
        overview: Overview::default(),
        comparison: names.clone().map(Comparison::new),
        invalid_lines: 0,
        files: 0,
        unrecognised: Vec::new(),
        problems: 0,
    };
    let (name, against_name) = names.unzip();
    pipeline::for_each_part(&inputs.list, configs, inputs.data_dir.as_ref(), |part| {
        bar.inc(part.bytes);
        let is_only_run = part.runs.len() == 1 && part.file.is_some();
        let path = part.path.clone();
        for RunResult { report, against } in total.add_part(part)? {
            if arguments.json {
                print_lines(&mut out, &report, name.as_deref())?;
            }
            let difference = total.add(&report, against.as_ref(), path.as_deref(), is_only_run);
            if let Some(against) = against.filter(|_| arguments.json) {
                print_lines(&mut out, &against, against_name.as_deref())?;
                if let Some(difference) = difference {
                    writeln!(out, "{difference}")?;
                }
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    total.check(&inputs)?;
    let Total { summary, overview, comparison, invalid_lines, .. } = &total;
    match (comparison, arguments.json) {
        (None, false) => {
            overview.print(&mut out, &inputs.without_sessions, screen::width())?;
            if summary.knows_success() {
                writeln!(out)?;
                summary.print(&mut out)?;
            }
            if arguments.inputs.is_empty() && !arguments.store {
                writeln!(out)?;
                overview::print_paragraph(&mut out, input::NEXT_STEPS, screen::width())?;
            }
        }
        (Some(comparison), false) => comparison.print(&mut out, summary)?,
        (_, true) => {
            writeln!(out, "{}", with_config(summary.line(*invalid_lines), name.as_deref()))?;
            if let Some(comparison) = comparison {
                let line = comparison.against().line(*invalid_lines);
                writeln!(out, "{}", with_config(line, against_name.as_deref()))?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Total {
    /// Notes what was read from a part of the input. Returns its runs that have events.
    fn add_part(&mut self, part: PartResult) -> Result<Vec<RunResult>> {
        let name = part.path.as_deref().map(|path| path.display().to_string());
        let name = name.unwrap_or_else(|| "the store".to_owned());
        match part.file {
            Some(Err(ReadError::UnknownFormat | ReadError::Empty)) if part.is_in_directory => {
                self.unrecognised.extend(part.path);
            }
            Some(Err(error)) => bail!("{name}: {error}"),
            Some(Ok(report)) => {
                self.files += 1;
                self.invalid_lines += report.counts.total().invalid;
                for (line, problem) in &report.problems {
                    self.problems += 1;
                    if self.problems <= MAX_SHOWN_PROBLEMS {
                        warn(&format!("{name}:{line}: {problem}"));
                    }
                }
            }
            None => {}
        }
        let mut runs = part.runs;
        let torn = |run: &RunResult| run.report.parse_error.is_some();
        self.invalid_lines += u64::try_from(runs.iter().filter(|run| torn(run)).count())?;
        runs.retain(|run| run.report.events > 0 || !torn(run));
        Ok(runs)
    }

    /// Adds a run. Returns a JSON line about the first difference between the two configurations.
    fn add(
        &mut self,
        report: &BacktestReport,
        against: Option<&BacktestReport>,
        path: Option<&std::path::Path>,
        is_only_run: bool,
    ) -> Option<Value> {
        self.summary.add(report);
        self.overview.add(report, path.map(|path| (path, is_only_run)));
        self.comparison.as_mut().zip(against).and_then(|(all, against)| all.add(report, against))
    }

    /// Checks that there were runs, and warns about what was left out.
    fn check(&self, inputs: &input::Inputs) -> Result<()> {
        if let (Some(first), 0) = (self.unrecognised.first(), self.summary.runs()) {
            bail!(
                "{}: {}",
                first.display(),
                if self.unrecognised.len() == 1 {
                    ReadError::UnknownFormat.to_string()
                } else {
                    format!(
                        "{} (and {} other files)",
                        ReadError::UnknownFormat,
                        self.unrecognised.len() - 1
                    )
                }
            );
        }
        ensure!(self.summary.runs() > 0, "{}", inputs.nothing_found());
        if self.invalid_lines > 0 {
            let lines = if self.invalid_lines == 1 { "line" } else { "lines" };
            warn(&format!(
                "{} {lines} with invalid JSON; used what comes before the error",
                self.invalid_lines
            ));
        }
        if let (Some(first), true) = (self.unrecognised.first(), inputs.are_named) {
            warn(&format!(
                "left out {} files whose format is not known, such as {}",
                self.unrecognised.len(),
                first.display()
            ));
        }
        Ok(())
    }
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
        "parent_run_id": report.parent_run_id,
        "work_seconds": report.spent.time.as_secs_f64(), "tokens": report.spent.tokens,
        "work_seconds_after_problem": report.after_problem.map(|after| after.time.as_secs_f64()),
        "tokens_after_problem": report.after_problem.map(|after| after.tokens),
    })
}
