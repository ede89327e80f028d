//! Time and memory of a full step, by the number of events behind it.

#[path = "steps.rs"]
mod steps;

use divan::{AllocProfiler, Bencher};
use steps::{Kind, engine_after, steps, take};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const HISTORY: [u64; 3] = [100, 10_000, 1_000_000];

/// Take a 2 KB call in, all shipped detectors, feedback, one guidance decision.
#[divan::bench(args = HISTORY)]
fn ordinary_step(bencher: Bencher<'_, '_>, events: u64) {
    run(bencher, events, Kind::Ordinary);
}

/// The same where every call succeeds.
#[divan::bench(args = HISTORY)]
fn succeeding_step(bencher: Bencher<'_, '_>, events: u64) {
    run(bencher, events, Kind::Succeeding);
}

/// The same where every call fails with 1.8 KB of error text.
#[divan::bench(args = HISTORY)]
fn failing_step(bencher: Bencher<'_, '_>, events: u64) {
    run(bencher, events, Kind::Failing);
}

fn run(bencher: Bencher<'_, '_>, events: u64, kind: Kind) {
    let mut steps = steps(kind);
    let mut engine = engine_after(events, &mut steps);
    let (mut number, mut place) = (events / 3, 0);
    bencher.bench_local(|| {
        number += 1;
        place = (place + 1) % steps.len();
        steps.get_mut(place).map(|step| take(&mut engine, step, number))
    });
}

/// A whole run in one session: "max alloc" is the most memory it ever held.
#[divan::bench(args = HISTORY, sample_count = 1, sample_size = 1)]
fn session_memory(bencher: Bencher<'_, '_>, events: u64) {
    let mut steps = steps(Kind::Ordinary);
    bencher.bench_local(|| engine_after(events, &mut steps).trajectory().tool_call_count());
}

/// Saving and loading the fold, as every hook does.
#[divan::bench]
fn checkpoint_save(bencher: Bencher<'_, '_>) {
    let engine = engine_after(10_000, &mut steps(Kind::Ordinary));
    bencher.bench_local(|| engine.checkpoint());
}

#[divan::bench]
fn checkpoint_load(bencher: Bencher<'_, '_>) {
    let mut engine = engine_after(10_000, &mut steps(Kind::Ordinary));
    let Ok(checkpoint) = engine.checkpoint() else { return };
    bencher.bench_local(|| engine.restore(&checkpoint));
}
