//! `midcourse eval`: replays labelled scenarios (short runs with an expected message, or none) and
//! counts how often midcourse delivers the messages as expected. With `--labels`, replays stored
//! runs instead and compares the messages with what a person said about them ([`labels`]).

mod calibration;
mod label_score;
mod label_verdicts;
mod labels;
mod scenario_list;
mod score;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::input_files::find_files;
use super::stats::percent;
use crate::config::Config;
use crate::scenario::{Scenario, ScenarioResult, evaluate, parse_scenarios};
use crate::terminal::warn;
use score::Score;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Read these files or directories (`*.txt`). With `--labels`: only these runs.
    #[arg(required_unless_present = "labels", value_name = "PATH|RUN")]
    paths: Vec<PathBuf>,
    /// Replay the runs that you labelled with `midcourse label`, and compare the messages.
    #[arg(long, conflicts_with_all = ["calibration", "max_early"])]
    labels: bool,
    /// Use this configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// List all scenarios or labels, not only unexpected results.
    #[arg(long)]
    all: bool,
    /// Print how often messages were right, by stated confidence.
    #[arg(long)]
    calibration: bool,
    /// Print JSON lines: each scenario or label, then a summary.
    #[arg(long)]
    json: bool,
    /// Fail if fewer expected messages come in time.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    min_caught: Option<f64>,
    /// Fail if more messages than this come too early.
    #[arg(long, value_name = "N")]
    max_early: Option<usize>,
    /// Fail if more quiet scenarios, or quiet places of labelled runs, get a message.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    max_false_alarms: Option<f64>,
}

fn parse_percent(text: &str) -> Result<f64> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => bail!("invalid percentage `{text}`; use a number from 0 to 100"),
    }
}

struct Evaluated {
    file: String,
    scenario: Scenario,
    result: ScenarioResult,
}

/// Evaluates all scenarios and prints the results. Returns whether the results meet the thresholds
/// given as options, such as `--min-caught`.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    if arguments.labels {
        return labels::run(arguments);
    }
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::shipped()), Config::read)?;
    let evaluated: Vec<Evaluated> = read_files(&arguments.paths)?
        .into_iter()
        .map(|(file, scenario)| {
            let result = evaluate(&scenario, &mut config.engine());
            Evaluated { file, scenario, result }
        })
        .collect();
    ensure!(
        !evaluated.is_empty(),
        "these files contain no scenarios; write `=== its-name`, an `expect:` line and a run (see \
         docs/scenarios.md)"
    );
    let score = Score::of(&evaluated);
    // The program that reads the output may close the pipe early, as `head` does. Ignore this
    // error: the exit code must still say whether the thresholds are met.
    match print(arguments, &evaluated, &score) {
        Err(error) if !super::is_broken_pipe(&error) => return Err(error),
        _ => {}
    }
    let failures = failed_thresholds(arguments, &score);
    for failure in &failures {
        warn(failure);
    }
    Ok(failures.is_empty())
}

/// Reads all scenarios, each with the name of the file that contains it.
fn read_files(paths: &[PathBuf]) -> Result<Vec<(String, Scenario)>> {
    let mut scenarios = Vec::new();
    let mut positions: BTreeMap<String, String> = BTreeMap::new();
    for path in find_files(paths, "txt")? {
        let file = path.display().to_string();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
        let parsed = parse_scenarios(&text)
            .map_err(|error| anyhow!("{file}:{}: {}", error.line, error.problem))?;
        for scenario in parsed {
            let position = format!("{file}:{}", scenario.line);
            if let Some(other) = positions.insert(scenario.name.clone(), position.clone()) {
                bail!("{position}: {other} has a scenario `{}` too; rename one", scenario.name);
            }
            scenarios.push((file.clone(), scenario));
        }
    }
    Ok(scenarios)
}

fn print(arguments: &Arguments, evaluated: &[Evaluated], score: &Score) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    if arguments.json {
        for one in evaluated {
            writeln!(out, "{}", scenario_list::line(one))?;
        }
        writeln!(out, "{}", score.line())?;
    } else {
        score.print(&mut out)?;
        if arguments.calibration {
            calibration::print(&mut out, evaluated)?;
        }
        scenario_list::print(&mut out, evaluated, arguments.all)?;
    }
    Ok(out.flush()?)
}

/// Describes each threshold that is not met. A threshold is also not met if the files contain no
/// scenario for it. For example, `--min-caught` needs a scenario that expects a message.
fn failed_thresholds(arguments: &Arguments, score: &Score) -> Vec<String> {
    let mut failures = Vec::new();
    let no_message = "no scenario in these files expects a message";
    if let Some(min) = arguments.min_caught {
        match score.caught().map(percent) {
            None => failures.push(format!("--min-caught: {no_message}")),
            Some(caught) if caught < min => failures.push(format!(
                "--min-caught: {caught:.1} % were caught in time, less than {min} %"
            )),
            Some(_) => {}
        }
    }
    if let Some(max) = arguments.max_early {
        if score.caught().is_none() {
            failures.push(format!("--max-early: {no_message}"));
        } else if score.too_early() > max {
            let early = score.too_early();
            failures.push(format!("--max-early: {early} came too early, more than {max}"));
        }
    }
    if let Some(max) = arguments.max_false_alarms {
        match score.false_alarms().map(percent) {
            None => failures.push(
                "--max-false-alarms: no scenario in these files expects to stay quiet".to_owned(),
            ),
            Some(share) if share > max => failures.push(format!(
                "--max-false-alarms: {share:.1} % of the quiet scenarios got a message, more than \
                 {max} %"
            )),
            Some(_) => {}
        }
    }
    failures
}
