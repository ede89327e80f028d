//! Benchmark of a whole hook process, as a host starts one for each event. Compares
//! `midcourse hook` with a minimal hook in Python (`hook.py`) and with a process that does nothing;
//! both hooks on a run of 100 records and on a long one. Each round measures all of them in turn.
//! Also measures several `midcourse hook` processes that write to one run at the same time.
//!
//! `cargo bench -p midcourse-cli --bench hook`; `MIDCOURSE_BENCH_LONG` sets the number of records
//! of the long run, `MIDCOURSE_BENCH_ROUNDS` the number of rounds, and `MIDCOURSE_BENCH_BINARY` the
//! path of another `midcourse` binary to measure.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot continue stops"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use midcourse::{
    Budget, DataDir, Engine, Event, RunIdentity, Source, Store, StoreSettings, SyncedEngine,
    Timestamp, ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::json;

const SHORT: u64 = 100;
const WRITERS: usize = 8;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let long = setting("MIDCOURSE_BENCH_LONG", 1_000_000);
    let rounds = setting("MIDCOURSE_BENCH_ROUNDS", 400);
    let binary = std::env::var("MIDCOURSE_BENCH_BINARY")
        .map_or_else(|_| PathBuf::from(env!("CARGO_BIN_EXE_midcourse")), PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    let python = python();

    let mut subjects = vec![Subject::empty()];
    for length in [SHORT, long] {
        let home = folder.path().join(format!("home-{length}"));
        fill(&home, length);
        subjects.push(Subject::midcourse(&binary, &home, length));
        if let Some(python) = &python {
            let file = folder.path().join(format!("python-{length}.db"));
            fill_for_python(python, &file, length);
            subjects.push(Subject::python(python, &file, length));
        }
    }
    for round in 0..rounds {
        let input = event(round);
        for subject in &mut subjects {
            subject.run(&input);
        }
    }
    report(&mut subjects);
    writers(&binary, &folder.path().join("writers"), rounds / 2);
}

struct Subject {
    name: String,
    command: Vec<String>,
    home: Option<PathBuf>,
    took: Vec<Duration>,
}

impl Subject {
    fn empty() -> Self {
        let command = vec!["/bin/true".to_owned()];
        Self { name: "empty process".into(), command, home: None, took: Vec::new() }
    }

    fn midcourse(binary: &Path, home: &Path, length: u64) -> Self {
        let command = hook(binary);
        let name = format!("midcourse, {length} records");
        Self { name, command, home: Some(home.to_owned()), took: Vec::new() }
    }

    fn python(python: &str, file: &Path, length: u64) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/hook.py");
        let command = vec![python.to_owned(), script.to_owned(), file.display().to_string()];
        Self { name: format!("Python, {length} records"), command, home: None, took: Vec::new() }
    }

    fn run(&mut self, input: &str) {
        let begun = Instant::now();
        run(&self.command, self.home.as_deref(), input);
        self.took.push(begun.elapsed());
    }

    fn at(&mut self, share: f64) -> f64 {
        self.took.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index from a share"
        )]
        let index = ((self.took.len() - 1) as f64 * share) as usize;
        self.took[index].as_secs_f64() * 1e3
    }
}

fn run(command: &[String], home: Option<&Path>, input: &str) {
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(home) = home {
        child.env("MIDCOURSE_HOME", home);
    }
    let mut child = child.spawn().unwrap();
    // Writing fails if the process exits without reading its input, as `/bin/true` does.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    if let Some(home) = home {
        // A hook never exits with an error; it writes problems to its log.
        let log = std::fs::read_to_string(DataDir::at(home).log_file()).unwrap_or_default();
        assert_eq!(log, "");
    }
}

fn hook(binary: &Path) -> Vec<String> {
    [&binary.display().to_string(), "hook", "claude-code"].map(str::to_owned).to_vec()
}

fn output(number: u64) -> String {
    format!("line {number} of the build\n").repeat(70)
}

fn call(number: u64) -> String {
    format!("call-{number}-{}", uuid::Uuid::now_v7())
}

fn payload(number: u64) -> TrajectoryPayload {
    TrajectoryPayload::ToolEnded {
        tool_call_id: call(number).into(),
        tool_name: "Bash".into(),
        result: ToolResult::text(output(number)),
        is_error: number.is_multiple_of(10),
    }
}

/// The payload that Claude Code sends to a hook after a tool call.
fn event(number: u64) -> String {
    let mut payload = json!({"session_id": "run", "transcript_path": "/nowhere/run.jsonl", "cwd": "/",
        "prompt_id": "p", "permission_mode": "default", "effort": {"level": "high"},
        "tool_name": "Bash", "tool_use_id": call(number), "duration_ms": 12,
        "tool_input": {"command": format!("make target-{number}"), "description": "build"}});
    if number.is_multiple_of(10) {
        payload["hook_event_name"] = "PostToolUseFailure".into();
        payload["error"] = format!("Exit code 2\n{}", output(number)).into();
        payload["is_interrupt"] = false.into();
    } else {
        payload["hook_event_name"] = "PostToolUse".into();
        payload["tool_response"] = json!({"stdout": output(number), "stderr": "",
            "interrupted": false, "isImage": false, "noOutputExpected": false});
    }
    payload.to_string()
}

