//! The table of a backtest: per source, how often was spoken, when, and what came of the runs.
//!
//! Failed runs are longer than others, and whoever speaks late meets more of them: that flatters any
//! detector. So the success of runs that were spoken to stands beside that of runs which were as long
//! and had not been spoken to by then.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use midcourse::Verdict;
use serde_json::{Value, json};

use crate::cli::columns;
use crate::cli::figures::{Share, median, share, share_of};
use crate::cli::words::{length, plain, short};

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

/// What is kept of a run.
struct Kept {
    calls: u64,
    success: Option<bool>,
    first_call: Option<u64>,
    after: Option<(u64, Duration)>,
}

/// A run in which much was spent after the first word.
struct TellingRun {
    run_id: String,
    calls_after: u64,
    line: String,
}

#[derive(Default)]
pub(super) struct Table {
    sources: BTreeMap<String, Vec<Kept>>,
    telling: Vec<TellingRun>,
    patterns: BTreeMap<String, u64>,
}

impl Table {
    pub(super) fn add(&mut self, verdict: &Verdict) {
        let kept = Kept {
            calls: verdict.calls,
            success: verdict.success,
            first_call: verdict.spoken.first().map(|spoken| spoken.call),
            after: verdict.after_first_word(),
        };
        for spoken in &verdict.spoken {
            *self.patterns.entry(spoken.about().to_owned()).or_default() += 1;
        }
        if let (Some(first), Some((calls_after, _))) = (verdict.spoken.first(), kept.after) {
            let line = format!(
                "call {:>4} of {:<4} {}: {}",
                first.call,
                verdict.calls,
                first.about(),
                short(&first.delivery.text(), 100)
            );
            let run_id = verdict.run_id.clone();
            self.telling.push(TellingRun { run_id, calls_after, line });
            self.telling.sort_by_key(|run| std::cmp::Reverse(run.calls_after));
            self.telling.truncate(TELLING);
        }
        self.sources.entry(verdict.source.clone()).or_default().push(kept);
    }

    pub(super) fn runs(&self) -> usize {
        self.sources.values().map(Vec::len).sum()
    }

    pub(super) fn summary(&self, torn: u64) -> Value {
        let all = || self.sources.values().flatten();
        let sources: Vec<Value> = self
            .sources
            .iter()
            .map(|(source, runs)| {
                let row = Row::of(runs);
                json!({
                    "source": source, "runs": runs.len(), "calls": row.calls, "spoken": row.spoken,
                    "median_first_call": row.first_call, "median_calls_after": row.calls_after,
                    "success_spoken": row.success, "success_quiet": row.quiet_success,
                    "success_equal_length": row.equal_success,
                })
            })
            .collect();
        json!({
            "type": "summary", "runs": self.runs(),
            "calls": all().map(|run| run.calls).sum::<u64>(),
            "spoken": all().filter(|run| run.first_call.is_some()).count(),
            "torn": torn, "patterns": self.patterns, "sources": sources,
        })
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = columns::table(HEADINGS);
        for (source, runs) in &self.sources {
            table.add_row(std::iter::once(short(source, 40)).chain(cells(runs)));
        }
        columns::print(out, table, 1..10)?;
        if !self.telling.is_empty() {
            writeln!(out, "\nMost was spent after the first word in:")?;
        }
        for run in &self.telling {
            writeln!(out, "  {}\n    {}", plain(&short(&run.run_id, 100)), run.line)?;
        }
        Ok(())
    }
}

/// The sources of two tables of the same runs, each with both figures, one below the other.
pub(super) fn print_both(out: &mut impl Write, a: &Table, b: &Table) -> Result<()> {
    let [source, figures @ ..] = HEADINGS;
    let mut table = columns::table([source, "CONFIG"].into_iter().chain(figures));
    for (source, runs) in &a.sources {
        table.add_row([short(source, 40), "A".to_owned()].into_iter().chain(cells(runs)));
        let others = b.sources.get(source).map_or(&[][..], Vec::as_slice);
        table.add_row([String::new(), "B".to_owned()].into_iter().chain(cells(others)));
    }
    columns::print(out, table, 2..11)
}

/// The figures of a row, behind its source.
fn cells(runs: &[Kept]) -> [String; 9] {
    let row = Row::of(runs);
    [
        runs.len().to_string(),
        row.calls.to_string(),
        share(Some((row.spoken, runs.len()))),
        row.first_call.map_or_else(|| "–".into(), |call| format!("call {call}")),
        row.calls_after.map_or_else(|| "–".into(), |calls| calls.to_string()),
        row.time_after.map_or_else(|| "–".into(), length),
        share(row.success),
        share(row.equal_success),
        share(row.quiet_success),
    ]
}

struct Row {
    calls: u64,
    spoken: usize,
    first_call: Option<u64>,
    calls_after: Option<u64>,
    time_after: Option<Duration>,
    success: Option<Share>,
    quiet_success: Option<Share>,
    equal_success: Option<Share>,
}

impl Row {
    fn of(runs: &[Kept]) -> Self {
        let spoken: Vec<&Kept> = runs.iter().filter(|run| run.first_call.is_some()).collect();
        // For every run that was spoken to: those that got as far without a word.
        let equal = spoken.iter().filter(|run| run.success.is_some()).flat_map(|run| {
            let by = run.first_call.unwrap_or_default();
            runs.iter().filter(move |other| {
                other.calls >= by && other.first_call.is_none_or(|first| first > by)
            })
        });
        Self {
            calls: runs.iter().map(|run| run.calls).sum(),
            spoken: spoken.len(),
            first_call: median(spoken.iter().filter_map(|run| run.first_call).collect()),
            calls_after: median(spoken.iter().filter_map(|run| Some(run.after?.0)).collect()),
            time_after: median(spoken.iter().filter_map(|run| Some(run.after?.1)).collect()),
            success: successes(spoken.iter().copied()),
            quiet_success: successes(runs.iter().filter(|run| run.first_call.is_none())),
            equal_success: successes(equal),
        }
    }
}

fn successes<'a>(runs: impl Iterator<Item = &'a Kept>) -> Option<Share> {
    let (mut of, mut succeeded) = (0, 0);
    for success in runs.filter_map(|run| run.success) {
        of += 1;
        succeeded += usize::from(success);
    }
    share_of(succeeded, of)
}
