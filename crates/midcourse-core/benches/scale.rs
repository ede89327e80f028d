//! Measures whether the engine gets slower in long runs: the time per call (three records) after
//! 100, 10,000 and 1,000,000 records.
//!
//! There are three engines, one for each of these lengths. Each round measures them one after the
//! other, so that a noisy machine disturbs all of them alike. For comparison, each round also
//! measures how long it takes to parse calls like these from JSON.

#![expect(clippy::print_stdout, reason = "a benchmark shows its figures")]

#[path = "calls.rs"]
mod calls;

use std::time::Instant;

use calls::{Call, Kind, calls, engine_after, run_call};
use midcourse_core::{Checkpoint, Engine};

const HISTORY: [u64; 3] = [100, 10_000, 1_000_000];
const ROUNDS: usize = 400;
const CALLS_PER_ROUND: u64 = 100;

struct Lane {
    records: u64,
    engine: Engine,
    start: Checkpoint,
    nanos: Vec<f64>,
}

fn main() {
    // Only `cargo bench` passes this flag. `cargo test` starts this program too, but without the
    // flag; then nothing is measured.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    println!("median and p99 of a step in ns, over {ROUNDS} interleaved rounds");
    println!("{:<10} {:>9} {:>9} {:>9} {:>12}", "kind", "records", "median", "p99", "checkpoint");
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    for kind in [Kind::Ordinary, Kind::Succeeding, Kind::Failing] {
        let name = format!("{kind:?}").to_lowercase();
        if wanted.as_ref().is_none_or(|wanted| *wanted == name) {
            measure(kind);
        }
    }
}

fn measure(kind: Kind) {
    let mut calls = calls(kind);
    let mut lanes: Vec<Lane> = HISTORY
        .into_iter()
        .filter_map(|records| {
            let engine = engine_after(records, &mut calls);
            let start = engine.checkpoint().ok()?;
            Some(Lane { records, engine, start, nanos: Vec::new() })
        })
        .collect();
    let texts: Vec<String> = calls.iter().map(json_of).collect();
    let mut parse_nanos = Vec::new();
    for _ in 0..ROUNDS {
        parse_nanos.push(time_parse(&texts));
        for lane in &mut lanes {
            // Go back to the checkpoint, so that every round begins with the same history.
            if lane.engine.restore(&lane.start).is_err() {
                return;
            }
            lane.nanos.push(time(&mut lane.engine, &mut calls, lane.records / 3));
        }
    }
    for lane in &mut lanes {
        lane.nanos.sort_by(f64::total_cmp);
        println!(
            "{:<10} {:>9} {:>9.0} {:>9.0} {:>10} B",
            format!("{kind:?}"),
            lane.records,
            quantile(&lane.nanos, 50),
            quantile(&lane.nanos, 99),
            lane.start.as_bytes().len(),
        );
    }
    parse_nanos.sort_by(f64::total_cmp);
    let parse = quantile(&parse_nanos, 50);
    let p99 = quantile(&parse_nanos, 99);
    println!("{:<10} {:>9} {parse:>9.0} {p99:>9.0}", format!("{kind:?}"), "parse");
    if let (Some(first), Some(last)) = (lanes.first(), lanes.last()) {
        let (first, last) = (quantile(&first.nanos, 50), quantile(&last.nanos, 50));
        println!(
            "{:<10} 1,000,000 / 100 = {:.3}; step / parse = {:.2}",
            format!("{kind:?}"),
            last / first,
            last / parse
        );
    }
}

fn time(engine: &mut Engine, calls: &mut [Call], from: u64) -> f64 {
    let count = calls.len() as u64;
    let start = Instant::now();
    for number in from..from + CALLS_PER_ROUND {
        let place = usize::try_from(number % count).unwrap_or(0);
        if let Some(call) = calls.get_mut(place) {
            std::hint::black_box(run_call(engine, call, number));
        }
    }
    start.elapsed().as_nanos() as f64 / CALLS_PER_ROUND as f64
}

/// The three records of a call, as one JSON array.
fn json_of(call: &Call) -> String {
    serde_json::to_string(call).unwrap_or_default()
}

fn time_parse(texts: &[String]) -> f64 {
    let start = Instant::now();
    for text in texts.iter().cycle().take(usize::try_from(CALLS_PER_ROUND).unwrap_or(0)) {
        std::hint::black_box(serde_json::from_str::<serde_json::Value>(text).is_ok());
    }
    start.elapsed().as_nanos() as f64 / CALLS_PER_ROUND as f64
}

fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let at = sorted.len() * percent / 100;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
