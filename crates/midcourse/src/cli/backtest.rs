//! `midcourse backtest`: what would have been said about runs that are over.

mod lines;
mod table;

use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use midcourse::{Spoken, Verdict};
use midcourse_core::Delivery;
use serde_json::{Value, json};

use super::{files, open, remark};
use table::Table;

/// Which runs, and how the answer is shown.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files or folders with runs; folders are searched for files that end in `.jsonl`.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The format of the files.
    #[arg(long, value_enum, default_value = "events")]
    format: lines::Format,
    /// Print one JSON object a line: what would have been said, then the run, for each run; then a
    /// summary.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let lines::Format::Events = arguments.format;
    let files = files::find(&arguments.paths, "jsonl")?;
    let bytes: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|m| m.len()).sum();
    let bar = open::progress(bytes, "backtesting");
    let mut out = BufWriter::new(stdout().lock());
    let (mut table, mut torn) = (Table::default(), 0_u64);
    lines::each_verdict(&files, |verdict, line_bytes| {
        bar.inc(line_bytes);
        torn += u64::from(verdict.torn.is_some());
        if verdict.events == 0 && verdict.torn.is_some() {
            return Ok(());
        }
        table.add(&verdict);
        if arguments.json {
            for spoken in &verdict.spoken {
                writeln!(out, "{}", delivery_line(&verdict, spoken))?;
            }
            writeln!(out, "{}", run_line(&verdict))?;
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    ensure!(table.runs() > 0, "there are no runs in these files: give `events`, one run a line");
    if torn > 0 {
        remark(&format!("{torn} lines are torn or foreign; they were read as far as they go"));
    }
    if arguments.json {
        writeln!(out, "{}", table.summary(torn))?;
    } else {
        table.print(&mut out)?;
    }
    Ok(out.flush()?)
}

fn delivery_line(verdict: &Verdict, spoken: &Spoken) -> Value {
    let (kind, confidence) = match &spoken.delivery {
        Delivery::Feedback(..) => ("feedback", None),
        Delivery::Guidance(guidance) => ("guidance", Some(guidance.classification.confidence())),
    };
    let why = spoken.delivery.why();
    json!({
        "type": "delivery", "run_id": verdict.run_id, "call": spoken.call, "event": spoken.event,
        "seq": spoken.seq, "point": spoken.point, "kind": kind,
        "provider": spoken.delivery.provider(), "pattern": why.map(|why| why.cause.kind()),
        "rung": why.map_or(1, |why| why.rung.0), "confidence": confidence,
        "text": spoken.delivery.text(),
        "evidence": why.map(|why| why.evidence.clone()).unwrap_or_default(), "stop": false,
    })
}

fn run_line(verdict: &Verdict) -> Value {
    let after = verdict.after_first_word();
    json!({
        "type": "run", "run_id": verdict.run_id, "source": verdict.source,
        "success": verdict.success, "events": verdict.events, "calls": verdict.calls,
        "errors": verdict.errors, "seconds": verdict.length.as_secs_f64(),
        "deliveries": verdict.spoken.len(),
        "first_call": verdict.spoken.first().map(|spoken| spoken.call),
        "calls_after": after.map(|(calls, _)| calls),
        "seconds_after": after.map(|(_, time)| time.as_secs_f64()),
        "unread": verdict.unread, "torn": verdict.torn,
    })
}
