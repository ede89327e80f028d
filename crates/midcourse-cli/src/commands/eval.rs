//! `midcourse eval`: what is said in labelled scenarios, against what should be.

mod list;
mod score;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use crate::config::Config;
use crate::scenario::{Judgement, Scenario, judge, read_scenarios};
use anyhow::{Context as _, Result, bail, ensure};

use super::figures::percent;
use super::files;
use crate::terminal::warn;
use score::Score;

/// Which scenarios, how the answer is shown, and which line is to be held.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files with scenarios, or folders; folders are searched for files that end in `.txt`.
    #[arg(required = true, value_name = "FILES")]
    paths: Vec<PathBuf>,
    /// Judge with this configuration instead of the shipped one; see docs/configuration.md.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// List all scenarios, not only those in which something went wrong.
    #[arg(long)]
    all: bool,
    /// Print one JSON object a line: each scenario, then a summary.
    #[arg(long)]
    json: bool,
    /// Exit with 1 if fewer of the scenarios that expect a word got it in time.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    min_caught: Option<f64>,
    /// Exit with 1 if the word came too early in more scenarios.
    #[arg(long, value_name = "N")]
    max_early: Option<usize>,
    /// Exit with 1 if more of the quiet scenarios were spoken to.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    max_spoken: Option<f64>,
}

fn parse_percent(text: &str) -> Result<f64> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => bail!("it is no share in percent: give a number from 0 to 100"),
    }
}

/// A scenario, where it stands, and what came of it.
struct Judged {
    file: String,
    scenario: Scenario,
    judgement: Judgement,
}

/// Judges, tells, and returns whether every line that is to be held is.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::shipped()), Config::read)?;
    let judged: Vec<Judged> = read(&arguments.paths)?
        .into_iter()
        .map(|(file, scenario)| {
            let judgement = judge(&scenario, &mut config.engine());
            Judged { file, scenario, judgement }
        })
        .collect();
    ensure!(
        !judged.is_empty(),
        "there are no scenarios in these files: write `=== name` and a run"
    );
    let score = Score::of(&judged);
    // Whoever does not listen to the end still gets the verdict, by the exit code.
    match tell(arguments, &judged, &score) {
        Err(error) if !super::is_broken_pipe(&error) => return Err(error),
        _ => {}
    }
    let broken = broken_lines(arguments, &score);
    for line in &broken {
        warn(line);
    }
    Ok(broken.is_empty())
}

/// The scenarios of all files, each with its file. No two have one name.
fn read(paths: &[PathBuf]) -> Result<Vec<(String, Scenario)>> {
    let mut scenarios = Vec::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for path in files::find(paths, "txt")? {
        let file = path.display().to_string();
        let text =
            fs::read_to_string(&path).with_context(|| format!("{file} cannot be read as text"))?;
        let read = read_scenarios(&text);
        for scenario in
            read.map_err(|error| anyhow::anyhow!("{file}:{}: {}", error.line, error.problem))?
        {
            let place = format!("{file}:{}", scenario.line);
            if let Some(twin) = places.insert(scenario.name.clone(), place.clone()) {
                bail!("{place}: {twin} has a scenario {} too: rename one", scenario.name);
            }
            scenarios.push((file.clone(), scenario));
        }
    }
    Ok(scenarios)
}

fn tell(arguments: &Arguments, judged: &[Judged], score: &Score) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    if arguments.json {
        for one in judged {
            writeln!(out, "{}", list::line(one))?;
        }
        writeln!(out, "{}", score.summary())?;
    } else {
        score.print(&mut out)?;
        list::print(&mut out, judged, arguments.all)?;
    }
    Ok(out.flush()?)
}

/// What is to be held and is not.
fn broken_lines(arguments: &Arguments, score: &Score) -> Vec<String> {
    let mut broken = Vec::new();
    if let Some(min) = arguments.min_caught {
        match score.caught().map(percent) {
            // A yardstick that measures nothing must not pass for a good measure.
            None => broken.push("--min-caught: no scenario in these files expects a word".into()),
            Some(caught) if caught < min => {
                broken.push(format!("{caught:.1} % were caught in time, less than {min} %"));
            }
            Some(_) => {}
        }
    }
    if let Some(max) = arguments.max_early {
        if score.caught().is_none() {
            broken.push("--max-early: no scenario in these files expects a word".into());
        } else if score.too_early() > max {
            broken.push(format!("{} came too early, more than {max}", score.too_early()));
        }
    }
    if let Some(max) = arguments.max_spoken {
        match score.spoken().map(percent) {
            None => broken.push("--max-spoken: no scenario in these files is a quiet one".into()),
            Some(spoken) if spoken > max => broken
                .push(format!("{spoken:.1} % of the quiet ones were spoken to, more than {max} %")),
            Some(_) => {}
        }
    }
    broken
}
