//! `midcourse replay`: what would have been said about a recorded run.
//!
//! A run of a host is asked where the host was asked, with the configuration that is on record: so
//! what is said is what was said then, unless this release judges differently.

use std::fs;
use std::io::{Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use crate::apis::Api;
use crate::hosts::Host;
use crate::launch::Launch;
use anyhow::{Context, Result, bail};
use midcourse::{
    DecisionPoint, Delivery, Engine, OutcomeVerdict, Source, Step, TrajectoryPayload,
    TrajectoryRecord, parse_notation,
};
use serde::Deserialize;
use serde_json::json;

use super::open;
use crate::terminal::warn;
use crate::terms::Terms;

/// Which run, and how it is shown.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The recorded run; standard input if left out or `-`.
    #[arg(conflicts_with = "run")]
    file: Option<PathBuf>,
    /// A run in the store: its id, the beginning of its id, or `latest`.
    #[arg(long)]
    run: Option<String>,
    /// Print one JSON object a line instead of text.
    #[arg(long)]
    json: bool,
}

/// A record, and who reported it, where that is known.
#[derive(Deserialize)]
struct Told {
    #[serde(flatten)]
    record: TrajectoryRecord,
    source: Option<Source>,
    decision_point: Option<DecisionPoint>,
}

/// Replays a run of the store, a file, or standard input.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let records = match &arguments.run {
        Some(run) => stored(run)?,
        None => given(arguments.file.as_deref())?,
    };
    let mut replay = Replay::new(&records);
    let mut out = stdout().lock();
    let (mut said_now, mut said_then) = (Vec::new(), Vec::new());
    for told in &records {
        // What was said then is an opinion, and is formed anew.
        if told.record.payload.is_opinion() {
            said_then.extend(words_of(&told.record.payload));
            continue;
        }
        let seen = replay.watch(told)?;
        said_now.extend(seen.deliveries.iter().map(Delivery::text));
        if arguments.json {
            print_json(&mut out, &replay.engine, &told.record, &seen)?;
        } else {
            print_text(&mut out, &replay.engine, &seen)?;
        }
    }
    let trajectory = replay.engine.trajectory();
    let (calls, errors) = (trajectory.tool_call_count(), trajectory.error_count());
    if arguments.json {
        let line = json!({"type": "run", "records": records.len(), "calls": calls,
                          "errors": errors, "deliveries": said_now.len(),
                          "as_then": said_now == said_then});
        writeln!(out, "{line}")?;
    } else {
        let words = match said_now.len() {
            0 => "nothing to say".to_owned(),
            1 => "one thing said".to_owned(),
            more => format!("{more} things said"),
        };
        let then = match said_then.len() {
            0 if said_now.is_empty() || !replay.is_live() => String::new(),
            _ if said_now == said_then => ", the same as then".to_owned(),
            others => format!(", and not what was said then ({others} things)"),
        };
        writeln!(out, "{calls} calls, {errors} of them failed; {words}{then}.")?;
    }
    Ok(())
}

/// The words of something that was said.
fn words_of(payload: &TrajectoryPayload) -> Option<String> {
    match payload {
        TrajectoryPayload::FeedbackDelivered { text, .. } => Some(text.clone()),
        TrajectoryPayload::GuidanceDelivered { guidance, .. } => {
            Some(guidance.injection.content().to_owned())
        }
        _ => None,
    }
}

/// The engine on the terms of the run.
struct Replay {
    engine: Engine,
    host: Option<Host>,
    is_child: bool,
    /// Whether the engine was asked while the run was recorded; the records say where.
    was_live: bool,
}

impl Replay {
    fn new(records: &[Told]) -> Self {
        let mut sources = records.iter().filter_map(|told| told.source.as_ref());
        let is_proxied = sources.clone().any(|source| Api::way_of(source).is_some());
        // What a proxy says does not stay, so it says as much as it has to.
        let host = sources.find_map(|source| Host::named(source.host())).filter(|_| !is_proxied);
        let is_child = records.iter().any(|told| told.record.parent_run_id.is_some());
        let engine = Terms::shipped().engine(host, is_child);
        let was_live = records.iter().any(|told| told.decision_point.is_some());
        Self { engine, host, is_child, was_live }
    }

    /// Whether something was said then.
    const fn is_live(&self) -> bool {
        self.was_live
    }

    fn watch(&mut self, told: &Told) -> Result<Step> {
        let Told { record, source, decision_point } = told;
        // What others call a configuration is a name of theirs.
        let is_ours = source.as_ref().is_some_and(|source| source.way() == Launch::WAY);
        if let (TrajectoryPayload::ConfigApplied { config, .. }, true) = (&record.payload, is_ours)
        {
            // From here on it is judged like this; what it has seen stays.
            let so_far = self.engine.checkpoint()?;
            let terms = Terms::of_text(config);
            terms.remarks().iter().for_each(|left_out| warn(left_out));
            self.engine = terms.engine(self.host, self.is_child);
            self.engine.restore(&so_far)?;
        }
        let point = match self.was_live {
            true => *decision_point,
            false => Some(DecisionPoint::PreToolSelection),
        };
        Ok(self.engine.step(record, point))
    }
}

/// A run of the store.
fn stored(meant: &str) -> Result<Vec<Told>> {
    let store = open::to_read()?;
    let run = open::find_run(&store, meant)?;
    let records = store.records(run.run_id.as_str(), 0, usize::MAX)?;
    let told = records.into_iter().map(|stored| {
        let source = Some(Source::from(stored.source.as_str()));
        let decision_point = stored.decision_point;
        Told { record: stored.into_record(), source, decision_point }
    });
    Ok(told.collect())
}

/// A run from outside.
fn given(file: Option<&Path>) -> Result<Vec<Told>> {
    let (name, bytes) = read(file)?;
    let text = String::from_utf8(bytes)
        .with_context(|| format!("{name} is not text: give records as JSON lines, or notation"))?;
    let records = if text.trim_start().starts_with('{') {
        records_of(&text).with_context(|| name.clone())?
    } else {
        let records = parse_notation(&text).with_context(|| name.clone())?;
        records
            .into_iter()
            .map(|record| Told { record, source: None, decision_point: None })
            .collect()
    };
    if records.is_empty() {
        bail!("{name} holds no records: give records as JSON lines, or notation");
    }
    Ok(records)
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

fn records_of(text: &str) -> Result<Vec<Told>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("line {number} is not a trajectory record"))
        })
        .collect()
}

fn print_text(out: &mut impl Write, engine: &Engine, seen: &Step) -> Result<()> {
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
    for delivery in &seen.deliveries {
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
    seen: &Step,
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
    for delivery in &seen.deliveries {
        writeln!(out, "{}", delivery_line(delivery.decision_point(), delivery, record.seq, call))?;
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
        Delivery::Feedback { .. } => ("feedback", None),
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
