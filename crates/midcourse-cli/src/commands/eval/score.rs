//! The score: per pattern and in all, how often the word came in time, and how often it was right.
//!
//! A scenario that expects one of several patterns counts in the row of each, and once in all.

use std::collections::BTreeMap;
use std::io::Write;

use crate::scenario::{Expected, ScenarioVerdict};
use anyhow::Result;
use serde_json::{Value, json};

use super::Judged;
use crate::commands::columns;
use crate::commands::figures::{Share, median, percent, share, share_of};
use crate::display::one_line;

/// What is counted of scenarios that expect a word.
#[derive(Default)]
struct Row {
    scenarios: usize,
    in_time: usize,
    too_early: usize,
    late: usize,
    missed: usize,
    /// In time, about something else.
    otherwise: usize,
    /// Events from the earliest right one to the word, where it did not come before it.
    lateness: Vec<usize>,
    /// First words that name this pattern, anywhere.
    named: usize,
    /// Those of them that came where they were expected, and not too early.
    named_rightly: usize,
}

impl Row {
    fn add(&mut self, judged: &Judged) {
        let Judged { scenario, judgement, .. } = judged;
        self.scenarios += 1;
        match judgement.verdict {
            ScenarioVerdict::InTime => self.in_time += 1,
            ScenarioVerdict::TooEarly => self.too_early += 1,
            ScenarioVerdict::Late => self.late += 1,
            ScenarioVerdict::Missed => self.missed += 1,
            ScenarioVerdict::Quiet | ScenarioVerdict::Spoken => {}
        }
        let is_in_time = judgement.verdict == ScenarioVerdict::InTime;
        self.otherwise += usize::from(is_in_time && judgement.named_as_expected == Some(false));
        if let (Expected::Word { first, .. }, Some(word)) =
            (&scenario.expected, judgement.words.first())
        {
            self.lateness.extend(word.event.checked_sub(*first));
        }
    }

    const fn recall(&self) -> Option<Share> {
        share_of(self.in_time, self.scenarios)
    }

    const fn precision(&self) -> Option<Share> {
        share_of(self.named_rightly, self.named)
    }
}

/// What all scenarios gave.
#[derive(Default)]
pub(super) struct Score {
    patterns: BTreeMap<String, Row>,
    all: Row,
    quiet: usize,
    spoken: usize,
}

impl Score {
    pub(super) fn of(judged: &[Judged]) -> Self {
        let mut score = Self::default();
        for one in judged {
            score.add(one);
        }
        score
    }

    fn add(&mut self, judged: &Judged) {
        let Judged { scenario, judgement, .. } = judged;
        match &scenario.expected {
            Expected::Quiet => {
                self.quiet += 1;
                self.spoken += usize::from(judgement.verdict == ScenarioVerdict::Spoken);
            }
            Expected::Word { patterns, .. } => {
                self.all.add(judged);
                for pattern in patterns {
                    self.patterns.entry(pattern.to_string()).or_default().add(judged);
                }
            }
        }
        if let Some(word) = judgement.words.first() {
            let row = self.patterns.entry(word.about().to_owned()).or_default();
            row.named += 1;
            let is_right = judgement.named_as_expected == Some(true)
                && judgement.verdict != ScenarioVerdict::TooEarly;
            row.named_rightly += usize::from(is_right);
        }
    }

    /// Of the scenarios that expect a word, those that got it in time.
    pub(super) const fn caught(&self) -> Option<Share> {
        self.all.recall()
    }

    pub(super) const fn too_early(&self) -> usize {
        self.all.too_early
    }

    /// Of the quiet scenarios, those that were spoken to.
    pub(super) const fn spoken(&self) -> Option<Share> {
        share_of(self.spoken, self.quiet)
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = columns::table([
            "PATTERN",
            "SCENARIOS",
            "IN TIME",
            "NAMED OTHERWISE",
            "TOO EARLY",
            "LATE",
            "MISSED",
            "RECALL",
            "PRECISION",
            "EVENTS AFTER FIRST",
        ]);
        for (pattern, row) in &self.patterns {
            let lateness = median(row.lateness.clone());
            table.add_row([
                one_line(pattern, 40),
                row.scenarios.to_string(),
                row.in_time.to_string(),
                row.otherwise.to_string(),
                row.too_early.to_string(),
                row.late.to_string(),
                row.missed.to_string(),
                share(row.recall()),
                share(row.precision()),
                lateness.map_or_else(|| "–".to_owned(), |events| events.to_string()),
            ]);
        }
        if !self.patterns.is_empty() {
            columns::print(out, table, 1..10)?;
            writeln!(out)?;
        }
        let Row { scenarios, in_time, too_early, late, missed, otherwise, .. } = &self.all;
        let otherwise = match otherwise {
            0 => String::new(),
            some => format!("; {some} of them with a word about something else"),
        };
        writeln!(
            out,
            "{in_time} of {scenarios} caught in time ({}{otherwise}), {too_early} too early, \
             {late} late, {missed} missed; {} of {} quiet ones spoken to ({}).",
            share(self.caught()),
            self.spoken,
            self.quiet,
            share(self.spoken()),
        )?;
        Ok(())
    }

    pub(super) fn summary(&self) -> Value {
        let patterns: Vec<Value> = self
            .patterns
            .iter()
            .map(|(pattern, row)| {
                json!({
                    "pattern": pattern, "scenarios": row.scenarios, "in_time": row.in_time,
                    "too_early": row.too_early, "late": row.late, "missed": row.missed,
                    "named_otherwise": row.otherwise,
                    "recall_percent": row.recall().map(percent),
                    "precision_percent": row.precision().map(percent),
                    "median_events_after_first": median(row.lateness.clone()),
                })
            })
            .collect();
        json!({
            "type": "summary", "scenarios": self.all.scenarios + self.quiet,
            "expect_word": self.all.scenarios, "in_time": self.all.in_time,
            "too_early": self.all.too_early, "late": self.all.late, "missed": self.all.missed,
            "named_otherwise": self.all.otherwise,
            "caught_percent": self.caught().map(percent),
            "median_events_after_first": median(self.all.lateness.clone()),
            "expect_quiet": self.quiet, "spoken": self.spoken,
            "spoken_percent": self.spoken().map(percent), "patterns": patterns,
        })
    }
}
