//! `midcourse show`: prints one run, entry by entry. A tool call and its result are one entry.
//!
//! Entries are read and printed page by page, so the first line comes at once and the memory does not
//! depend on the length of the run. Options that choose entries are conditions of the store, which
//! does not read the others.

mod entries;
mod entry_lines;
mod header;
mod one_record;

use std::io::Write;
use std::ops::RangeInclusive;

use anyhow::{Context as _, Result, ensure};
use midcourse::{EntryFilter, RunSummary, SearchWords, Store};

use super::json::{record_json, run_json};
use super::open;
use super::refresh::Outdated;
use super::screen::{PagerArguments, Screen, ScreenArguments};
use super::source::StoreArguments;
use crate::display::{json_line, local_date, local_time};
use crate::terminal::warn;
use entries::Entries;
use entry_lines::EntryLines;

/// How many records are read from the store at once.
const PAGE: usize = 64;

/// Maximum number of warnings about damaged records. Further ones are only counted.
const MAX_WARNINGS: usize = 20;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Show this run (id, start or end of id, or `latest`), or one record of it (`RUN:SEQ`).
    run: String,
    /// Only calls that failed or were refused.
    #[arg(long)]
    errors: bool,
    /// Only what midcourse said, and what became of it.
    #[arg(long)]
    said: bool,
    /// Only the last N entries.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Only records A to B, such as `10..20`, `10..` or `..20`.
    #[arg(long, value_name = "A..B", value_parser = parse_seqs)]
    seq: Option<RangeInclusive<u64>>,
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only entries that contain all of these words.
    #[arg(long, value_name = "WORDS")]
    grep: Option<String>,
    /// Also turns, model requests and token counts.
    #[arg(long)]
    all: bool,
    /// Show the full text of every entry.
    #[arg(long)]
    full: bool,
    /// Print JSON lines: the run, then its records.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    pager: PagerArguments,
    #[command(flatten)]
    screen: ScreenArguments,
}

/// Parses `A..B`, `A..`, `..B` or `A`. Both ends are included.
fn parse_seqs(text: &str) -> Result<RangeInclusive<u64>> {
    let number = |text: &str, otherwise: u64| match text.trim() {
        "" => Ok(otherwise),
        number => number.parse::<u64>(),
    };
    let range = match text.split_once("..") {
        Some((first, last)) => {
            let last = last.strip_prefix('=').unwrap_or(last);
            number(first, 0).and_then(|first| Ok(first..=number(last, u64::MAX)?))
        }
        None => text.trim().parse().map(|seq| seq..=seq),
    };
    range.with_context(|| format!("invalid range `{text}`; try `10..20`, `10..` or `..20`"))
}

impl Arguments {
    fn filter(&self) -> EntryFilter {
        EntryFilter {
            errors: self.errors,
            said: self.said,
            tool: self.tool.clone(),
            first: self.seq.as_ref().map(|seqs| *seqs.start()),
            last: self.seq.as_ref().map(|seqs| *seqs.end()),
            all: self.all,
        }
    }

    /// Whether all entries are shown, up to the end of the run.
    fn is_whole_run(&self) -> bool {
        self.filter().is_unlimited() && self.last.is_none() && self.grep.is_none()
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut source = arguments.store.open()?;
    source.refresh(Outdated::Wrong);
    let (mut run, seq) = source.find_run_or_record(&arguments.run)?;
    let store = source.store();
    if let Some(seq) = seq {
        let screen = Screen::paged_unless(arguments.json, &arguments.screen, &arguments.pager);
        return one_record::show(store, &run, seq, arguments.json, screen);
    }
    open::add_open_calls(store, &mut run)?;
    let mut screen = Screen::paged_unless(arguments.json, &arguments.screen, &arguments.pager);
    let damage = match (arguments.json, arguments.is_whole_run()) {
        (true, true) => print_all_json(store, &run, &mut screen)?,
        _ => print_entries(arguments, store, &run, &mut screen)?,
    };
    screen.finish()?;
    // After the pager, so that the warnings stay on the screen.
    damage.warn();
    match arguments.is_whole_run() {
        true => open::report_damage(&source.verify_run(&run.run_id)?)?,
        false => open::report_damage(&damage.findings)?,
    }
    ensure!(damage.skipped.is_empty(), "the run is damaged; run `midcourse verify` for details");
    Ok(())
}

/// Damage that was found while printing.
#[derive(Default)]
struct Damage {
    skipped: Vec<String>,
    findings: Vec<midcourse::Finding>,
}

impl Damage {
    fn skip(&mut self, seq: u64, error: &midcourse::StoreError) {
        self.skipped.push(format!("skipped record {seq}: {error}"));
    }

