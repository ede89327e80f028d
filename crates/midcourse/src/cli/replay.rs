//! `midcourse replay`: what would have been said about a recorded run.

use std::fs;
use std::io::{Read, Write, stdin, stdout};
use std::path::Path;

use anyhow::{Context, Result, bail};
use midcourse::{Seen, watch};
use midcourse_core::{
    DecisionPoint, Delivery, Engine, Goals, OutcomeVerdict, TrajectoryRecord, parse_notation,
};
use serde_json::json;

/// Replays a file, or standard input.
pub(super) fn run(file: Option<&Path>, as_json: bool) -> Result<()> {
    let (name, bytes) = read(file)?;
    let text = String::from_utf8(bytes)
        .with_context(|| format!("{name} is not text: give records as JSON lines, or notation"))?;
    let records = if text.trim_start().starts_with('{') {
        records_of(&text).with_context(|| name.clone())?
    } else {
        parse_notation(&text).with_context(|| name.clone())?
    };
    if records.is_empty() {
        bail!("{name} holds no records: give records as JSON lines, or notation");
    }
    let mut engine = Engine::shipped(Goals::default());
    let mut out = stdout().lock();
    let mut deliveries = 0;
    // What was said then is an opinion, and is formed anew.
    for record in records.iter().filter(|record| !record.payload.is_opinion()) {
        let seen = watch(&mut engine, record, Some(DecisionPoint::PreToolSelection), || record.seq);
        deliveries += seen.said.len();
        if as_json {
            print_json(&mut out, &engine, record, &seen)?;
        } else {
            print_text(&mut out, &engine, &seen)?;
        }
    }
    let trajectory = engine.trajectory();
    let (calls, errors) = (trajectory.tool_call_count(), trajectory.error_count());
    if as_json {
        let line = json!({"type": "run", "records": records.len(), "calls": calls,
                          "errors": errors, "deliveries": deliveries});
        writeln!(out, "{line}")?;
    } else {
        let words = match deliveries {
            0 => "nothing to say".to_owned(),
            1 => "one thing said".to_owned(),
            more => format!("{more} things said"),
        };
        writeln!(out, "{calls} calls, {errors} of them failed; {words}.")?;
    }
    Ok(())
}

fn read(file: Option<&Path>) -> Result<(String, Vec<u8>)> {
    match file {
        Some(path) if path != Path::new("-") => {
            let name = path.display().to_string();
            let bytes = fs::read(path).with_context(|| format!("{name} cannot be read"))?;
            Ok((name, bytes))
        }
        _ => {
            let mut bytes = Vec::new();
            stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
            Ok(("standard input".to_owned(), bytes))
        }
    }
}

fn records_of(text: &str) -> Result<Vec<TrajectoryRecord>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("line {number} is not a trajectory record"))
        })
        .collect()
}

fn print_text(out: &mut impl Write, engine: &Engine, seen: &Seen) -> Result<()> {
    let call = engine.trajectory().tool_call_count();
    for fault in &seen.faults {
        writeln!(out, "call {call:>4}  fault     {fault}")?;
    }
    for outcome in &seen.outcomes {
        let words = match outcome.verdict {
            OutcomeVerdict::Cleared => "it was gone after",
            OutcomeVerdict::Ignored => "it was still there after",
            OutcomeVerdict::RunEnded => "the run ended after",
        };
        writeln!(out, "call {call:>4}  followed  {words} {} more calls", outcome.after_calls)?;
    }
    for pattern in &seen.patterns {
        writeln!(
            out,
            "call {call:>4}  seen      {} (confidence {:.2}, records {:?})",
            pattern.pattern_type(),
            pattern.confidence().value(),
            pattern.evidence(),
        )?;
    }
    for (_, delivery) in &seen.said {
        let why = delivery.why();
        let about = why.map_or_else(String::new, |why| {
            format!(", about {}, rung {}", why.cause.kind(), why.rung.0)
        });
        writeln!(out, "call {call:>4}  said      by {}{about}:", delivery.provider())?;
        for line in delivery.text().lines() {
            writeln!(out, "{:20}  {line}", "")?;
        }
    }
    Ok(())
}

fn print_json(
    out: &mut impl Write,
    engine: &Engine,
    record: &TrajectoryRecord,
    seen: &Seen,
) -> Result<()> {
    let call = engine.trajectory().tool_call_count();
    for fault in &seen.faults {
        writeln!(
            out,
            "{}",
            json!({"type": "fault", "seq": record.seq, "text": fault.to_string()})
        )?;
    }
    for outcome in &seen.outcomes {
        let line = json!({"type": "outcome", "seq": record.seq, "call": call,
                          "delivery_seq": outcome.delivery_seq, "verdict": outcome.verdict,
                          "after_calls": outcome.after_calls});
        writeln!(out, "{line}")?;
    }
    for pattern in &seen.patterns {
        let line = json!({"type": "pattern", "seq": record.seq, "call": call,
                          "pattern": pattern.pattern_type().as_str(),
                          "confidence": pattern.confidence(), "evidence": pattern.evidence()});
        writeln!(out, "{line}")?;
    }
    for (point, delivery) in &seen.said {
        writeln!(out, "{}", delivery_line(*point, delivery, record.seq, call))?;
    }
    Ok(())
}

fn delivery_line(
    point: DecisionPoint,
    delivery: &Delivery,
    seq: u64,
    call: u64,
) -> serde_json::Value {
    let (kind, confidence) = match delivery {
        Delivery::Feedback(..) => ("feedback", None),
        Delivery::Guidance(guidance) => ("guidance", Some(guidance.classification.confidence())),
    };
    let why = delivery.why();
    json!({
        "type": "delivery",
        "seq": seq,
        "call": call,
        "point": point,
        "kind": kind,
        "provider": delivery.provider(),
        "pattern": why.map(|why| why.cause.kind()),
        "rung": why.map(|why| why.rung),
        "confidence": confidence,
        "text": delivery.text(),
        "evidence": why.map(|why| &why.evidence),
    })
}