/// Stores a run with this many events, and the engine's saved state of that run.
fn fill(home: &Path, length: u64) {
    let run = RunIdentity::root("run");
    let source = Source::new("claude-code", midcourse::Channel::Hook);
    let mut store = Store::open(&DataDir::at(home), StoreSettings::default()).unwrap();
    let mut watch = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
    let start = Timestamp::from_unix_ms(1_790_000_000_000);
    let mut done = 0;
    while done + 1 < length {
        let batch = (length - 1 - done).min(2_000);
        let events = (done..done + batch).map(|number| {
            let at = Timestamp::from_unix_ms(start.unix_ms() + number * 1_000);
            Event::new(run.clone(), source.clone(), at, payload(number))
        });
        store.append_all(events).unwrap();
        done += batch;
    }
    // `fold` shows the engine all stored events. `step` stores the last event and also saves the
    // engine's state, as a hook does. This is much faster than a `step` for every event.
    store.fold("run", &mut watch).unwrap();
    store.step(Event::new(run, source, start, payload(done)), &mut watch).unwrap();
    let last: Vec<TrajectoryRecord> =
        store.records("run", done, 5).unwrap().into_iter().map(|r| r.into_record()).collect();
    assert!(!last.is_empty());
}

/// The path of the real Python interpreter; `None` if there is none. The `python3` in `PATH`
/// may be a script that starts the interpreter, which would add to the measured time.
fn python() -> Option<String> {
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let path = String::from_utf8(found.ok()?.stdout).ok()?.trim().to_owned();
    (!path.is_empty()).then_some(path)
}

fn fill_for_python(python: &str, file: &Path, length: u64) {
    let script = "
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute('PRAGMA journal_mode=WAL')
database.execute('CREATE TABLE runs (run_id TEXT PRIMARY KEY, next_seq INTEGER, state BLOB)')
database.execute('CREATE TABLE records (run_id TEXT, seq INTEGER, payload TEXT, UNIQUE (run_id, seq))')
payload = json.dumps({'kind': 'tool_ended', 'text': 'line of the build\\n' * 100})
length = int(sys.argv[2])
database.executemany('INSERT INTO records VALUES (?, ?, ?)', (('run', i, payload) for i in range(length)))
database.execute('INSERT INTO runs VALUES (?, ?, ?)', ('run', length, bytes(8192)))
database.commit()
";
    let status = Command::new(python)
        .args(["-c", script, &file.display().to_string(), &length.to_string()])
        .status();
    assert!(status.unwrap().success());
}

fn report(subjects: &mut [Subject]) {
    let empty = subjects[0].at(0.5);
    println!(
        "{:32} {:>9} {:>9} {:>9} {:>14}",
        "one event, ms", "median", "p90", "p99", "less an empty"
    );
    for subject in subjects.iter_mut() {
        let (median, p90, p99) = (subject.at(0.5), subject.at(0.9), subject.at(0.99));
        println!(
            "{:32} {median:>9.2} {p90:>9.2} {p99:>9.2} {:>14.2}",
            subject.name,
            median - empty
        );
    }
    let net = |subjects: &mut [Subject], start: &str, nth: usize| {
        subjects
            .iter_mut()
            .filter(|subject| subject.name.starts_with(start))
            .nth(nth)
            .map(|subject| subject.at(0.5) - empty)
    };
    let (ours, ours_long) = (net(subjects, "midcourse", 0), net(subjects, "midcourse", 1));
    let (theirs, theirs_long) = (net(subjects, "Python", 0), net(subjects, "Python", 1));
    println!("long/short {:.2}", ours_long.unwrap() / ours.unwrap());
    if let (Some(theirs), Some(theirs_long)) = (theirs, theirs_long) {
        println!(
            "Python/midcourse {:.1} short, {:.1} long",
            theirs / ours.unwrap(),
            theirs_long / ours_long.unwrap()
        );
    }
}

/// Measures eight threads that each start `events` hook processes, one after the other, all for the
/// same run. All processes have to succeed, and every event has to be stored.
fn writers(binary: &Path, home: &Path, events: u64) {
    let command = hook(binary);
    fill(home, 10);
    let before = Store::open_read_only(&DataDir::at(home)).unwrap().unwrap().run("run").unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| (0..events).for_each(|n| run(&command, Some(home), &event(n))));
        }
    });
    let took = begun.elapsed();
    let store = Store::open_read_only(&DataDir::at(home)).unwrap().unwrap();
    let after = store.run("run").unwrap();
    assert!(!midcourse::has_spilled(&DataDir::at(home)));
    let grown = after.unwrap().calls - before.unwrap().calls;
    assert_eq!(grown, events * u64::try_from(WRITERS).unwrap());
    assert!(store.verify_run(&"run".into()).unwrap().is_empty());
    println!(
        "{WRITERS} processes at once on one run: {grown} events, none failed, {:.0} events/s",
        f64::from(u32::try_from(grown).unwrap()) / took.as_secs_f64()
    );
}
