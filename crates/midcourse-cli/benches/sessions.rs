//! Benchmark of `midcourse backtest` on session files. Generates 1,000 sessions of Claude Code (500
//! MB) with calls, results and token counts, and measures three times: that of the command, that of
//! only parsing the lines into `serde_json::Value` with one thread, and that of parsing them with one
//! thread per processor. Each round measures all three, so that a slow moment of the machine affects
//! them alike. Also measures the command's memory for folders of three sizes, and `midcourse import`.
//!
//! `cargo bench -p midcourse-cli --bench sessions [-- SESSIONS]`

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
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use generated::{Dice, text};
use measured::measured;
use serde_json::{Value, json};

const ROUNDS: usize = 5;
const SESSIONS: u64 = 1_000;
const SESSION_BYTES: u64 = 500_000;

/// Writes one session as Claude Code does: a line for each block of a response, and a line with the
/// result of each call, which contains the result twice.
fn write_session(path: &Path, number: u64) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let mut dice = Dice(number + 42);
    let (session, mut written, mut n) =
        (format!("{number:08}-0000-4000-8000-000000000000"), 0, 0_u64);
    let mut line = |dice: &mut Dice, n: u64, kind: &str, message: Value, result: Option<Value>| {
        let mut line = json!({
            "parentUuid": format!("{:08}-1111-4111-8111-{n:012}", dice.roll(100_000_000)),
            "isSidechain": false, "userType": "external", "cwd": "/home/user/project",
            "sessionId": session, "version": "2.1.325", "gitBranch": "main", "type": kind,
            "message": message, "uuid": format!("{number:08}-2222-4222-8222-{n:012}"),
            "timestamp": format!("2026-11-{:02}T{:02}:{:02}:{:02}.084Z", 1 + number % 28, n / 3_600 % 24, n / 60 % 60, n % 60),
        });
        if let Some(result) = result {
            line["toolUseResult"] = result;
        }
        let line = line.to_string();
        writeln!(out, "{line}").unwrap();
        written += line.len() as u64 + 1;
        written
    };
    line(&mut dice, 0, "user", json!({"role": "user", "content": "make the tests pass"}), None);
    loop {
        n += 11;
        let id = format!("toolu_{number}_{n}");
        let file = format!("src/module_{}.rs", dice.roll(40));
        let (tool, input) = match dice.roll(10) {
            0..3 => ("Read", json!({"file_path": file, "offset": n * 40, "limit": 40})),
            3 => (
                "Edit",
                json!({"file_path": file, "old_string": text(&mut dice, "old"), "new_string": text(&mut dice, "new")}),
            ),
            4 => ("Bash", json!({"command": "cargo test", "description": "run the tests"})),
            _ => (
                "Bash",
                json!({"command": format!("grep -rn name_{n} src"), "description": "search"}),
            ),
        };
        let usage = json!({"input_tokens": 9, "cache_creation_input_tokens": 645,
            "cache_read_input_tokens": 18_277 + n, "output_tokens": 120, "service_tier": "standard",
            "cache_creation": {"ephemeral_5m_input_tokens": 645, "ephemeral_1h_input_tokens": 0}});
        let response = |block: Value| {
            json!({"model": "claude-opus-5-5", "id": format!("msg_{number}_{n}"),
            "type": "message", "role": "assistant", "content": [block], "stop_reason": "tool_use",
            "stop_sequence": null, "usage": usage})
        };
        if dice.roll(3) == 0 {
            let text = text(&mut dice, "I looked at it. ");
            line(&mut dice, n, "assistant", response(json!({"type": "text", "text": text})), None);
        }
        line(
            &mut dice,
            n,
            "assistant",
            response(json!({"type": "tool_use", "id": id, "name": tool, "input": input})),
            None,
        );
        let is_error = tool == "Bash" && input["command"] == "cargo test";
        let text =
            text(&mut dice, if is_error { "Exit code 101\nerror: test failed\n" } else { "" });
        let structured = match (tool, is_error) {
            (_, true) => json!(format!("Error: {text}")),
            ("Bash", _) => {
                json!({"stdout": text, "stderr": "", "interrupted": false, "isImage": false})
            }
            ("Edit", _) => {
                json!({"filePath": file, "oldString": input["old_string"], "newString": input["new_string"],
                "originalFile": text, "structuredPatch": [{"oldStart": 1, "lines": ["-a", "+b"]}]})
            }
            _ => {
                json!({"type": "text", "file": {"filePath": file, "content": text, "numLines": 40}})
            }
        };
        let content = json!([{"tool_use_id": id, "type": "tool_result", "content": text, "is_error": is_error}]);
        let written = line(
            &mut dice,
            n,
            "user",
            json!({"role": "user", "content": content}),
            Some(structured),
        );
        if written >= SESSION_BYTES {
            break;
        }
    }
}

/// Parses every line of the files on `threads` threads, one file at a time each. Returns the time.
fn parse(files: &[PathBuf], threads: usize) -> Duration {
    let (begun, next) = (Instant::now(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).unwrap());
                    let mut line = Vec::new();
                    while reader.read_until(b'\n', &mut line).unwrap() > 0 {
                        black_box(serde_json::from_slice::<Value>(&line).unwrap());
                        line.clear();
                    }
                }
            });
        }
    });
    begun.elapsed()
}

/// Runs a command of midcourse on a folder. Returns the time and the peak memory in KiB.
fn run(command: &str, folder: &Path, home: &Path) -> (Duration, u64) {
    let mut midcourse = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    measured(midcourse.arg(command).arg(folder).env("MIDCOURSE_HOME", home))
}

fn main() {
    let sessions = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(SESSIONS);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (folder, home) = (scratch.path().join("sessions"), scratch.path().join("home"));
    std::fs::create_dir(&folder).unwrap();
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut files: Vec<PathBuf> = Vec::new();
    println!("memory of `backtest`, by number of sessions:");
    for size in [sessions / 10, sessions / 3, sessions] {
        for number in files.len() as u64..size {
            let path = folder.join(format!("{number:08}.jsonl"));
            write_session(&path, number);
            files.push(path);
        }
        println!("  {size:>6}  {:>8} KiB", run("backtest", &folder, &home).1);
    }
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a speed for people")]
    let speed = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 1..=ROUNDS {
        let found = [run("backtest", &folder, &home).0, parse(&files, 1), parse(&files, threads)];
        let [judged, parsed, by_all] = found.map(speed);
        println!(
            "round {round}: backtest {judged:.0} MB/s, parsed by one thread {parsed:.0}, by {threads} {by_all:.0}"
        );
        times.iter_mut().zip(found).for_each(|(times, time)| times.push(time));
    }
    let [judged, parsed, by_all] = times.map(|mut times| {
        times.sort_unstable();
        speed(times[ROUNDS / 2])
    });
    println!("medians over {} MB: backtest {judged:.0} MB/s", bytes / 1_000_000);
    println!("  {:.2} of a parse by one thread ({parsed:.0} MB/s)", judged / parsed);
    println!("  {:.2} of a parse by {threads} threads ({by_all:.0} MB/s)", judged / by_all);
    #[expect(clippy::cast_precision_loss, reason = "a speed for people")]
    let per_worker = judged / threads as f64 / parsed;
    println!("  {per_worker:.2} of a parsing thread per worker");
    let (time, memory) = run("import", &folder, &home);
    println!("import into a new store: {:.0} MB/s, {memory} KiB", speed(time));
}
