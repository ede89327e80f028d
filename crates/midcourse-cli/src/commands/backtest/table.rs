//! The table of a backtest: per source, how often was spoken, when, and what came of the runs.
//!
//! Failed runs are longer than others, and whoever speaks late meets more of them: that flatters any
//! detector. So the success of runs that were spoken to stands beside that of runs which were as long
//! and had not been spoken to by then.

use std::collections::BTreeMap;
use std::io::Write;

use crate::backtest::Verdict;
use anyhow::Result;
use serde_json::{Value, json};

use super::tally::Tally;
use crate::commands::columns;
use crate::commands::figures::share;
use crate::display::{duration, escape_control_chars, one_line};

/// Sources that are told apart; the runs of all later ones are counted together.
const SOURCES_MAX: usize = 200;
const OTHERS: &str = "(others)";

/// Runs shown as the most telling ones.
const TELLING: usize = 5;

const HEADINGS: [&str; 10] = [
    "SOURCE",
    "RUNS",
    "CALLS",
    "SPOKEN TO",
    "FIRST AT",
    "CALLS AFTER",
    "TIME AFTER",
    "SUCCEEDED",
    "EQUALLY LONG",
    "NOT SPOKEN TO",
];

/// A run in which much was spent after the first word.
struct TellingRun {
    run_id: String,
    calls_after: u64,
    line: String,
}

#[derive(Default)]
pub(super) struct Table {
    sources: BTreeMap<String, Tally>,
    telling: Vec<TellingRun>,
    patterns: BTreeMap<String, u64>,
}

impl Table {
    pub(super) fn add(&mut self, verdict: &Verdict) {
        for spoken in &verdict.spoken {
            *self.patterns.entry(spoken.about().to_owned()).or_default() += 1;
        }
        if let (Some(first), Some((calls_after, _))) =
            (verdict.spoken.first(), verdict.after_first_word())
        {
            let line = format!(
                "call {:>4} of {:<4} {}: {}",
                first.call,
                verdict.calls,
                first.about(),
                one_line(&first.delivery.text(), 100)
            );
            let run_id = verdict.run_id.clone();
            self.telling.push(TellingRun { run_id, calls_after, line });
            self.telling.sort_by_key(|run| std::cmp::Reverse(run.calls_after));
            self.telling.truncate(TELLING);
        }
        let is_known = self.sources.contains_key(&verdict.source);
        let source =
            if is_known || self.sources.len() < SOURCES_MAX { &verdict.source } else { OTHERS };
        if !self.sources.contains_key(source) {
            self.sources.insert(source.to_owned(), Tally::default());
        }
        if let Some(tally) = self.sources.get_mut(source) {
            tally.add(verdict);
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.sources.values().map(|tally| tally.runs).sum()
    }

    pub(super) fn summary(&self, torn: u64) -> Value {
        let sources: Vec<Value> = self
            .sources
            .iter()
            .map(|(source, tally)| {
                let figures = tally.figures();
                json!({
                    "source": source, "runs": tally.runs, "calls": tally.calls,
                    "spoken": figures.spoken, "median_first_call": figures.first_call,
                    "median_calls_after": figures.calls_after, "success_spoken": figures.success,
                    "success_quiet": figures.quiet_success,
                    "success_equal_length": figures.equal_success,
                })
            })
            .collect();
        json!({
            "type": "summary", "runs": self.runs(),
            "calls": self.sources.values().map(|tally| tally.calls).sum::<u64>(),
            "spoken": self.sources.values().map(Tally::spoken).sum::<usize>(),
            "torn": torn, "patterns": self.patterns, "sources": sources,
        })
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = columns::table(HEADINGS);
        for (source, tally) in &self.sources {
            table.add_row(std::iter::once(one_line(source, 40)).chain(cells(tally)));
        }
        columns::print(out, table, 1..10)?;
        if !self.telling.is_empty() {
            writeln!(out, "\nMost was spent after the first word in:")?;
        }
        for run in &self.telling {
            writeln!(
                out,
                "  {}\n    {}",
                escape_control_chars(&one_line(&run.run_id, 100)),
                run.line
            )?;
        }
        Ok(())
    }
}

/// The sources of two tables of the same runs, each with both figures, one below the other.
pub(super) fn print_both(out: &mut impl Write, a: &Table, b: &Table) -> Result<()> {
    let [source, figures @ ..] = HEADINGS;
    let mut table = columns::table([source, "CONFIG"].into_iter().chain(figures));
    let nothing = Tally::default();
    for (source, tally) in &a.sources {
        table.add_row([one_line(source, 40), "A".to_owned()].into_iter().chain(cells(tally)));
        let other = b.sources.get(source).unwrap_or(&nothing);
        table.add_row([String::new(), "B".to_owned()].into_iter().chain(cells(other)));
    }
    columns::print(out, table, 2..11)
}

/// The figures of a row, behind its source.
fn cells(tally: &Tally) -> [String; 9] {
    let figures = tally.figures();
    [
        tally.runs.to_string(),
        tally.calls.to_string(),
        share(Some((figures.spoken, tally.runs))),
        figures.first_call.map_or_else(|| "–".into(), |call| format!("call {call}")),
        figures.calls_after.map_or_else(|| "–".into(), |calls| calls.to_string()),
        figures.time_after.map_or_else(|| "–".into(), duration),
        share(figures.success),
        share(figures.equal_success),
        share(figures.quiet_success),
    ]
}
