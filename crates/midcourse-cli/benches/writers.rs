//! Benchmark of writing records from 1, 8 and 64 threads of one process. Compares the store's
//! writer thread, which commits several events at once, with plain code that appends each event as
//! a line to a file and syncs the file. Also measures how long `midcourse list` takes with
//! 100,000 runs.
//!
//! `cargo bench -p midcourse-cli --bench writers`; `MIDCOURSE_BENCH_EVENTS` sets the number of
//! events that all threads together write in a round.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on stops, and prints what it found"
)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use midcourse::{
    DataDir, Event, RunIdentity, Source, Store, StoreSettings, StoreWriter, Timestamp, ToolResult,
    TrajectoryPayload, TrajectorySink, now,
};

const ROUNDS: usize = 7;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let events = setting("MIDCOURSE_BENCH_EVENTS", 2_000);
    println!("{:>6} {:>16} {:>16} {:>8}", "tasks", "raw events/s", "store events/s", "ratio");
    for tasks in [1, 8, 64] {
        let folder = tempfile::tempdir().unwrap();
        let (mut raw, mut ours) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            raw.push(raw_loop(&folder.path().join(format!("raw-{round}")), tasks, events));
            ours.push(store(&folder.path().join(format!("store-{round}")), tasks, events));
        }
        let rate = |took: &mut Vec<Duration>| {
            took.sort_unstable();
            events as f64 / took[took.len() / 2].as_secs_f64()
        };
        let (raw, ours) = (rate(&mut raw), rate(&mut ours));
        println!("{tasks:>6} {raw:>16.0} {ours:>16.0} {:>8.2}", ours / raw);
    }
    list();
}

fn payload(call: &str) -> TrajectoryPayload {
    TrajectoryPayload::ToolEnded {
        tool_call_id: call.into(),
        tool_name: "bash".into(),
        result: ToolResult::text("a line of the build\n".repeat(60)),
        is_error: false,
    }
}

/// All tasks (threads) append lines to one file. A task locks the file, writes a line and syncs;
/// the other tasks wait for the lock. Returns the time for all events.
fn raw_loop(path: &Path, tasks: usize, events: usize) -> Duration {
    let file = Mutex::new(OpenOptions::new().append(true).create(true).open(path).unwrap());
    spread(tasks, events, |call| {
        let line = serde_json::to_string(&payload(&call)).unwrap() + "\n";
        let mut file = file.lock().unwrap();
        file.write_all(line.as_bytes()).unwrap();
        file.sync_data().unwrap();
    })
}

/// Each task records events of its own run through the store's writer thread, and waits until an
/// event is stored before it sends the next. Returns the time for all events.
fn store(home: &Path, tasks: usize, events: usize) -> Duration {
    let sink = StoreWriter::open(&DataDir::at(home), StoreSettings::default()).unwrap();
    let sink: Arc<dyn TrajectorySink> = Arc::new(sink);
    spread(tasks, events, |call| {
        let run = RunIdentity::root(call.split('-').next().unwrap());
        let source = Source::new("bench", midcourse::Channel::Library);
        sink.record_blocking(Event::new(run, source, now(), payload(&call))).unwrap();
    })
}

fn spread(tasks: usize, events: usize, work: impl Fn(String) + Sync) -> Duration {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for task in 0..tasks {
            let work = &work;
            scope.spawn(move || (0..events / tasks).for_each(|n| work(format!("{task}-{n}"))));
        }
    });
    begun.elapsed()
}

fn list() {
    let folder = tempfile::tempdir().unwrap();
    let home = DataDir::at(folder.path());
    let mut store = Store::open(&home, StoreSettings::default()).unwrap();
    let source = Source::new("bench", midcourse::Channel::Library);
    for batch in 0..20_u64 {
        let events = (0..5_000).map(|n| {
            let n = batch * 5_000 + n;
            let at = Timestamp::from_unix_ms(1_790_000_000_000 + n * 1_000);
            Event::new(RunIdentity::root(format!("run-{n}")), source.clone(), at, payload("c"))
        });
        store.append_all(events).unwrap();
    }
    drop(store);
    for args in [vec!["list"], vec!["list", "--json"]] {
        let mut took: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let begun = Instant::now();
                let output = std::process::Command::new(env!("CARGO_BIN_EXE_midcourse"))
                    .args(&args)
                    .env("MIDCOURSE_HOME", folder.path())
                    .output()
                    .unwrap();
                assert!(output.status.success());
                begun.elapsed()
            })
            .collect();
        took.sort_unstable();
        println!(
            "midcourse {} over 100000 runs: {:.0} ms",
            args.join(" "),
            took[ROUNDS / 2].as_secs_f64() * 1e3
        );
    }
}
