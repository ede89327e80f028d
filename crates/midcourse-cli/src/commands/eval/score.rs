//! The score of an evaluation: how many expected messages came in time (recall), and how many of
//! the delivered messages were expected (precision). Both are counted for each pattern; recall also
//! in total.
//!
//! A scenario can name several patterns and expect a message about any one of them. Such a scenario
//! counts in the row of each of its patterns, and once in the total.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::Evaluated;
use crate::commands::columns;
use crate::commands::stats::{Share, format_share, median, percent, share_of};
use crate::display::one_line;
use crate::scenario::{Expected, ScenarioVerdict};

/// Counts for one pattern, or for all patterns together.
#[derive(Default)]
struct Row {
    /// Number of scenarios that expect a message about the pattern.
    scenarios: usize,
    in_time: usize,
    too_early: usize,
    late: usize,
    missed: usize,
    /// Number of scenarios whose first message came in time but was not about an expected pattern.
    other_cause: usize,
    /// One number for each scenario whose first message came in time or late: how many events after
    /// the earliest expected event the message came.
    delays: Vec<usize>,
    /// Number of scenarios whose first message was about this row's pattern, whether or not they
    /// expect such a message.
    delivered: usize,
    /// Number of scenarios counted in `delivered` whose first message was expected and did not come
    /// too early.
    delivered_as_expected: usize,
}

impl Row {
    fn add(&mut self, evaluated: &Evaluated) {
        let Evaluated { scenario, result, .. } = evaluated;
        self.scenarios += 1;
        match result.verdict {
            ScenarioVerdict::InTime => self.in_time += 1,
            ScenarioVerdict::TooEarly => self.too_early += 1,
            ScenarioVerdict::Late => self.late += 1,
            ScenarioVerdict::Missed => self.missed += 1,
            ScenarioVerdict::Quiet | ScenarioVerdict::FalseAlarm => {}
        }
        let is_in_time = result.verdict == ScenarioVerdict::InTime;
        self.other_cause += usize::from(is_in_time && result.cause_as_expected == Some(false));
        if let (Expected::Message { first, .. }, Some(delivery)) =
            (&scenario.expected, result.deliveries().next())
        {
            self.delays.extend(delivery.event.checked_sub(*first));
        }
    }

    const fn recall(&self) -> Option<Share> {
        share_of(self.in_time, self.scenarios)
    }

    const fn precision(&self) -> Option<Share> {
        share_of(self.delivered_as_expected, self.delivered)
    }
}

#[derive(Default)]
pub(super) struct Score {
    patterns: BTreeMap<String, Row>,
    total: Row,
    /// Number of scenarios that expect no message.
    quiet: usize,
    false_alarms: usize,
}

impl Score {
    pub(super) fn of(evaluated: &[Evaluated]) -> Self {
        let mut score = Self::default();
        for one in evaluated {
            score.add(one);
        }
        score
    }

    fn add(&mut self, evaluated: &Evaluated) {
        let Evaluated { scenario, result, .. } = evaluated;
        match &scenario.expected {
            Expected::Quiet => {
                self.quiet += 1;
                self.false_alarms += usize::from(result.verdict == ScenarioVerdict::FalseAlarm);
            }
            Expected::Message { patterns, .. } => {
                self.total.add(evaluated);
                for pattern in patterns {
                    self.patterns.entry(pattern.to_string()).or_default().add(evaluated);
                }
            }
        }
        if let Some(first) = result.deliveries().next() {
            let row = self.patterns.entry(first.cause_name().to_owned()).or_default();
            row.delivered += 1;
            let is_as_expected = result.cause_as_expected == Some(true)
                && result.verdict != ScenarioVerdict::TooEarly;
            row.delivered_as_expected += usize::from(is_as_expected);
        }
    }

    /// Of the scenarios that expect a message: the share in which the first message came in time,
    /// whatever it was about. `None` if no scenario expects a message.
    pub(super) const fn caught(&self) -> Option<Share> {
        self.total.recall()
    }

    pub(super) const fn too_early(&self) -> usize {
        self.total.too_early
    }

    /// Of the scenarios that expect no message: the share in which a message came. `None` if every
    /// scenario expects a message.
    pub(super) const fn false_alarms(&self) -> Option<Share> {
        share_of(self.false_alarms, self.quiet)
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = columns::table([
            "PATTERN",
            "SCENARIOS",
            "IN TIME",
            "OTHER CAUSE",
            "TOO EARLY",
            "LATE",
            "MISSED",
            "RECALL",
            "PRECISION",
            "MEDIAN DELAY",
        ]);
        for (pattern, row) in &self.patterns {
            let delay = median(row.delays.clone());
            table.add_row([
                one_line(pattern, 40),
                row.scenarios.to_string(),
                row.in_time.to_string(),
                row.other_cause.to_string(),
                row.too_early.to_string(),
                row.late.to_string(),
                row.missed.to_string(),
                format_share(row.recall()),
                format_share(row.precision()),
                delay.map_or_else(|| "–".to_owned(), |events| events.to_string()),
            ]);
        }
        if !self.patterns.is_empty() {
            columns::print(out, table, 1..10)?;
            writeln!(out)?;
        }
        let Row { scenarios, in_time, too_early, late, missed, other_cause, .. } = &self.total;
        let other_cause = match other_cause {
            0 => String::new(),
            count => format!("; {count} of them with another cause"),
        };
        writeln!(
            out,
            "{in_time} of {scenarios} caught in time ({}{other_cause}), {too_early} too early, \
             {late} late, {missed} missed; {} false alarms in {} quiet scenarios ({}).",
            format_share(self.caught()),
            self.false_alarms,
            self.quiet,
            format_share(self.false_alarms()),
        )?;
        Ok(())
    }

    /// The JSON object that `eval --json` prints as the summary.
    pub(super) fn line(&self) -> Value {
        let patterns: Vec<Value> = self
            .patterns
            .iter()
            .map(|(pattern, row)| {
                json!({
                    "pattern": pattern, "scenarios": row.scenarios, "in_time": row.in_time,
                    "too_early": row.too_early, "late": row.late, "missed": row.missed,
                    "other_cause": row.other_cause,
                    "recall_percent": row.recall().map(percent),
                    "precision_percent": row.precision().map(percent),
                    "median_delay_events": median(row.delays.clone()),
                })
            })
            .collect();
        json!({
            "type": "summary", "scenarios": self.total.scenarios + self.quiet,
            "expect_message": self.total.scenarios, "in_time": self.total.in_time,
            "too_early": self.total.too_early, "late": self.total.late, "missed": self.total.missed,
            "other_cause": self.total.other_cause,
            "caught_percent": self.caught().map(percent),
            "median_delay_events": median(self.total.delays.clone()),
            "expect_quiet": self.quiet, "false_alarms": self.false_alarms,
            "false_alarm_percent": self.false_alarms().map(percent), "patterns": patterns,
        })
    }
}
