//! The summary of a backtest. For each source (a dataset or an agent), it shows how many runs get a
//! message, when they get the first one, and how many runs succeed.
//!
//! Failed runs are longer than others, so messages that come late in a run come mostly in failed
//! runs, even if they are not about a real problem. The table therefore also shows, in the column
//! `SUCCESS SAME LENGTH`, the success rate of runs that got as far without a message.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::source_stats::SourceStats;
use crate::backtest::BacktestReport;
use crate::commands::columns;
use crate::commands::stats::format_share;
use crate::display::{duration, one_line};

/// Maximum number of sources that get a row of their own. The runs of all further sources are
/// counted together in the row `OTHER_SOURCES`.
const MAX_SOURCES: usize = 200;
const OTHER_SOURCES: &str = "(others)";

const HEADINGS: [&str; 10] = [
    "SOURCE",
    "RUNS",
    "CALLS",
    "MESSAGED",
    "FIRST AT",
    "CALLS AFTER",
    "TIME AFTER",
    "SUCCESS",
    "SUCCESS SAME LENGTH",
    "SUCCESS UNMESSAGED",
];

#[derive(Default)]
pub(super) struct Summary {
    sources: BTreeMap<String, SourceStats>,
    /// How many messages were about each cause, such as `doom_loop`.
    causes: BTreeMap<String, u64>,
}

impl Summary {
    pub(super) fn add(&mut self, report: &BacktestReport) {
        for delivery in report.deliveries() {
            *self.causes.entry(delivery.cause_name().to_owned()).or_default() += 1;
        }
        let is_known = self.sources.contains_key(&report.source);
        let source = if is_known || self.sources.len() < MAX_SOURCES {
            &report.source
        } else {
            OTHER_SOURCES
        };
        if !self.sources.contains_key(source) {
            self.sources.insert(source.to_owned(), SourceStats::default());
        }
        if let Some(stats) = self.sources.get_mut(source) {
            stats.add(report);
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.sources.values().map(|stats| stats.runs).sum()
    }

    /// Whether some runs say if the agent solved its task.
    pub(super) fn knows_success(&self) -> bool {
        self.sources.values().any(SourceStats::knows_success)
    }

    /// The summary as a JSON object. `invalid_lines` is the number of lines that could not be
    /// parsed completely.
    pub(super) fn line(&self, invalid_lines: u64) -> Value {
        let sources: Vec<Value> = self
            .sources
            .iter()
            .map(|(source, stats)| {
                let figures = stats.figures();
                json!({
                    "source": source, "runs": stats.runs, "calls": stats.calls,
                    "runs_with_delivery": figures.runs_with_delivery,
                    "median_first_delivery_call": figures.first_delivery,
                    "median_calls_after_first_delivery": figures.calls_after,
                    "success_with_delivery": figures.success_with_delivery,
                    "success_without_delivery": figures.success_without_delivery,
                    "success_same_length": figures.success_same_length,
                })
            })
            .collect();
        json!({
            "type": "summary", "runs": self.runs(),
            "calls": self.sources.values().map(|stats| stats.calls).sum::<u64>(),
            "runs_with_delivery":
                self.sources.values().map(SourceStats::runs_with_delivery).sum::<usize>(),
            "invalid_lines": invalid_lines, "causes": self.causes, "sources": sources,
        })
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = columns::table(HEADINGS);
        for (source, stats) in &self.sources {
            table.add_row(std::iter::once(one_line(source, 40)).chain(cells(stats)));
        }
        columns::print(out, table, 1..10)
    }
}

/// Prints the summaries of the same runs with configurations A and B in one table, with two rows
/// per source.
pub(super) fn print_both(out: &mut impl Write, a: &Summary, b: &Summary) -> Result<()> {
    let [source, figures @ ..] = HEADINGS;
    let mut table = columns::table([source, "CONFIG"].into_iter().chain(figures));
    let no_runs = SourceStats::default();
    for (source, stats) in &a.sources {
        table.add_row([one_line(source, 40), "A".to_owned()].into_iter().chain(cells(stats)));
        let other = b.sources.get(source).unwrap_or(&no_runs);
        table.add_row([String::new(), "B".to_owned()].into_iter().chain(cells(other)));
    }
    columns::print(out, table, 2..11)
}

/// The cells of a table row, without the first, which names the source.
fn cells(stats: &SourceStats) -> [String; 9] {
    let figures = stats.figures();
    [
        stats.runs.to_string(),
        stats.calls.to_string(),
        format_share(Some((figures.runs_with_delivery, stats.runs))),
        figures.first_delivery.map_or_else(|| "–".into(), |call| format!("call {call}")),
        figures.calls_after.map_or_else(|| "–".into(), |calls| calls.to_string()),
        figures.time_after.map_or_else(|| "–".into(), duration),
        format_share(figures.success_with_delivery),
        format_share(figures.success_same_length),
        format_share(figures.success_without_delivery),
    ]
}
