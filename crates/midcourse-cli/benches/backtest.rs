//! Benchmark of `midcourse backtest`, which replays a file of runs. Generates such a file and
//! measures three times: that of the command, that of only parsing the JSON lines with one thread,
//! and that of parsing them with one thread per processor. Each round measures all three, so that a
//! slow moment of the machine affects them alike. Also measures the command's memory for files of
//! three sizes.
//!
//! `cargo bench -p midcourse-cli --bench backtest [-- MEGABYTES]`

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot go on stops, and prints what it found"
)]

mod generated;
mod measured;

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use generated::{Dice, text};
use measured::measured;
use serde_json::{Value, json};

const ROUNDS: usize = 3;
const MEGABYTES: u64 = 2_000;

fn event(dice: &mut Dice, n: u64, at: u64) -> Value {
    let file = format!("src/module_{}.rs", dice.roll(40));
    match dice.roll(10) {
        0 => json!({"kind": "assistant", "text": text(dice, "I looked at it. "), "t": at}),
        1 | 2 => {
            json!({"kind": "tool", "tool": "Read", "args": {"file_path": file, "offset": n * 40,
                 "limit": 40}, "result": text(dice, ""), "is_error": false, "t": at})
        }
        3 => json!({"kind": "tool", "tool": "Edit", "args": {"file_path": file,
                 "old_string": text(dice, "old"), "new_string": text(dice, "new")},
                 "result": "The file has been updated.", "is_error": false, "t": at}),
        4 => {
            json!({"kind": "tool", "tool": "Bash", "args": {"command": "cargo test"}, "is_error": true,
                 "result": text(dice, &format!("error: test case_{n} failed\n")), "t": at})
        }
        _ => {
            json!({"kind": "tool", "tool": "Bash", "args": {"command": format!("grep -rn name_{n} src"),
                 "description": "search"}, "result": text(dice, ""), "is_error": null, "t": at})
        }
    }
}

fn generate(path: &Path, bytes: u64) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let (mut dice, mut written, mut run) = (Dice(42), 0, 0_u64);
    while written < bytes {
        let events: Vec<Value> =
            (0..20 + dice.roll(80)).map(|n| event(&mut dice, n, n * 11)).collect();
        let source = format!("source-{}", run % 7);
        let line = json!({"run_id": format!("run-{run}"), "source": source,
                          "success": run.is_multiple_of(3), "events": events});
        run += 1;
        let line = line.to_string();
        written += line.len() as u64 + 1;
        writeln!(out, "{line}").unwrap();
    }
    out.flush().unwrap();
}

/// Reads the file on one thread and parses its lines on `threads` threads; with 1, the same thread
/// does both. Returns the time taken.
fn parse(path: &Path, threads: usize) -> Duration {
    let begun = Instant::now();
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).unwrap());
    let mut next = || {
        let mut line = Vec::new();
        (reader.read_until(b'\n', &mut line).unwrap() > 0).then_some(line)
    };
    let read = |line: Vec<u8>| black_box(serde_json::from_slice::<Value>(&line).unwrap());
    if threads == 1 {
        while let Some(line) = next() {
            read(line);
        }
        return begun.elapsed();
    }
    let (send, lines) = sync_channel::<Vec<Vec<u8>>>(threads * 2);
    let lines = Mutex::new(lines);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let received = lines.lock().unwrap().recv();
                    let Ok(batch) = received else { return };
                    batch.into_iter().for_each(|line| drop(read(line)));
                }
            });
        }
        loop {
            let batch: Vec<Vec<u8>> = std::iter::from_fn(&mut next).take(8).collect();
            if batch.is_empty() {
                break;
            }
            send.send(batch).unwrap();
        }
        drop(send);
    });
    begun.elapsed()
}

/// Runs `midcourse backtest` on a file. Returns the time taken and the peak memory in KiB.
fn judge(path: &Path) -> (Duration, u64) {
    measured(Command::new(env!("CARGO_BIN_EXE_midcourse")).arg("backtest").arg(path))
}

fn main() {
    let megabytes =
        std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(MEGABYTES);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let corpus = folder.path().join("corpus.jsonl");
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("memory of the command, by size of the corpus:");
    for size in [megabytes / 20, megabytes / 4, megabytes] {
        generate(&corpus, size * 1_000_000);
        println!("  {size:>6} MB  {:>8} KiB", judge(&corpus).1);
    }
    let bytes = corpus.metadata().unwrap().len();
    #[expect(clippy::cast_precision_loss, reason = "a speed for people")]
    let speed = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 1..=ROUNDS {
        let found = [judge(&corpus).0, parse(&corpus, 1), parse(&corpus, threads)];
        println!(
            "round {round}: judged {:.0} MB/s, parsed by one thread {:.0}, by {threads} {:.0}",
            speed(found[0]),
            speed(found[1]),
            speed(found[2])
        );
        times.iter_mut().zip(found).for_each(|(times, time)| times.push(time));
    }
    let [judged, parsed, parsed_by_all] = times.map(|mut times| {
        times.sort_unstable();
        speed(times[ROUNDS / 2])
    });
    println!("medians over {} MB: judged {judged:.0} MB/s", bytes / 1_000_000);
    println!("  {:.2} of a parse by one thread ({parsed:.0} MB/s)", judged / parsed);
    println!(
        "  {:.2} of a parse by {threads} threads ({parsed_by_all:.0} MB/s)",
        judged / parsed_by_all
    );
}
