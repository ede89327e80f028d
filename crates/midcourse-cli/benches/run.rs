//! Benchmark of a whole run: the real Claude Code makes twelve tool calls that a scripted model
//! server asks for. Compares Claude Code alone, with hooks that do nothing, with `midcourse run`,
//! and with NeMo Relay (another program that records agents). Each round measures all in turn.
//!
//! `MIDCOURSE_CLIENTS=$(crates/midcourse-cli/tests/clients/install) cargo bench -p midcourse-cli --bench run`;
//! `MIDCOURSE_BENCH_RELAY` is the path of the program `nemo-relay` (left out if it is not set),
//! `MIDCOURSE_BENCH_ROUNDS` the number of rounds, and `MIDCOURSE_BENCH_BINARY` the path of another
//! `midcourse` binary to measure.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot continue stops"
)]

#[path = "../tests/it/clients/anthropic.rs"]
mod anthropic;
#[path = "../tests/it/clients/hook_events.rs"]
#[expect(dead_code, reason = "the tests use those of Codex too")]
mod hook_events;
#[path = "../tests/it/clients/http.rs"]
mod http;
#[path = "../tests/it/clients/model.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod model;
#[path = "../tests/it/clients/script.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod script;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use anthropic::Messages;
use model::Model;
use script::{Piece, Requester, Script, TASK, times};

const CALLS: usize = 12;
const LAST: &str = "I have finished.";

fn main() {
    let Some(clients) = std::env::var_os("MIDCOURSE_CLIENTS") else {
        println!("MIDCOURSE_CLIENTS is not set, so there is no Claude Code to run");
        return;
    };
    let claude =
        PathBuf::from(clients).join("node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    let rounds = std::env::var("MIDCOURSE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let binary = std::env::var("MIDCOURSE_BENCH_BINARY")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_midcourse").to_owned());
    let mut subjects = vec![
        Subject::new("bare", [], []),
        Subject::new("empty hooks", [], ["--settings".to_owned(), empty_hooks().to_string()]),
        Subject::new("midcourse run", [binary, "run".to_owned(), "--".to_owned()], []),
    ];
    if let Ok(relay) = std::env::var("MIDCOURSE_BENCH_RELAY") {
        let words = [relay, "run".into(), "--agent".into(), "claude".into(), "--".into()];
        subjects.push(Subject { names_the_client: false, ..Subject::new("NeMo Relay", words, []) });
    }
    for _ in 0..rounds.unwrap_or(21) {
        for subject in &mut subjects {
            let took = subject.run(&claude);
            subject.took.push(took);
        }
    }
    report(&mut subjects);
}

/// One way to run the client: alone, or with one of the programs that are compared.
struct Subject {
    name: &'static str,
    /// The program that starts the client and its arguments, such as `midcourse run --`. Empty if
    /// the client is started directly.
    starter: Vec<String>,
    /// Whether the path of the client follows `starter` on the command line. NeMo Relay finds the
    /// client itself.
    names_the_client: bool,
    /// Arguments for the client.
    options: Vec<String>,
    took: Vec<Duration>,
}

impl Subject {
    fn new(
        name: &'static str,
        starter: impl IntoIterator<Item = String>,
        options: impl IntoIterator<Item = String>,
    ) -> Self {
        let (starter, options) = (starter.into_iter().collect(), options.into_iter().collect());
        Self { name, starter, names_the_client: true, options, took: Vec::new() }
    }

    /// Runs the client once, in new temporary folders. Returns how long the client ran.
    fn run(&self, claude: &Path) -> Duration {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let call = |n: usize| {
            let input = json!({"command": format!("echo step {n}"), "description": "a step"});
            Piece::call(&format!("call-{n}"), "Bash", input)
        };
        let model = Model::start::<Messages>(Script::of_calls((0..CALLS).map(call), LAST));
        let address = format!("http://{}", model.address);
        let mut words = self.starter.clone();
        if self.names_the_client {
            words.push(claude.display().to_string());
        }
        words.extend(self.options.clone());
        words.extend(["-p", TASK, "--allowedTools", "Bash"].map(str::to_owned));
        let (program, words) = words.split_first().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(program);
        command
            .args(words)
            .env_clear()
            .env("PATH", format!("{}:{path}", claude.parent().unwrap().display()))
            .env("HOME", of("home"))
            .env("CLAUDE_CONFIG_DIR", of("config"))
            .env("MIDCOURSE_HOME", of("midcourse"))
            .env("ANTHROPIC_BASE_URL", &address)
            .env("NEMO_RELAY_ANTHROPIC_BASE_URL", &address)
            .env("ANTHROPIC_API_KEY", "dummy")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("DISABLE_ERROR_REPORTING", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .current_dir(of("project"))
            .stdin(Stdio::null());
        let begun = Instant::now();
        let output = command.output().unwrap();
        let took = begun.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(LAST), "{}: {output:?}", self.name);
        let requests = model.requests();
        let main = requests.iter().filter(|request| request.requester == Requester::Main).count();
        assert_eq!(main, CALLS + 1, "{}", self.name);
        took
    }
}

/// Settings with a hook that does nothing, for every hook event that midcourse uses.
fn empty_hooks() -> Value {
    let hook = json!([{"hooks": [{"type": "command", "command": "exec /bin/true"}]}]);
    let events = hook_events::CLAUDE_CODE.iter();
    let hooks: Map<String, Value> =
        events.map(|event| ((*event).to_owned(), hook.clone())).collect();
    json!({"hooks": hooks})
}

fn report(subjects: &mut [Subject]) {
    let mut medians = Vec::new();
    println!("{:16} {:>9} {:>9} {:>9}", "twelve calls, s", "median", "least", "most");
    for subject in subjects.iter_mut() {
        subject.took.sort_unstable();
        let at = |place: usize| subject.took.get(place).unwrap().as_secs_f64();
        let (median, last) = (at(subject.took.len() / 2), subject.took.len() - 1);
        println!("{:16} {median:>9.3} {:>9.3} {:>9.3}", subject.name, at(0), at(last));
        medians.push((subject.name, median));
    }
    let of = |name: &str| medians.iter().find(|(known, _)| *known == name).map(|(_, it)| *it);
    for (name, median) in &medians {
        if let (Some(bare), Some(empty)) = (of("bare"), of("empty hooks")) {
            println!("{name}: {:.2} x bare, {:.2} x empty hooks", median / bare, median / empty);
        }
    }
}
