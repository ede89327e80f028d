//! The command line: what it understands, and how its errors look.
//!
//! Results go to standard output, everything else to standard error. Exit code 0 is success, 1 an
//! error that says what to do (or a finding, for `verify`, or a line that is not held, for `eval`),
//! 2 a command line that was not understood.

mod backtest;
mod columns;
mod demo;
mod eval;
mod export;
mod figures;
mod files;
mod hook;
mod import;
mod line;
mod list;
mod open;
mod prune;
mod record;
mod replay;
mod run;
mod search;
mod show;
mod tail;
mod trust;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use midcourse::StoreError;

use crate::terminal::{eprint_line, warn};

/// Keeps unattended LLM agents on course.
///
/// midcourse records every step of an agent's run durably, watches the run as it unfolds, and says
/// a short, useful thing at the moment it matters: that the last attempts failed in the same way,
/// that it goes in circles, how much time is left.
///
/// Records are kept in the folder that MIDCOURSE_HOME names, else in the platform's folder for
/// data.
#[derive(Parser)]
#[command(name = "midcourse", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what midcourse does: a small agent goes in circles, is told, and recovers.
    ///
    /// The agent is a process of its own that really runs commands, in a temporary folder, and hears
    /// midcourse through its hooks. It needs no network, no key and nothing set up. The run is in
    /// the store afterwards.
    Demo(demo::Arguments),
    /// Run a coding agent under watch: recorded, told the time, and nudged when it goes wrong.
    ///
    /// The command runs as it would by itself, with its terminal, its signals and its exit code.
    /// For that process only, midcourse is put at its hooks (claude and codex are known by name), or
    /// between it and its model: any other command finds the address of a loopback proxy in
    /// OPENAI_BASE_URL and ANTHROPIC_BASE_URL.
    /// Deadlines and budgets tell; they never stop. At the end a summary goes to standard error.
    Run(run::Arguments),
    /// Stand between an agent and its model: record what is asked and answered, and say what is to
    /// be said in the request where it matters.
    ///
    /// For agents on Anthropic's Messages or OpenAI's Chat Completions. It prints the addresses to
    /// give to the agent as shell variables, and serves until it is stopped. `midcourse run` does
    /// all that by itself. What it does not understand passes through unchanged, and whatever goes
    /// wrong here, the agent's requests go through.
    #[cfg(feature = "proxy")]
    Proxy(crate::proxy::Arguments),
    /// Show the recorded runs, newest first.
    List(list::Arguments),
    /// Show one run, record by record.
    Show(show::Arguments),
    /// Show the latest records of a run or of all runs, and follow them.
    Tail(tail::Arguments),
    /// Find the records that hold some words.
    Search(search::Arguments),
    /// Write a run to standard output or a file, one record a line.
    Export(export::Arguments),
    /// Take in runs that were recorded elsewhere.
    ///
    /// The files hold trajectory records, one JSON object a line: what `export` writes, and what
    /// clark-agent writes. Importing the same file twice changes nothing.
    Import(import::Arguments),
    /// Check that runs are whole: no record missing, none changed, all readable.
    ///
    /// Exits with 1 if anything is found.
    Verify(verify::Arguments),
    /// Remove old runs.
    Prune(prune::Arguments),
    /// Approve a project's `midcourse.toml`, so that it counts.
    ///
    /// The file is shown first. It is approved where it lies and as it is: any change to it ends the
    /// approval. A project's file that is not approved is left out as a whole.
    Trust(trust::Arguments),
    /// Record events from standard input, one JSON object a line, and say what is to be said.
    Record(record::Arguments),
    Hook(hook::Arguments),
    /// Say what would have been said about runs that are over, when, and what was spent after it.
    ///
    /// Nothing is stored. The files hold runs in the neutral `events` format, one JSON object a
    /// line: `{run_id, source?, success?, deadline?, meta?, events: […]}`.
    Backtest(backtest::Arguments),
    /// Measure what is said against labelled scenarios.
    ///
    /// A file holds scenarios: a line `=== name`, a line `expect: quiet` or `expect:
    /// PATTERN[|PATTERN…] FIRST..LAST`, perhaps a line `why: …`, then the run in the notation of
    /// `replay`. FIRST is the earliest event with which a word may come, LAST the latest; an event
    /// is one line of the run, counted from 1. Words about a deadline or a budget do not count. The
    /// format is described in docs/scenarios.md.
    ///
    /// Exits with 1 if a line that is to be held is not.
    Eval(eval::Arguments),
    /// Say what would have been said about a recorded run.
    ///
    /// The run is one in the store, or records, one JSON object a line, or text in the notation
    /// that bug reports use, such as `bash make !! error: no rule`. What was said in it before is
    /// said anew, on the terms that are on record.
    Replay(replay::Arguments),
}

/// Runs the command line and reports what went wrong.
pub fn run() -> ExitCode {
    if let Some(arguments) = hooked() {
        return hook::run(&arguments);
    }
    let done = match Cli::parse().command {
        Command::Demo(arguments) => match demo::run(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Run(arguments) => match run::run(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        #[cfg(feature = "proxy")]
        Command::Proxy(arguments) => crate::proxy::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Tail(arguments) => tail::run(&arguments),
        Command::Search(arguments) => search::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Verify(arguments) => match verify::run(&arguments) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Command::Eval(arguments) => match eval::run(&arguments) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Command::Prune(arguments) => prune::run(&arguments),
        Command::Trust(arguments) => trust::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        // Ingested above already; it is among the commands to be described.
        Command::Hook(arguments) => return hook::run(&arguments),
        Command::Backtest(arguments) => backtest::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// The hook that this is, if it is one. A command line of a hook that is not understood must not end
/// with exit code 2, which would block the agent: it is not parsed as others are.
fn hooked() -> Option<hook::Arguments> {
    let mut words = std::env::args_os().skip(1);
    words.next().filter(|word| word == "hook")?;
    let words: Vec<_> = words.collect();
    let asks_for_help = words.iter().any(|word| word == "--help" || word == "-h");
    (!asks_for_help).then(|| hook::Arguments::read(words))
}

/// Whoever read our output has read enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Shows an error, and what to do about it.
fn report(error: &anyhow::Error) {
    warn(&format!("{error:#}"));
    if let Some(error) = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()) {
        eprint_line(&format!("hint: {}", error.hint()));
    }
}
