//! Compares what two configurations, A and B, deliver in the same runs: shows a summary for each
//! configuration, and the runs in which the delivered messages differ.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::summary::{Summary, print_both};
use crate::backtest::{BacktestDelivery, BacktestReport};
use crate::commands::columns;
use crate::display::{escape_control_chars, one_line};

/// Maximum number of differing runs in the table. Further differing runs are only counted.
const MAX_SHOWN_RUNS: usize = 20;

/// The first message of a run that differs between the two configurations.
struct Difference<'a> {
    /// Position of the message among the messages of the run, counted from 1.
    delivery: usize,
    // What each configuration delivers at this position; `None` if it delivers no further message.
    a: Option<BacktestDelivery<'a>>,
    b: Option<BacktestDelivery<'a>>,
}

/// Compares two reports about the same run, message by message. Returns the first pair of messages
/// that come after different events or are about different problems.
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

pub(super) struct Comparison {
    /// The names of configurations A and B.
    names: (String, String),
    /// The summary for configuration B. The caller keeps the summary for configuration A.
    against: Summary,
    /// Number of runs in which only configuration A delivers messages.
    only_a: usize,
    /// Number of runs in which only configuration B delivers messages.
    only_b: usize,
    /// Number of runs in which both configurations deliver messages, but not the same ones.
    both: usize,
    shown_runs: Vec<[String; 4]>,
}

impl Comparison {
    pub(super) fn new(names: (String, String)) -> Self {
        let (against, shown_runs) = (Summary::default(), Vec::new());
        Self { names, against, only_a: 0, only_b: 0, both: 0, shown_runs }
    }

    /// Adds a run. `a` and `b` are the reports about the run with configurations A and B. Returns a
    /// JSON line about their first difference; `None` if they deliver the same messages.
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
