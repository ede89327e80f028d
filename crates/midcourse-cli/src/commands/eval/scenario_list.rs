//! Lists scenarios one by one: which message was expected, which was delivered, and after which
//! event.

use std::io::Write;

use anyhow::Result;
use midcourse::PatternType;
use serde_json::{Value, json};

use super::Evaluated;
use crate::commands::step_json::confidence_of;
use crate::display::{escape_control_chars, one_line};
use crate::scenario::{Expected, ScenarioResult, ScenarioVerdict};

/// Maximum length of a displayed message, in characters.
const MAX_SHOWN_TEXT: usize = 80;

/// Prints all scenarios or, if `all` is false, only those with an unexpected result.
pub(super) fn print(out: &mut impl Write, evaluated: &[Evaluated], all: bool) -> Result<()> {
    let is_shown = |one: &&Evaluated| all || !one.result.is_as_expected();
    if !evaluated.iter().any(|one| is_shown(&one)) {
        return Ok(());
    }
    writeln!(out, "\n{}:", if all { "All scenarios" } else { "Not as expected" })?;
    for one in evaluated.iter().filter(is_shown) {
        let Evaluated { file, scenario, result } = one;
        let (name, verdict) = (&scenario.name, describe_verdict(result));
        writeln!(out, "  {}:{}  {name}  {verdict}", escape_control_chars(file), scenario.line)?;
        writeln!(out, "    expected   {}", scenario.expected)?;
        writeln!(out, "    delivered  {}", describe_deliveries(result))?;
    }
    Ok(())
}

const fn describe_verdict(result: &ScenarioResult) -> &'static str {
    match (result.verdict, result.cause_as_expected) {
        (ScenarioVerdict::InTime, Some(false)) => "in time, other cause",
        (ScenarioVerdict::InTime, _) => "in time",
        (ScenarioVerdict::TooEarly, _) => "too early",
        (ScenarioVerdict::Late, _) => "late",
        (ScenarioVerdict::Missed, _) => "missed",
        (ScenarioVerdict::Quiet, _) => "quiet",
        (ScenarioVerdict::FalseAlarm, _) => "false alarm",
    }
}

fn describe_deliveries(result: &ScenarioResult) -> String {
    let mut deliveries = result.deliveries();
    let Some(first) = deliveries.next() else { return "nothing".to_owned() };
    let text = one_line(&first.delivery.text(), MAX_SHOWN_TEXT);
    let later = match deliveries.count() {
        0 => String::new(),
        later => format!(" (and {later} later)"),
    };
    format!("event {}, {}: {text}{later}", first.event, first.cause_name())
}

/// The JSON object that `eval --json` prints for a scenario.
pub(super) fn line(evaluated: &Evaluated) -> Value {
    let Evaluated { file, scenario, result } = evaluated;
    let expect = match &scenario.expected {
        Expected::Quiet => json!("quiet"),
        Expected::Message { patterns, first, last } => {
            let patterns: Vec<&str> = patterns.iter().map(PatternType::as_str).collect();
            json!({"patterns": patterns, "first": first, "last": last})
        }
    };
    let deliveries: Vec<Value> = result
        .deliveries()
        .map(|it| {
            let rung = it.delivery.why().map(|why| why.rung);
            json!({"event": it.event, "call": it.call, "cause": it.cause_name(), "rung": rung,
                   "confidence": confidence_of(it.delivery), "text": it.delivery.text()})
        })
        .collect();
    json!({
        "type": "scenario", "file": file, "line": scenario.line, "name": scenario.name,
        "expect": expect, "verdict": result.verdict.as_str(),
        "cause_as_expected": result.cause_as_expected, "deliveries": deliveries,
    })
}
