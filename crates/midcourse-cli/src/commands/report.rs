//! `midcourse report`: reports how a run went, or how all runs of a period went.
//!
//! The report of one run reads its records once, in pages, and replays them through the engine. The
//! first line needs only the run's row, so it is printed before the records are read.

pub(crate) mod clock;
pub(crate) mod collect;
pub(crate) mod data;
mod effect;
pub(crate) mod headline;
pub(crate) mod html;
mod many;
mod many_text;
mod pass;
pub(crate) mod prices;
mod strip;
pub(crate) mod text;
pub(crate) mod words;

use std::io::{BufWriter, Write as _, stdout};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use midcourse::{Period, Timestamp, now};

use super::open;
use super::refresh::Outdated;
use super::run_filter::{self, parse_since};
use super::screen::{self, Painter};
use super::source::{Source, StoreArguments};
use crate::config;
use crate::display::json_line;
use prices::Prices;
use text::Layout;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Report this run (id, start of id, or `latest`); by default the last run that a person
    /// started.
    #[arg(conflicts_with = "since")]
    run: Option<String>,
    /// Report all runs since then: an age such as `7d` or `12h`, a date, or a date and time.
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    since: Option<Timestamp>,
    /// Leave out runs that started at this time or later.
    #[arg(long, value_name = "WHEN", value_parser = parse_since, requires = "since")]
    until: Option<Timestamp>,
    /// Report only runs in this folder or below it.
    #[arg(long, value_name = "FOLDER", requires = "since")]
    project: Option<PathBuf>,
    /// Report only runs of this agent, such as `claude-code`.
    #[arg(long, value_name = "NAME", requires = "since")]
    host: Option<String>,
    /// Report whether messages help: compare them with those that an experiment withheld.
    #[arg(long, conflicts_with_all = ["run", "since", "html"])]
    effect: bool,
    /// Write a page to this file (`-`: standard output); by default midcourse-RUN.html.
    #[arg(long, value_name = "FILE", num_args = 0..=1,
          conflicts_with_all = ["json", "since"])]
    html: Option<Option<PathBuf>>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArguments,
}

/// The columns of a report that does not go to a terminal.
const DEFAULT_WIDTH: usize = 100;

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut source = arguments.store.open()?;
    source.refresh(Outdated::Wrong);
    if arguments.effect {
        source.prepare_period(Timestamp::default(), Timestamp::from_unix_ms(u64::MAX >> 1))?;
        return effect::print(source.store(), &layout(), arguments.json);
    }
    if let Some(since) = arguments.since {
        return report_period(&mut source, since, arguments);
    }
    let run = source.find_run(arguments.run.as_deref().unwrap_or("latest"))?;
    let store = source.store();
    let prices = Prices::new(config::users_prices(store.data_dir()));
    let is_text = arguments.html.is_none() && !arguments.json;
    let mut out = BufWriter::new(stdout().lock());
    if is_text {
        text::print_opening(&mut out, &headline::Ending::of_run(&run), &layout())?;
        out.flush()?;
    }
    let run_id = run.run_id.clone();
    let parts = collect::family(store, run)?;
    let report = collect::collect(store, parts, &prices)?.context("the run has no records")?;
    if arguments.json {
        writeln!(out, "{}", json_line(&serde_json::to_value(&report)?))?;
    } else if let Some(file) = &arguments.html {
        drop(out);
        html::write(store, &report, file.as_deref())?;
        return open::report_damage(&source.verify_run(&run_id)?);
    } else {
        text::print(&mut out, &report, &layout())?;
    }
    out.flush()?;
    open::report_damage(&source.verify_run(&run_id)?)
}

fn report_period(source: &mut Source, since: Timestamp, arguments: &Arguments) -> Result<()> {
    // A run that has just started counts too.
    let until = arguments.until.unwrap_or_else(|| Timestamp::from_unix_ms(u64::MAX >> 1));
    let project = arguments.project.as_deref().map(run_filter::folder).transpose()?;
    let period = Period { since, until, host: arguments.host.clone(), project };
    source.prepare_period(since, until)?;
    let mut out = BufWriter::new(stdout().lock());
    let layout = layout();
    let store = source.store();
    if !arguments.json {
        let runs = store.period_count(&period)?;
        many_text::print_opening(&mut out, &period, runs, &layout)?;
        out.flush()?;
    }
    source.refresh(Outdated::WrongOrNotAnalysed);
    let prices = Prices::new(config::users_prices(store.data_dir()));
    let mut report = many::collect(store, period, &prices)?;
    report.until = arguments.until.unwrap_or_else(now);
    if arguments.json {
        writeln!(out, "{}", json_line(&serde_json::to_value(&report)?))?;
    } else {
        many_text::print(&mut out, &report, &layout)?;
    }
    Ok(out.flush()?)
}

/// The layout for the terminal, or for a file or pipe.
pub(super) fn layout() -> Layout {
    let is_utf8 = cfg!(not(unix))
        || ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|value| !value.is_empty())
            .is_some_and(|value| {
                let value = value.to_ascii_lowercase();
                value.contains("utf-8") || value.contains("utf8")
            });
    let width = screen::width().unwrap_or(DEFAULT_WIDTH).clamp(40, 200);
    Layout { width, is_utf8, painter: Painter::automatic() }
}
