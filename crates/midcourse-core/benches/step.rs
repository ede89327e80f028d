//! Measures the time and memory that the engine needs for one call after 100, 10,000 and 1,000,000
//! records, and the time to save and load a checkpoint.

#[path = "calls.rs"]
mod calls;

use calls::{Kind, calls, engine_after, run_call};
use divan::{AllocProfiler, Bencher};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const HISTORY: [u64; 3] = [100, 10_000, 1_000_000];

/// The time to process the three records of one call of 2 KB with all shipped detectors and
/// providers. Every tenth call fails.
#[divan::bench(args = HISTORY)]
fn ordinary_step(bencher: Bencher<'_, '_>, records: u64) {
    run(bencher, records, Kind::Ordinary);
}

/// The time to process the three records of one call if every call of the run succeeds.
#[divan::bench(args = HISTORY)]
fn succeeding_step(bencher: Bencher<'_, '_>, records: u64) {
    run(bencher, records, Kind::Succeeding);
}

/// The time to process the three records of one call if every call of the run fails with 1.8 KB of
/// error text.
#[divan::bench(args = HISTORY)]
fn failing_step(bencher: Bencher<'_, '_>, records: u64) {
    run(bencher, records, Kind::Failing);
}

fn run(bencher: Bencher<'_, '_>, records: u64, kind: Kind) {
    let mut calls = calls(kind);
    let mut engine = engine_after(records, &mut calls);
    let (mut number, mut place) = (records / 3, 0);
    bencher.bench_local(|| {
        number += 1;
        place = (place + 1) % calls.len();
        calls.get_mut(place).map(|call| run_call(&mut engine, call, number))
    });
}

/// The memory that the engine needs for a whole run of `records` records. The column "max alloc" of
/// the output shows the peak.
#[divan::bench(args = HISTORY, sample_count = 1, sample_size = 1)]
fn session_memory(bencher: Bencher<'_, '_>, records: u64) {
    let mut calls = calls(Kind::Ordinary);
    bencher.bench_local(|| engine_after(records, &mut calls).trajectory().tool_call_count());
}

/// The time to save the session of a run with 10,000 records. An agent's hooks start a new process
/// for every event, and each process saves the session before it exits.
#[divan::bench]
fn checkpoint_save(bencher: Bencher<'_, '_>) {
    let engine = engine_after(10_000, &mut calls(Kind::Ordinary));
    bencher.bench_local(|| engine.checkpoint());
}

#[divan::bench]
fn checkpoint_load(bencher: Bencher<'_, '_>) {
    let mut engine = engine_after(10_000, &mut calls(Kind::Ordinary));
    let Ok(checkpoint) = engine.checkpoint() else { return };
    bencher.bench_local(|| engine.restore(&checkpoint));
}
