//! Two configurations on the same runs: their figures beside each other, and the runs in which they
//! part.

use std::io::Write;

use crate::backtest::{Spoken, Verdict};
use anyhow::Result;
use serde_json::{Value, json};

use super::table::{Table, print_both};
use crate::commands::columns;
use crate::display::{escape_control_chars, one_line};

/// Runs shown before they are only counted.
const SHOWN: usize = 20;

/// The first word in which two verdicts on one run part, and what each has there.
struct Parting<'a> {
    /// Which word, from 1.
    word: usize,
    a: Option<&'a Spoken>,
    b: Option<&'a Spoken>,
}

/// Where two verdicts on one run part, if they do: by the event or by what the word is about.
fn parting<'a>(a: &'a Verdict, b: &'a Verdict) -> Option<Parting<'a>> {
    let said = |spoken: &Spoken| (spoken.event, spoken.about().to_owned());
    (0..a.spoken.len().max(b.spoken.len()))
        .map(|at| Parting { word: at + 1, a: a.spoken.get(at), b: b.spoken.get(at) })
        .find(|parting| parting.a.map(said) != parting.b.map(said))
}

/// What a second configuration gives beside the first.
pub(super) struct Comparison {
    /// How the first is called, and how the second is.
    names: (String, String),
    against: Table,
    /// Runs in which only the first speaks, only the second, and both but not alike.
    differing: (usize, usize, usize),
    shown: Vec<[String; 4]>,
}

impl Comparison {
    pub(super) fn new(names: (String, String)) -> Self {
        Self { names, against: Table::default(), differing: (0, 0, 0), shown: Vec::new() }
    }

    /// Counts a run, and returns the line of JSON about it if the two part.
    pub(super) fn add(&mut self, a: &Verdict, b: &Verdict) -> Option<Value> {
        self.against.add(b);
        let parting = parting(a, b)?;
        let (only_a, only_b, unlike) = &mut self.differing;
        match (a.spoken.is_empty(), b.spoken.is_empty()) {
            (false, true) => *only_a += 1,
            (true, false) => *only_b += 1,
            _ => *unlike += 1,
        }
        if self.shown.len() < SHOWN {
            let cell = |spoken: Option<&Spoken>| match spoken {
                Some(spoken) => format!("call {}, {}", spoken.call, spoken.about()),
                None if parting.word == 1 => "quiet".to_owned(),
                None => "nothing more".to_owned(),
            };
            let (run, word) = (one_line(&a.run_id, 60), parting.word.to_string());
            self.shown.push([run, word, cell(parting.a), cell(parting.b)]);
        }
        let side = |spoken: Option<&Spoken>| {
            spoken.map(|spoken| {
                json!({"call": spoken.call, "event": spoken.event, "pattern": spoken.about()})
            })
        };
        Some(json!({
            "type": "difference", "run_id": a.run_id, "source": a.source, "word": parting.word,
            "config": self.names.0, "against": self.names.1,
            "a": side(parting.a), "b": side(parting.b),
        }))
    }

    pub(super) const fn against(&self) -> &Table {
        &self.against
    }

    pub(super) fn print(&self, out: &mut impl Write, table: &Table) -> Result<()> {
        let (a, b) = &self.names;
        writeln!(out, "A is {}, B is {}.\n", escape_control_chars(a), escape_control_chars(b))?;
        print_both(out, table, &self.against)?;
        let (only_a, only_b, unlike) = self.differing;
        let differing = only_a + only_b + unlike;
        if differing == 0 {
            writeln!(out, "\nNothing else would have been said in any of the runs.")?;
            return Ok(());
        }
        writeln!(
            out,
            "\n{differing} of {} runs differ: only A speaks in {only_a}, only B in {only_b}, both \
             but not alike in {unlike}. The first word in which they part:\n",
            table.runs()
        )?;
        let mut runs = columns::table(["RUN", "WORD", "A", "B"]);
        for row in &self.shown {
            runs.add_row(row);
        }
        columns::print(out, runs, 1..2)?;
        if differing > self.shown.len() {
            writeln!(out, "and {} more", differing - self.shown.len())?;
        }
        Ok(())
    }
}
