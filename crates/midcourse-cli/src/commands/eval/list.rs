//! Scenarios one by one: what was expected, and what came when.

use std::io::Write;

use crate::backtest::Spoken;
use crate::scenario::{Expected, ScenarioVerdict};
use anyhow::Result;
use midcourse::PatternType;
use serde_json::{Value, json};

use super::Judged;
use crate::display::{escape_control_chars, one_line};

/// Characters of a word that are shown.
const WORDS_SHOWN: usize = 80;

/// Lists the scenarios that went wrong, or all.
pub(super) fn print(out: &mut impl Write, judged: &[Judged], all: bool) -> Result<()> {
    let wrong = judged.iter().filter(|one| !one.judgement.is_right()).count();
    match (all, wrong) {
        (true, _) => writeln!(out, "\nAll scenarios:")?,
        (false, 0) => return Ok(()),
        (false, _) => writeln!(out, "\nNot as expected:")?,
    }
    for one in judged.iter().filter(|one| all || !one.judgement.is_right()) {
        let Judged { file, scenario, judgement } = one;
        let (name, verdict) = (&scenario.name, words_of(one));
        writeln!(out, "  {}:{}  {name}  {verdict}", escape_control_chars(file), scenario.line)?;
        writeln!(out, "    expected  {}", scenario.expected)?;
        writeln!(out, "    came      {}", came(&judgement.words))?;
    }
    Ok(())
}

const fn words_of(judged: &Judged) -> &'static str {
    match (judged.judgement.verdict, judged.judgement.named_as_expected) {
        (ScenarioVerdict::InTime, Some(false)) => "in time, about something else",
        (ScenarioVerdict::InTime, _) => "in time",
        (ScenarioVerdict::TooEarly, _) => "too early",
        (ScenarioVerdict::Late, _) => "late",
        (ScenarioVerdict::Missed, _) => "missed",
        (ScenarioVerdict::Quiet, _) => "quiet",
        (ScenarioVerdict::Spoken, _) => "spoken to",
    }
}

fn came(words: &[Spoken]) -> String {
    let Some((first, more)) = words.split_first() else { return "nothing".to_owned() };
    let text = one_line(&first.delivery.text(), WORDS_SHOWN);
    let later = match more.len() {
        0 => String::new(),
        more => format!(" (and {more} later)"),
    };
    format!("event {}, {}: {text}{later}", first.event, first.about())
}

/// A scenario as a line of JSON.
pub(super) fn line(judged: &Judged) -> Value {
    let Judged { file, scenario, judgement } = judged;
    let expect = match &scenario.expected {
        Expected::Quiet => json!("quiet"),
        Expected::Word { patterns, first, last } => {
            let patterns: Vec<&str> = patterns.iter().map(PatternType::as_str).collect();
            json!({"patterns": patterns, "first": first, "last": last})
        }
    };
    let words: Vec<Value> = judgement
        .words
        .iter()
        .map(|word| {
            let rung = word.delivery.why().map_or(1, |why| why.rung.0);
            json!({"event": word.event, "pattern": word.about(), "rung": rung,
                   "text": word.delivery.text()})
        })
        .collect();
    json!({
        "type": "scenario", "file": file, "line": scenario.line, "name": scenario.name,
        "expect": expect, "verdict": judgement.verdict.as_str(),
        "named_as_expected": judgement.named_as_expected, "words": words,
    })
}