    fn warn(&self) {
        self.skipped.iter().take(MAX_WARNINGS).for_each(|warning| warn(warning));
        let more = self.skipped.len().saturating_sub(MAX_WARNINGS);
        if more > 0 {
            warn(&format!("skipped {more} more records"));
        }
    }
}

/// Prints all records of a run as JSON.
fn print_all_json(store: &Store, run: &RunSummary, out: &mut Screen) -> Result<Damage> {
    writeln!(out, "{}", json_line(&run_json(run)))?;
    let (mut from, mut damage) = (0, Damage::default());
    loop {
        let page = store.records_or_damage(run.run_id.as_str(), from, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(damage) };
        from = last.saturating_add(1);
        for (seq, stored) in page {
            match stored {
                Ok(stored) => writeln!(out, "{}", json_line(&record_json(&stored)))?,
                Err(error) => damage.skip(seq, &error),
            }
        }
        out.flush()?;
    }
}

/// Prints the entries that the options choose, as text or JSON.
fn print_entries(
    arguments: &Arguments,
    store: &Store,
    run: &RunSummary,
    screen: &mut Screen,
) -> Result<Damage> {
    match arguments.json {
        true => writeln!(screen, "{}", json_line(&run_json(run)))?,
        false => header::print(screen, store, run)?,
    }
    screen.flush()?;
    let mut damage = Damage::default();
    let lines = EntryLines::new(screen, run, arguments.full);
    let mut date = local_date(run.started);
    let words = arguments.grep.as_deref().map(SearchWords::of);
    let mut entries = Entries::new(store, run, arguments.filter(), words, arguments.last)?;
    while let Some((seq, entry)) = entries.next(store)? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                damage.skip(seq, &error);
                continue;
            }
        };
        let records = [Some(&entry.record), entry.end.as_ref()].into_iter().flatten();
        if !arguments.is_whole_run() {
            for record in records.clone() {
                damage.findings.extend(store.verify_record(&run.run_id, record.seq)?);
            }
        }
        if arguments.json {
            for record in records {
                writeln!(screen, "{}", json_line(&record_json(record)))?;
            }
        } else {
            let day = local_date(entry.record.at);
            if day != date {
                writeln!(screen, "{}", screen.painter.bold(&day))?;
                date = day;
            }
            lines.print(screen, store, &entry)?;
        }
        if entries.is_page_end() {
            screen.flush()?;
        }
    }
    let is_to_the_end = arguments.is_whole_run() || arguments.last.is_some();
    if run.ended.is_none() && is_to_the_end && !arguments.json {
        writeln!(
            screen,
            "\nNo end recorded: the run is still active, or it was killed after record {} ({}).",
            run.records.saturating_sub(1),
            local_time(run.latest)
        )?;
    }
    Ok(damage)
}

#[cfg(test)]
mod tests {
    use super::parse_seqs;

    #[test]
    fn a_range_may_be_open_at_either_end() {
        assert_eq!(parse_seqs("10..20").unwrap(), 10..=20);
        assert_eq!(parse_seqs("10..").unwrap(), 10..=u64::MAX);
        assert_eq!(parse_seqs("..20").unwrap(), 0..=20);
        assert_eq!(parse_seqs("7").unwrap(), 7..=7);
        for invalid in ["", "a..b", "-1", "1...3"] {
            assert!(parse_seqs(invalid).is_err(), "{invalid}");
        }
    }
}
