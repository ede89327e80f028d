//! `midcourse list`: lists recorded runs, newest first, with subagents under the runs that started
//! them.
//!
//! Runs are read and printed page by page, so the first line comes at once and the memory does not
//! depend on the number of runs.

mod layout;

use std::io::{Write, stdout};

use anyhow::Result;
use midcourse::{ListedRun, RunCursor, RunFilter};

use super::json::run_json;
use super::refresh::Outdated;
use super::run_filter::RunFilterArguments;
use super::screen::{PagerArguments, Screen, ScreenArguments};
use super::source::{Source, StoreArguments};
use crate::display::json_line;
use layout::Layout;

pub(super) use layout::outcome;

/// How many runs the table shows by default, not counting subagents.
const DEFAULT_COUNT: usize = 30;

/// How many runs are read from the store at once.
const PAGE: usize = 100;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    runs: RunFilterArguments,
    /// Only runs that failed or were aborted.
    #[arg(long)]
    failed: bool,
    /// Only runs in which midcourse said something, or would have (shadow mode or withheld).
    #[arg(long)]
    said: bool,
    /// Show the newest N runs; subagents do not count.
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "all")]
    count: Option<usize>,
    /// Show all runs instead of the newest 30.
    #[arg(long)]
    all: bool,
    /// Print JSON lines, all runs by default.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    pager: PagerArguments,
    #[command(flatten)]
    screen: ScreenArguments,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let Some(mut source) = arguments.store.existing()? else {
        if !arguments.json {
            writeln!(stdout(), "No runs recorded yet.")?;
        }
        return Ok(());
    };
    source.refresh(Outdated::Wrong);
    let filter = arguments.filter()?;
    let shown = if arguments.all || arguments.json { usize::MAX } else { DEFAULT_COUNT };
    let count = arguments.count.unwrap_or(shown);
    let mut pages =
        Pages { source: &mut source, filter: &filter, after: RunCursor::START, left: count };
    if arguments.json {
        let mut out = std::io::BufWriter::new(stdout().lock());
        while let Some(page) = pages.next()? {
            for listed in &page {
                writeln!(out, "{}", json_line(&run_json(&listed.run)))?;
            }
            out.flush()?;
        }
        return Ok(());
    }
    let Some(first) = pages.next()? else {
        let is_filtered = filter != RunFilter::default();
        let none = if is_filtered { "No run matches." } else { "No runs recorded yet." };
        writeln!(stdout(), "{none}")?;
        return Ok(());
    };
    let mut screen = Screen::paged(&arguments.screen, &arguments.pager);
    let layout = Layout::new(screen.width, &first);
    writeln!(screen, "{}", layout.heading(screen.painter))?;
    let (mut has_shadow, mut page) = (false, Some(first));
    while let Some(runs) = page {
        for listed in &runs {
            has_shadow |= listed.run.shadow_deliveries > 0;
            let line = layout.line(listed, screen.painter);
            writeln!(screen, "{line}")?;
        }
        screen.flush()?;
        page = pages.next()?;
    }
    if has_shadow {
        writeln!(screen, "Messages in parentheses were recorded only (shadow mode or withheld).")?;
    }
    if pages.left == 0 {
        let all = pages.source.listed_run_count(&filter)?;
        let shown = u64::try_from(count).unwrap_or(u64::MAX);
        if all > shown {
            writeln!(screen, "{shown} of {all} runs; use `--all` to show all.")?;
        }
    }
    Ok(screen.finish()?)
}

impl Arguments {
    fn filter(&self) -> Result<RunFilter> {
        Ok(RunFilter { failed: self.failed, said: self.said, ..self.runs.filter()? })
    }
}

/// The pages of the list. `left` is the number of runs that may still be shown.
struct Pages<'a> {
    source: &'a mut Source,
    filter: &'a RunFilter,
    after: RunCursor,
    left: usize,
}

impl Pages<'_> {
    /// The next page; `None` at the end of the list.
    fn next(&mut self) -> Result<Option<Vec<ListedRun>>> {
        let count = PAGE.min(self.left);
        if count == 0 {
            return Ok(None);
        }
        let (mut page, after) = self.source.list_runs(self.filter, self.after, count)?;
        self.after = after;
        let roots = page.iter().filter(|listed| listed.level == 0).count();
        self.left = self.left.saturating_sub(roots);
        for listed in &mut page {
            // The table and the JSON count every call, also one during which the agent stopped.
            listed.run.calls = listed.run.calls.saturating_add(listed.open_calls);
        }
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}
