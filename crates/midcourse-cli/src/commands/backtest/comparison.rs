//! Compares two configurations on the same runs: both summaries, and the runs in which they differ.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::summary::{Summary, print_both};
use crate::backtest::{BacktestDelivery, BacktestReport};
use crate::commands::columns;
use crate::display::{escape_control_chars, one_line};

/// How many differing runs are shown. Further ones are only counted.
const MAX_SHOWN_RUNS: usize = 20;

/// The first difference between the deliveries of two configurations in the same run.
struct Difference<'a> {
    /// Position of the delivery among the run's deliveries, counted from 1.
    delivery: usize,
    a: Option<BacktestDelivery<'a>>,
    b: Option<BacktestDelivery<'a>>,
}

/// Finds the first delivery whose event or cause differs between the two reports.
fn difference<'a>(a: &'a BacktestReport, b: &'a BacktestReport) -> Option<Difference<'a>> {
    let (mut a, mut b) = (a.deliveries(), b.deliveries());
    for delivery in 1.. {
        let (a, b) = (a.next(), b.next());
        if a.is_none() && b.is_none() {
            break;
        }
        let compared = |it: BacktestDelivery<'a>| (it.event, it.cause_name());
        if a.map(compared) != b.map(compared) {
            return Some(Difference { delivery, a, b });
        }
    }
    None
}

/// The results of a second configuration, compared with those of the first.
pub(super) struct Comparison {
    /// The names of the first and the second configuration.
    names: (String, String),
    against: Summary,
    /// Number of differing runs in which only the first configuration delivers.
    only_a: usize,
    /// Number of differing runs in which only the second configuration delivers.
    only_b: usize,
    /// Number of differing runs in which both configurations deliver.
    both: usize,
    shown_runs: Vec<[String; 4]>,
}

impl Comparison {
    pub(super) fn new(names: (String, String)) -> Self {
        let (against, shown_runs) = (Summary::default(), Vec::new());
        Self { names, against, only_a: 0, only_b: 0, both: 0, shown_runs }
    }

    /// Adds a run. Returns a JSON line about the difference between its two reports, if they
    /// differ.
    pub(super) fn add(&mut self, a: &BacktestReport, b: &BacktestReport) -> Option<Value> {
        self.against.add(b);
        let difference = difference(a, b)?;
        match (a.first_delivery(), b.first_delivery()) {
            (Some(_), None) => self.only_a += 1,
            (None, Some(_)) => self.only_b += 1,
            _ => self.both += 1,
        }
        if self.shown_runs.len() < MAX_SHOWN_RUNS {
            let cell = |delivery: Option<BacktestDelivery<'_>>| match delivery {
                Some(delivery) => format!("call {}, {}", delivery.call, delivery.cause_name()),
                None if difference.delivery == 1 => "no message".to_owned(),
                None => "no further message".to_owned(),
            };
            let (run, delivery) = (one_line(&a.run_id, 60), difference.delivery.to_string());
            self.shown_runs.push([run, delivery, cell(difference.a), cell(difference.b)]);
        }
        let side = |delivery: Option<BacktestDelivery<'_>>| {
            delivery.map(|delivery| {
                json!({"event": delivery.event, "call": delivery.call,
                       "cause": delivery.cause_name()})
            })
        };
        Some(json!({
            "type": "difference", "run_id": a.run_id, "source": a.source,
            "delivery": difference.delivery, "config": self.names.0, "against": self.names.1,
            "a": side(difference.a), "b": side(difference.b),
        }))
    }

    pub(super) const fn against(&self) -> &Summary {
        &self.against
    }

    pub(super) fn print(&self, out: &mut impl Write, summary: &Summary) -> Result<()> {
        let (a, b) = &self.names;
        writeln!(out, "A: {}\nB: {}\n", escape_control_chars(a), escape_control_chars(b))?;
        print_both(out, summary, &self.against)?;
        let Self { only_a, only_b, both, .. } = self;
        let differing = only_a + only_b + both;
        if differing == 0 {
            writeln!(out, "\nBoth configurations deliver the same messages in every run.")?;
            return Ok(());
        }
        writeln!(
            out,
            "\n{differing} of {} runs differ: {only_a} with messages from A only, {only_b} from B \
             only, {both} with different messages.\nFirst difference in each:\n",
            summary.runs()
        )?;
        let mut table = columns::table(["RUN", "MESSAGE", "A", "B"]);
        for row in &self.shown_runs {
            table.add_row(row);
        }
        columns::print(out, table, 1..2)?;
        if differing > self.shown_runs.len() {
            writeln!(out, "and {} more", differing - self.shown_runs.len())?;
        }
        Ok(())
    }
}
