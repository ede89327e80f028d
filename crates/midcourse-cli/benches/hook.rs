//! Benchmark of a whole hook process, as a host starts one for each event. Compares
//! `midcourse hook`, with and without another process that has the store open (as `midcourse run`
//! does), with an empty process, an empty static process, one bare commit of the same size with
//! SQLite in a static process, and a minimal hook in the fastest Python of this machine (`hook.py`).
//! The hooks write to a run of 100 records and to a long one. Each round measures all of them in
//! turn. Also measures several `midcourse hook` processes that write to one run at the same time.
//!
//! `cargo bench -p midcourse-cli --bench hook`; `MIDCOURSE_BENCH_LONG` sets the number of records
//! of the long run, `MIDCOURSE_BENCH_ROUNDS` the number of rounds, `MIDCOURSE_BENCH_BINARY` the
//! path of another `midcourse` binary to measure, and `MIDCOURSE_BENCH_DIR` the folder for the
//! stores (on the disk that matters).

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
    // This binary is static too, so it also stands for the two static processes to compare with.
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next()) {
        (Some("empty"), _) => return,
        (Some("commit"), Some(file)) => return bare_commit(&file),
        _ => {}
    }
    let long = setting("MIDCOURSE_BENCH_LONG", 1_000_000);
    let rounds = setting("MIDCOURSE_BENCH_ROUNDS", 400);
    let binary = std::env::var("MIDCOURSE_BENCH_BINARY")
        .map_or_else(|_| PathBuf::from(env!("CARGO_BIN_EXE_midcourse")), PathBuf::from);
    let place = std::env::var_os("MIDCOURSE_BENCH_DIR").unwrap_or(std::env::temp_dir().into());
    let folder = tempfile::tempdir_in(place).unwrap();
    // A copy, as `cargo install` makes one: the operating system maps the file that a linker has just
    // written in smaller pieces, which costs a hook up to a millisecond.
    let copy = folder.path().join("midcourse");
    std::fs::copy(&binary, &copy).unwrap();
    let binary = copy;
    let python = fastest_python();
    let this = std::env::current_exe().unwrap().display().to_string();
    let commits = folder.path().join("commits.db").display().to_string();
    prepare_bare_commits(&commits);

    let mut subjects = vec![
        Subject::new("empty process", &["/bin/true"]),
        Subject::new("empty static process", &[&this, "empty"]),
        Subject::new("bare commit, static", &[&this, "commit", &commits]),
    ];
    let mut open = Vec::new();
    for length in [SHORT, long] {
        let home = folder.path().join(format!("home-{length}"));
        fill(&home, length);
        subjects.push(Subject::midcourse(&binary, &home, &format!("midcourse, {length} records")));
        let home = folder.path().join(format!("open-{length}"));
        fill(&home, length);
        open.push(Store::open(&DataDir::at(&home), StoreSettings::default()).unwrap());
        let name = format!("midcourse, store open, {length} records");
        subjects.push(Subject::midcourse(&binary, &home, &name));
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
    drop(open);
    report(&mut subjects);
    writers(&binary, &folder.path().join("writers"), rounds / 2);
}

/// The number of database pages that a hook writes in a commit.
const PAGES_PER_COMMIT: usize = 7;

fn prepare_bare_commits(file: &str) {
    let database = rusqlite::Connection::open(file).unwrap();
    let mode: String = database.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    database.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, bytes BLOB)", []).unwrap();
    for _ in 0..PAGES_PER_COMMIT {
        database.execute("INSERT INTO pages (bytes) VALUES (zeroblob(3000))", []).unwrap();
    }
}

/// The least that a hook could do: opens a database, changes as many pages as a hook does, and
/// commits them.
fn bare_commit(file: &str) {
    let database = rusqlite::Connection::open(file).unwrap();
    database.execute_batch("PRAGMA synchronous=FULL; BEGIN IMMEDIATE").unwrap();
    let bytes = std::process::id().to_le_bytes().repeat(750);
    database.execute("UPDATE pages SET bytes = ?1", [bytes]).unwrap();
    database.execute_batch("COMMIT").unwrap();
}

struct Subject {
    name: String,
    command: Vec<String>,
    home: Option<PathBuf>,
    took: Vec<Duration>,
}

impl Subject {
    fn new(name: &str, command: &[&str]) -> Self {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Self { name: name.to_owned(), command, home: None, took: Vec::new() }
    }

    fn midcourse(binary: &Path, home: &Path, name: &str) -> Self {
        let (name, command) = (name.to_owned(), hook(binary));
        Self { name, command, home: Some(home.to_owned()), took: Vec::new() }
    }

    fn python(python: &str, file: &Path, length: u64) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/hook.py");
        // Without the environment and the `site` module, Python starts fastest.
        let file = file.display().to_string();
        Self::new(&format!("Python, {length} records"), &[python, "-I", "-S", script, &file])
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

/// The Python interpreter of this machine that starts fastest; `None` if there is none. Asks each for
/// its real path, because a name in `PATH` may be a script that starts the interpreter.
fn fastest_python() -> Option<String> {
    let names = (9..=15).map(|minor| format!("python3.{minor}"));
    let paths = names.chain(["python3".to_owned(), "/usr/bin/python3".to_owned()]);
    let found = paths.filter_map(|name| {
        let ask = Command::new(name).args(["-c", "import sys; print(sys.executable)"]).output();
        let path = String::from_utf8(ask.ok()?.stdout).ok()?.trim().to_owned();
        (!path.is_empty()).then_some(path)
    });
    let start = |path: &String| {
        let times = (0..7).map(|_| {
            let begun = Instant::now();
            let script = "import json, sqlite3";
            let _ = Command::new(path).args(["-I", "-S", "-c", script]).status();
            begun.elapsed()
        });
        times.min()
    };
    let fastest = found.min_by_key(start);
    println!("Python: {}", fastest.as_deref().unwrap_or("none"));
    fastest
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
    let mut net = |kind: &str| {
        let is_of_kind =
            |it: &&mut Subject| it.name.rsplit_once(", ").is_some_and(|it| it.0 == kind);
        let mut found = subjects.iter_mut().filter(is_of_kind).map(|it| it.at(0.5) - empty);
        (found.next(), found.next())
    };
    let ours = net("midcourse").0.unwrap();
    for kind in ["midcourse", "midcourse, store open", "Python"] {
        if let (Some(short), Some(long)) = net(kind) {
            println!("{kind}: long/short {:.2}, / midcourse {:.2}", long / short, short / ours);
        }
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
